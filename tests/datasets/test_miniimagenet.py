import json

import pytest
from PIL import Image

from appl.datasets.listing import list_folder
from appl.datasets.miniimagenet import ravi_split, read_miniimagenet
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


@pytest.mark.golden
def test_the_split_has_its_classes():
    assert [len(names) for names in SPLIT.values()] == [64, 16, 20]
    assert len({name for names in SPLIT.values() for name in names}) == 100
    assert "n01532829" in SPLIT["train"] and "n09256479" in SPLIT["validation"]
    assert "n07613480" in SPLIT["test"]


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
