import pytest
from PIL import Image

from appl.datasets.readers.miniimagenet import ravi_split
from appl.datasets.readers.tiny_imagenet import (
    miniimagenet_overlap,
    read_every_class,
    read_tiny_imagenet,
)
from appl.errors import DataError

MINI = ravi_split()
STRANGERS = ["n01443537", "n01629819", "n01641577"]  # classes of tiny-imagenet-200 only
NAMES = [*STRANGERS, MINI["train"][0], MINI["test"][0]]


@pytest.fixture
def root(tmp_path):
    for name in NAMES:
        folder = tmp_path / "train" / name / "images"
        folder.mkdir(parents=True)
        for i in (1, 0):
            Image.new("L", (8, 8)).save(folder / f"{name}_{i}.JPEG")
        (folder.parent / f"{name}_boxes.txt").write_text(f"{name}_0.JPEG\t0\t0\t7\t7\n")
    for part in ("val", "test"):
        (tmp_path / part / "images").mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / part / "images" / f"{part}_0.JPEG")
    return tmp_path


def test_the_training_images_of_the_named_classes_are_listed(root):
    splits = {"train": [NAMES[3], NAMES[0]], "validation": [NAMES[1]], "test": [NAMES[4]]}
    listing = read_tiny_imagenet(root, splits)
    assert listing.splits == {split: tuple(names) for split, names in splits.items()}
    assert set(listing.files) == {NAMES[0], NAMES[1], NAMES[3], NAMES[4]}
    for name, files in listing.files.items():
        folder = root / "train" / name / "images"
        assert files == [folder / f"{name}_0.JPEG", folder / f"{name}_1.JPEG"]


def test_without_a_split_every_class_is_a_training_class(root):
    (root / "train" / "notes.txt").write_text("no class")
    listing = read_every_class(root)
    assert listing.splits == {"train": tuple(sorted(NAMES))}
    # The fixture has two classes of miniImageNet that tiny-imagenet-200 has not.
    assert listing.provenance.kind == "different"
    known = read_tiny_imagenet(root, {"train": STRANGERS})
    assert str(known.provenance) == "partial: 3 of 200 classes, 6 of 100,000 images"


def test_classes_shared_with_miniimagenet_are_named_by_their_part():
    assert miniimagenet_overlap(NAMES) == {
        "train": (MINI["train"][0],),
        "validation": (),
        "test": (MINI["test"][0],),
    }


@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_training_class_of_miniimagenet_is_not_unseen(root, split):
    with pytest.raises(DataError, match=rf"1 of the 2 {split} classes .*\({NAMES[3]}\)"):
        read_tiny_imagenet(root, {"train": [NAMES[0]], split: [NAMES[1], NAMES[3]]})


def test_a_class_in_two_splits_is_not_unseen(root):
    with pytest.raises(DataError, match=f"class {NAMES[0]} is in the train split and again in val"):
        read_tiny_imagenet(root, {"train": NAMES[:2], "validation": NAMES[:1]})


def test_what_is_missing_is_said(root, tmp_path):
    with pytest.raises(DataError, match="has no folder train"):
        read_tiny_imagenet(root / "train", {"train": NAMES[:1]})
    with pytest.raises(DataError, match="class 'n99999999' of the train split is not there"):
        read_tiny_imagenet(root, {"train": ["n99999999"]})
