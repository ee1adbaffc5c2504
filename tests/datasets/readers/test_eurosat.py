import pytest

from appl.datasets.provenance import published_counts
from appl.datasets.readers.eurosat import read_eurosat
from appl.errors import DataError
from tests.datasets.readers.trees import fill, names_in, some, touch

CLASSES = published_counts("eurosat")


@pytest.mark.parametrize("place", ["", "2750", "EuroSAT/2750", "EuroSAT", "EuroSAT_RGB"])
def test_every_layout_gives_the_same_classes(tmp_path, place):
    fill(tmp_path / place, some(CLASSES))
    listing = read_eurosat(tmp_path)
    assert list(listing.files) == sorted(CLASSES)
    assert listing.splits == {"test": tuple(sorted(CLASSES))}
    assert all(names_in(f) == ["0000.jpg", "0001.jpg"] for f in listing.files.values())
    assert listing.layout == (f"class folders in {place}" if place else "class folders")
    assert str(listing.provenance) == "partial: 10 of 10 classes, 20 of 27,000 images"


def test_a_whole_copy_is_complete(tmp_path, monkeypatch):
    # A made tree of the published size would be 27,000 files: the published counts shrink instead.
    monkeypatch.setattr(
        "appl.datasets.readers._assembling.published_counts", lambda _: some(CLASSES)
    )
    fill(tmp_path, some(CLASSES))
    assert read_eurosat(tmp_path).provenance.kind == "complete"


@pytest.mark.parametrize("place", ["", "EuroSATallBands", "EuroSAT_MS"])
def test_the_multispectral_release_is_refused_by_name(tmp_path, place):
    fill(tmp_path / place, some(CLASSES), ".tif")
    with pytest.raises(DataError, match=r"0000\.tif is of the multispectral release of EuroSAT"):
        read_eurosat(tmp_path)


def test_a_strange_class_is_named(tmp_path):
    fill(tmp_path, some(CLASSES))
    touch(tmp_path / "Desert" / "0.jpg")
    with pytest.raises(DataError, match="class 'Desert' is not one of the 10 of EuroSAT"):
        read_eurosat(tmp_path)
