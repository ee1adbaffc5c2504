"""The readers on real packs, where a folder ../shared/data (or APPL_SHARED_DATA) has them."""

import json
import os
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from appl.datasets._registry import DATASETS
from appl.datasets.listing import list_folder
from appl.datasets.locate import open_data
from appl.datasets.packed import pack
from appl.datasets.provenance import published_counts
from appl.datasets.readers.miniimagenet import ravi_split, read_miniimagenet

REPOSITORY = Path(__file__).parents[2]
SHARED = Path(os.environ.get("APPL_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))
TARGETS = [name for name in DATASETS.names() if DATASETS.get(name).role == "target"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"no packs of real images in {SHARED}"),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Unpack the targets as their own script does: class folders, the JSON beside them."""
    root = tmp_path_factory.mktemp("packs")
    for name in TARGETS:
        with zipfile.ZipFile(SHARED / "targets" / f"{name}.zip") as archive:
            archive.extractall(root / name)
        notes = (SHARED / "targets" / f"{name}.json").read_bytes()
        (root / f"{name}.json").write_bytes(notes)
    return root


@pytest.mark.parametrize("name", TARGETS)
def test_a_pack_gives_what_stored_results_were_made_from(root, name, tmp_path, monkeypatch):
    listing = open_data(name, root).part("test")
    plain = list_folder(root / name)
    assert listing.name == plain.name
    assert list(listing.files.items()) == list(plain.files.items())  # order counts, too
    empty = Image.new("RGB", (4, 4))
    monkeypatch.setattr("appl.images.store.decode_for_square", lambda *_: empty)
    runs = json.loads((REPOSITORY / "docs" / "results" / "runs.json").read_text())
    stored = {run["data_digest"] for run in runs.values() if run["target"] == name}
    assert pack(listing, tmp_path, 4).digest in stored


@pytest.mark.parametrize(
    ("name", "provenance"),
    [
        ("cars", "partial: 49 of 196 classes, 1,989 of 8,144 images"),
        ("chestx", "partial: 7 of 7 classes, 1,091 of 25,848 images"),
        ("cropdiseases", "partial: 38 of 38 classes, 3,040 of 43,456 images"),
        ("cub", "partial: 50 of 200 classes, 2,200 of 11,788 images"),
        ("eurosat", "partial: 10 of 10 classes, 3,500 of 27,000 images"),
        ("isic", "partial: 7 of 7 classes, 3,048 of 10,015 images"),
        ("places", "stand-in: MiniPlaces: a 100-class, 128 px part of MIT Places2"),
        ("plantae", "stand-in: Oxford Flowers-102; stand-in for Plantae"),
    ],
)
def test_a_pack_is_named_for_what_it_is(root, name, provenance):
    assert str(open_data(name, root).provenance).startswith(provenance)


def test_lesions_and_patients_are_known(root):
    assert len(set(open_data("isic", root).groups.values())) == 2_640
    assert len(open_data("isic", root).groups) == 3_048
    chest = open_data("chestx", root)
    assert len(set(chest.groups.values())) == 464
    assert all(path.stem.startswith(patient) for path, patient in chest.groups.items())


@pytest.mark.parametrize("name", ["cub", "cars"])
def test_the_packs_of_fine_grained_sets_hold_the_novel_classes(root, name):
    # Their makers numbered the classes on their own, from the data sets' files.
    listing = open_data(name, root)
    assert set(listing.splits) == {"test"}
    assert listing.splits["test"] == tuple(published_counts(name))[3::4]


def test_miniimagenet_is_split_as_the_pack_says(tmp_path):
    split = json.loads((SHARED / "source" / "miniimagenet-split.json").read_text())
    ours = ravi_split()
    assert {"train": split["train"], "validation": split["val"], "test": split["test"]} == {
        part: list(names) for part, names in ours.items()
    }
    with zipfile.ZipFile(SHARED / "source" / "miniimagenet-mini.zip") as archive:
        archive.extractall(tmp_path)
    listing = read_miniimagenet(tmp_path)
    assert listing.splits == {part: ours[part] for part in ("validation", "test")}
    assert str(listing.provenance) == "partial: 36 of 100 classes, 2,160 of 60,000 images"
