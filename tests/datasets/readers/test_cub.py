import json

import pytest

from appl.datasets.provenance import published_counts
from appl.datasets.readers.cub import read_cub
from appl.errors import DataError
from tests.datasets.readers.trees import fill, names_in, some, touch

COUNTS = published_counts("cub")
CLASSES = list(COUNTS)


@pytest.mark.golden
def test_the_split_is_that_of_the_field(tmp_path):
    splits = read_cub(fill(tmp_path, some(CLASSES, 1))).splits
    assert [len(names) for names in splits.values()] == [100, 50, 50]
    assert [sum(COUNTS[n] for n in names) for names in splits.values()] == [5_885, 2_950, 2_953]
    assert [name[:3] for name in splits["test"]] == [f"{n:03d}" for n in range(4, 201, 4)]
    assert splits["train"][:2] == ("001.Black_footed_Albatross", "003.Sooty_Albatross")
    assert splits["train"][-1] == "199.Winter_Wren"
    assert splits["validation"][:2] == ("002.Laysan_Albatross", "006.Least_Auklet")
    assert splits["validation"][-1] == "198.Rock_Wren"
    assert splits["test"][:2] == ("004.Groove_billed_Ani", "008.Rhinoceros_Auklet")
    assert splits["test"][-1] == "200.Common_Yellowthroat"
    assert min(COUNTS[name] for name in splits["test"]) == 48


def write_lists(root):
    for part, chosen in {
        "base": CLASSES[0::2],
        "val": CLASSES[1::4],
        "novel": CLASSES[3::4],
    }.items():
        files = [str(touch(root / "f" / n / f"{k}.jpg")) for n in chosen for k in (1, 0)]
        content = {
            "label_names": CLASSES,
            "image_names": files,
            "image_labels": [CLASSES.index(n) for n in chosen for _ in (1, 0)],
        }
        (root / f"{part}.json").write_text(json.dumps(content))


@pytest.mark.parametrize("place", ["CUB_200_2011/images", "images", "CUB_200_2011", ""])
def test_class_folders(tmp_path, place):
    fill(tmp_path / place, some(CLASSES))
    touch(tmp_path / "segmentations.png")
    listing = read_cub(tmp_path)
    assert list(listing.files) == CLASSES and listing.n_images == 400
    assert names_in(listing.files[CLASSES[7]]) == ["0000.jpg", "0001.jpg"]


def test_a_copy_that_is_split_by_images_is_put_together(tmp_path):
    for part, number in (("train", 0), ("test", 1)):
        for name in CLASSES[:8]:
            touch(tmp_path / part / name / f"{number}.jpg")
    listing = read_cub(tmp_path)
    assert listing.layout == "class folders in train and test"
    assert listing.counts == some(CLASSES[:8])


def test_file_lists(tmp_path):
    write_lists(tmp_path)
    listing = read_cub(tmp_path)
    assert listing.n_images == 400 and listing.splits["test"] == tuple(CLASSES[3::4])
    assert names_in(listing.files[CLASSES[0]]) == ["0.jpg", "1.jpg"]
    (tmp_path / "f" / CLASSES[0] / "0.jpg").unlink()
    with pytest.raises(DataError, match=r"base\.json names '.*0\.jpg', which is not there"):
        read_cub(tmp_path)
    for broken in (
        '{"label_names": []}',
        '{"label_names": ["a"], "image_names": ["x"], "image_labels": [-1]}',
        '{"label_names": ["a"], "image_names": ["x"], "image_labels": [0, 0]}',
        "[1]",
        "{",
    ):
        (tmp_path / "base.json").write_text(broken)
        with pytest.raises(DataError, match=r"base\.json is no file list"):
            read_cub(tmp_path)


def test_a_part_keeps_the_numbers_of_its_classes(tmp_path):
    kept = ["007.Parakeet_Auklet", "008.Rhinoceros_Auklet", "012.Yellow_headed_Blackbird"]
    listing = read_cub(fill(tmp_path, some(kept)))
    # By place in the folder, 007 and 012 would be training classes.
    assert listing.splits == {"train": (kept[0],), "test": (kept[1], kept[2])}
    assert str(listing.provenance) == "partial: 3 of 200 classes, 6 of 11,788 images"
    assert list(listing.part("test").files) == kept[1:]
    with pytest.raises(DataError, match=r"has no validation classes \(it has train, test\)"):
        listing.part("validation")
