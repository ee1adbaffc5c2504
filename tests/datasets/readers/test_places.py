import json

import pytest

from appl.datasets.provenance import published_counts
from appl.datasets.readers import places as module
from appl.datasets.readers.places import read_places
from tests.datasets.readers.trees import fill, names_in, some, touch

CLASSES = list(published_counts("places"))
SOME = ["airfield", "airplane_cabin", "alcove", "bakery-shop", "church-indoor", "zen_garden"]


@pytest.mark.golden
def test_the_split_counts_the_sorted_folders(tmp_path):
    splits = read_places(fill(tmp_path / "train", some(CLASSES, 1))).splits
    assert [len(names) for names in splits.values()] == [183, 91, 91]
    assert splits["train"][:2] == ("airfield", "airport_terminal")
    assert splits["train"][-2:] == ("yard", "zen_garden")
    assert splits["validation"][0] == "airplane_cabin" and splits["validation"][-1] == "windmill"
    assert splits["test"][0] == "alcove" and splits["test"][-1] == "youth_hostel"


def easy(root):
    fill(root / "places365_standard" / "train", some(SOME))
    fill(root / "places365_standard" / "val", some(SOME, 1))


def lettered(root):
    for name in SOME:
        path = root / "data_256" / name[0] / name.replace("-", "/")
        fill(path.parent, {path.name: 2})


def lists(root):
    content = {
        "label_names": SOME,
        "image_names": [str(touch(root / "f" / f"{k:04d}.jpg")) for k in range(12)],
        "image_labels": [k // 2 for k in range(12)],
    }
    (root / "base.json").write_text(json.dumps(content))


@pytest.mark.parametrize("make", [easy, lettered, lists, lambda root: fill(root, some(SOME))])
def test_every_layout_gives_the_same_classes_and_split(tmp_path, make):
    make(tmp_path)
    listing = read_places(tmp_path)
    assert listing.counts == some(SOME)
    assert "alcove" in listing.splits["test"] and "zen_garden" in listing.splits["train"]
    assert str(listing.provenance) == "partial: 6 of 365 classes, 12 of 73,000 images"


@pytest.mark.parametrize("make", [lambda root: root, lambda root: root / "data_large" / "a"])
def test_the_first_files_by_name_are_taken(tmp_path, monkeypatch, make):
    monkeypatch.setattr(module, "N_IMAGES_A_CLASS", 3)
    fill(make(tmp_path), {"alcove": 5})
    listing = read_places(tmp_path)
    assert names_in(listing.files["alcove"]) == ["0000.jpg", "0001.jpg", "0002.jpg"]


def test_miniplaces_is_a_stand_in(tmp_path):
    root = tmp_path / "places"
    fill(root, some(["abbey", "airport_terminal", "temple-east_asia"]))
    listing = read_places(root)
    assert listing.splits == {"test": ("abbey", "airport_terminal", "temple-east_asia")}
    assert str(listing.provenance) == (
        "stand-in: 2 of its 3 classes are not of Places365 (abbey, temple-east_asia)"
    )
    (tmp_path / "places.json").write_text('{"title": "MiniPlaces; stand-in for Places365"}')
    assert str(read_places(root).provenance) == "stand-in: MiniPlaces; stand-in for Places365"


def test_a_stand_in_is_known_by_its_title_alone(tmp_path):
    fill(tmp_path / "places", some(["airfield", "alcove"]))
    (tmp_path / "places.json").write_text('{"title": "a stand-in"}')
    listing = read_places(tmp_path / "places")
    assert listing.provenance.kind == "stand-in"
    assert listing.splits == {"test": ("airfield", "alcove")}
