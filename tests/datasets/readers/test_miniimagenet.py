import hashlib
import json

import pytest
from PIL import Image

from appl.datasets.listing import list_folder
from appl.datasets.readers import miniimagenet as module
from appl.datasets.readers.miniimagenet import ravi_split, read_miniimagenet
from appl.errors import DataError

SPLIT = ravi_split()
NAMES = {
    "train": SPLIT["train"],
    "val": SPLIT["validation"],
    "test": SPLIT["test"],
}


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4)).save(path)
    return path


def every_class(root, folder_of):
    for part, names in NAMES.items():
        for name in names:
            for i in (2, 1):
                touch(root / folder_of(part, name) / f"{name}{i:08d}.jpg")
    return root


def write_csv(root):
    for part, names in NAMES.items():
        rows = ["filename,label"]
        for name in names:
            rows += [f"{name}{i:08d}.jpg,{name}" for i in (2, 1)]
            for i in (2, 1):
                touch(root / "images" / f"{name}{i:08d}.jpg")
        (root / f"{part}.csv").write_text("\n".join(rows) + "\n")
    return root


def write_json(root):
    for part, names in zip(("base", "val", "novel"), NAMES.values(), strict=True):
        files = [str(touch(root / "f" / f"{n}{i:08d}.jpg")) for n in names for i in (2, 1)]
        labels = [k for k in range(len(names)) for _ in (2, 1)]
        content = {"label_names": list(names), "image_names": files, "image_labels": labels}
        (root / f"{part}.json").write_text(json.dumps(content))
    return root


def write_original_csv(root, tree="train"):
    """The tree holds more images than the tables choose, and a class that is not wanted."""
    for part, names in NAMES.items():
        rows = ["class_name,image_name"]
        for name in names:
            for i in (20457, 7, 1):
                touch(root / tree / name / f"{name}_{i}.JPEG")
            rows += [f"{name},{name}_{i}.JPEG" for i in (7, 20457)]
        (root / f"{part}.csv").write_text("\n".join(rows) + "\n")
    touch(root / tree / "n01440764" / "n01440764_1.JPEG")
    return root


@pytest.mark.golden
def test_the_split_has_its_classes():
    assert [len(names) for names in SPLIT.values()] == [64, 16, 20]
    assert len({name for names in SPLIT.values() for name in names}) == 100
    assert "n01532829" in SPLIT["train"] and "n09256479" in SPLIT["validation"]
    assert "n07613480" in SPLIT["test"]
    # Of the ids in their published order, joined by blanks.
    digests = [
        hashlib.sha256(" ".join(names).encode()).hexdigest()[:16] for names in SPLIT.values()
    ]
    assert digests == ["be048a0de45b4bc4", "5124b4fddbb708d8", "460d8d798f59aaa1"]


@pytest.mark.parametrize(
    ("make", "layout"),
    [
        (lambda root: every_class(root, lambda part, name: name), "class folders"),
        (lambda root: every_class(root, lambda part, name: f"{part}/{name}"), "under train"),
        (write_csv, "train.csv"),
        (write_json, "base.json"),
    ],
)
def test_every_layout_gives_the_same_listing(tmp_path, make, layout):
    listing = read_miniimagenet(make(tmp_path))
    assert layout in listing.layout
    assert listing.splits == SPLIT
    assert listing.n_images == 200
    assert str(listing.provenance) == "partial: 100 of 100 classes, 200 of 60,000 images"
    for name, files in listing.files.items():
        assert [f.name for f in files] == [f"{name}00000001.jpg", f"{name}00000002.jpg"]


def test_a_copy_of_the_base_classes_alone_has_one_split(tmp_path):
    for name in SPLIT["train"]:
        touch(tmp_path / name / "a.jpg")
    assert list(read_miniimagenet(tmp_path).splits) == ["train"]


def test_what_is_wrong_is_said(tmp_path):
    with pytest.raises(DataError, match="is not a folder"):
        read_miniimagenet(tmp_path / "absent")
    with pytest.raises(DataError, match="no layout that we know"):
        read_miniimagenet(tmp_path)
    (tmp_path / "images_background").mkdir()
    with pytest.raises(DataError, match="not the Ravi split"):
        read_miniimagenet(tmp_path)


def test_a_file_that_a_csv_names_and_is_not_there(tmp_path):
    root = write_csv(tmp_path)
    gone = f"{SPLIT['train'][0]}00000001.jpg"
    (root / "images" / gone).unlink()
    with pytest.raises(DataError, match=f"names '{gone}', which is not in images/"):
        read_miniimagenet(root)
    (root / "train.csv").write_text("file,class\n")
    with pytest.raises(DataError, match="expected the header filename,label"):
        read_miniimagenet(root)


def test_a_split_with_a_missing_class_is_named(tmp_path):
    touch(tmp_path / "leaf" / "a.jpg")
    with pytest.raises(DataError, match="class 'stem' of the train split is not there"):
        list_folder(tmp_path, {"train": ["leaf", "stem"]})
    assert list_folder(tmp_path).splits == {"test": ("leaf",)}


@pytest.mark.parametrize("tree", ["", "images", "train", "ILSVRC/Data/CLS-LOC/train"])
def test_original_names_are_found_in_the_imagenet_tree(tmp_path, tree):
    listing = read_miniimagenet(write_original_csv(tmp_path, tree))
    assert "original names" in listing.layout
    assert listing.splits == SPLIT
    for name, files in listing.files.items():
        folder = tmp_path / tree / name
        assert files == [folder / f"{name}_20457.JPEG", folder / f"{name}_7.JPEG"]


def test_what_is_missing_of_the_imagenet_tree_is_named(tmp_path):
    root = write_original_csv(tmp_path)
    name = SPLIT["validation"][0]
    (root / "train" / name / f"{name}_7.JPEG").unlink()
    with pytest.raises(
        DataError, match=rf"val\.csv names '{name}_7\.JPEG', which is not in .*train"
    ):
        read_miniimagenet(root)
    (root / "train" / name).rename(root / "elsewhere")
    with pytest.raises(DataError, match=rf"val\.csv names class '{name}', which has no folder"):
        read_miniimagenet(root)
    (root / "val.csv").write_text("filename,label\n")
    with pytest.raises(DataError, match=r"val\.csv: expected the header class_name,image_name"):
        read_miniimagenet(root)


def test_a_short_row_is_no_crash(tmp_path):
    root = write_csv(tmp_path)
    (root / "train.csv").write_text("label,filename\nn01532829\n")
    with pytest.raises(DataError, match="names '', which is not in images/"):
        read_miniimagenet(root)


def test_imagenet_itself_is_not_taken_for_miniimagenet(tmp_path, monkeypatch):
    root = every_class(tmp_path, lambda part, name: name)
    monkeypatch.setattr(module, "N_IMAGES_A_CLASS", 1)
    with pytest.raises(DataError, match="has 2 images, miniImageNet 1; if this is ImageNet itself"):
        read_miniimagenet(root)


@pytest.mark.parametrize(
    "name", ["mini-imagenet-cache-validation.pkl", "miniImageNet_category_split_val.pickle"]
)
def test_a_folder_of_pickles_is_answered_with_the_command_that_converts_it(tmp_path, name):
    root = tmp_path / "my data"
    root.mkdir()
    (root / name).write_bytes(b"never opened")
    with pytest.raises(DataError, match=f"miniimagenet_pickles '{root}' NEW_FOLDER"):
        read_miniimagenet(root)
