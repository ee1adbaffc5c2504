import json

import pytest

from appl.datasets.readers import plantae as module
from appl.datasets.readers.plantae import read_plantae
from tests.datasets.readers.trees import fill, names_in, some, touch


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Six of eight classes, as 200 of 2,900."""
    monkeypatch.setattr(module, "N_CLASSES", 6)
    monkeypatch.setattr(module, "N_IMAGES_A_CLASS", 4)
    monkeypatch.setattr(module, "N_CLASSES_OF_INATURALIST", 8)


# Ties (twos and threes) are broken by the folder's name, never by the order of a directory.
COUNTS = {"5700": 3, "5691": 2, "5690": 2, "5699": 1, "5710": 5, "5705": 3, "5701": 2, "5698": 1}
RANKED = ["5690", "5691", "5701", "5700", "5705", "5710"]


@pytest.mark.parametrize("place", ["Plantae", "train_val2018/Plantae", "images", ""])
def test_the_largest_classes_are_ranked_by_count_and_name(tmp_path, place):
    fill(tmp_path / place, COUNTS)
    listing = read_plantae(tmp_path)
    assert listing.splits == {
        "train": ("5690", "5701", "5705"),
        "validation": ("5691", "5710"),
        "test": ("5700",),
    }
    assert list(listing.files) == sorted(RANKED)
    assert names_in(listing.files["5710"]) == ["0000.jpg", "0001.jpg", "0002.jpg", "0003.jpg"]
    assert listing.provenance.kind == "complete"
    assert "our own ranking by (number of files, folder name)" in listing.provenance.remark


def test_fewer_classes_than_inaturalist_has_are_a_part(tmp_path):
    del (counts := dict(COUNTS))["5698"]
    provenance = read_plantae(fill(tmp_path, counts)).provenance
    assert provenance.kind == "partial" and "6 of 7 classes by our own ranking" in provenance.remark


def test_too_few_classes_have_no_ranks(tmp_path):
    listing = read_plantae(fill(tmp_path, {"1": 2, "2": 1}))
    assert listing.splits == {"test": ("1", "2")}
    assert str(listing.provenance).startswith("partial: 2 of 6 classes: all are test classes")


def test_folders_without_numbers_are_a_stand_in(tmp_path):
    root = fill(tmp_path / "plantae", some(["001_pink_primrose", "016_globe-flower"]))
    listing = read_plantae(root)
    assert str(listing.provenance) == "stand-in: its classes are not iNaturalist's numbers"
    assert listing.splits == {"test": ("001_pink_primrose", "016_globe-flower")}
    (tmp_path / "plantae.json").write_text('{"title": "Oxford Flowers-102; stand-in"}')
    assert str(read_plantae(root).provenance) == "stand-in: Oxford Flowers-102; stand-in"


def test_the_authors_lists_keep_their_own_split(tmp_path):
    for part, name in {"base": "10", "val": "30", "novel": "20"}.items():
        content = {
            "label_names": ["10", "20", "30"],
            "image_names": [str(touch(tmp_path / "images" / name / "a.jpg"))],
            "image_labels": [["10", "20", "30"].index(name)],
        }
        (tmp_path / f"{part}.json").write_text(json.dumps(content))
    listing = read_plantae(tmp_path)
    assert listing.splits == {"train": ("10",), "validation": ("30",), "test": ("20",)}
    assert "their own split" in listing.provenance.remark
