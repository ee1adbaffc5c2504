import os
import pickle

import numpy as np
import pytest
from PIL import Image

from appl.datasets.miniimagenet_pickles import main, unpack_pickles
from appl.datasets.readers.miniimagenet import ravi_split, read_miniimagenet
from appl.errors import DataError
from tests.datasets.pickled import python2_array, python2_dict, python2_pickle

SPLIT = ravi_split()
KNOWN = SPLIT["train"][0]
PX = 4


def pixels(n, seed):
    return np.random.default_rng(seed).integers(0, 256, (n, PX, PX, 3), dtype=np.uint8)


def write_cache(root, protocol=4):
    """Form A; validation and test are exchanged, as in a copy that is around."""
    images = {}
    for part, split in {"train": "train", "validation": "test", "test": "validation"}.items():
        data = pixels(2 * len(SPLIT[split]), len(part))
        class_dict = {name: [2 * k + 1, 2 * k] for k, name in enumerate(SPLIT[split])}
        images |= {name: data[indices] for name, indices in class_dict.items()}
        content = {"image_data": data, "class_dict": class_dict}
        path = root / f"mini-imagenet-cache-{part}.pkl"
        path.write_bytes(pickle.dumps(content, protocol))
    return images


def write_category_split(root):
    """Form B by Python 2: the labels go on from file to file, every table names all classes."""
    names = [name for split in SPLIT.values() for name in split]
    table = python2_dict(**{name: b"K" + bytes([k]) for k, name in enumerate(names)})
    images = {}
    parts = dict(zip(("train_phase_train", "val", "test"), SPLIT.values(), strict=True))
    for part, members in (parts | {"train_phase_val": SPLIT["train"]}).items():
        labels = [names.index(name) for name in members] * 2
        data = pixels(len(labels), len(part))
        opcodes = python2_dict(
            data=python2_array(data.shape, data.tobytes()),
            labels=b"](" + b"".join(b"K" + bytes([k]) for k in labels) + b"e",
            catname2label=table,
        )
        path = root / f"miniImageNet_category_split_{part}.pickle"
        path.write_bytes(python2_pickle(opcodes))
        if part != "train_phase_val":
            images |= {name: data[i :: len(members)] for i, name in enumerate(members)}
    return images


def write_one(root, **content):
    root.mkdir(exist_ok=True)
    (root / "mini-imagenet-cache-train.pkl").write_bytes(pickle.dumps(content))
    return root


@pytest.mark.parametrize("write", [write_cache, write_category_split])
def test_pickles_become_class_folders_with_the_same_pixels(tmp_path, write):
    images = write(tmp_path)
    assert unpack_pickles(tmp_path, tmp_path / "new" / "out") == 200
    listing = read_miniimagenet(tmp_path / "new" / "out")
    assert listing.splits == SPLIT and listing.layout == "class folders"
    for name, files in listing.files.items():
        assert np.array_equal([np.asarray(Image.open(f)) for f in files], images[name])
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["out"]


def test_a_pickle_of_labels_under_this_python(tmp_path):
    name = SPLIT["test"][0]
    content = {"data": pixels(2, 0), "labels": [80, 80], "catname2label": {name: 80}}
    path = tmp_path / "miniImageNet_category_split_test.pickle"
    path.write_bytes(pickle.dumps(content))
    assert unpack_pickles(tmp_path, tmp_path / "out") == 2
    assert sorted(p.name for p in (tmp_path / "out" / name).iterdir()) == ["00000.png", "00001.png"]


def test_a_pickle_that_runs_code_leaves_nothing(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'ran'}",)

    write_cache(tmp_path)
    (tmp_path / "mini-imagenet-cache-test.pkl").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(DataError, match=r"cache-test\.pkl is refused: .*system"):
        unpack_pickles(tmp_path, tmp_path / "out")
    assert {p.suffix for p in tmp_path.iterdir()} == {".pkl"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"image_data": 1}, "lacks the keys image_data, class_dict or data, labels, catname2label"),
        ({"image_data": pixels(2, 0), "class_dict": [0, 1]}, "do not hold what they should"),
        ({"image_data": pixels(2, 0), "class_dict": {}}, "do not hold what they should"),
        ({"image_data": pixels(2, 0), "class_dict": {KNOWN: [0, 2]}}, "each of its 2 images once"),
        ({"image_data": pixels(2, 0), "class_dict": {KNOWN: [0]}}, "each of its 2 images once"),
        ({"image_data": pixels(1, 0), "class_dict": {"../out": [0]}}, r"class '\.\./out' is not"),
        ({"image_data": pixels(1, 0) / 255, "class_dict": {KNOWN: [0]}}, "images of float64"),
        ({"image_data": pixels(1, 0)[0], "class_dict": {KNOWN: [0, 1, 2, 3]}}, "images of uint8"),
        (
            {"data": pixels(2, 0), "labels": [0, 1], "catname2label": {KNOWN: 0}},
            "each of its 2 images once",
        ),
    ],
)
def test_a_pickle_with_other_content_is_named_and_leaves_nothing(tmp_path, content, said):
    root = write_one(tmp_path / "in", **content)
    with pytest.raises(DataError, match=rf"cache-train\.pkl.*{said}"):
        unpack_pickles(root, tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


def test_the_same_classes_in_two_pickles_are_not_added_up(tmp_path):
    write_cache(tmp_path)
    validation = tmp_path / "mini-imagenet-cache-validation.pkl"
    (tmp_path / "mini-imagenet-cache-val.pkl").write_bytes(validation.read_bytes())
    with pytest.raises(DataError, match="was in another pickle too"):
        unpack_pickles(tmp_path, tmp_path / "out")


def test_nothing_is_overwritten_and_nothing_found_is_said(tmp_path):
    with pytest.raises(DataError, match="holds no pickles"):
        unpack_pickles(tmp_path, tmp_path / "out")
    write_cache(tmp_path)
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError, match="is there already; give a new folder"):
        unpack_pickles(tmp_path, tmp_path / "out")


def test_the_command_converts_and_says_what_is_wrong(tmp_path, capsys):
    write_cache(tmp_path)
    arguments = [str(tmp_path), str(tmp_path / "out")]
    main(arguments)
    assert capsys.readouterr().out == f"200 images written to {tmp_path / 'out'}\n"
    with pytest.raises(SystemExit, match=r"appl: .* is there already"):
        main(arguments)
    with pytest.raises(SystemExit, match="two arguments"):
        main([])
