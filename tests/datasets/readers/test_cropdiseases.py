import pytest

from appl.datasets.provenance import published_counts
from appl.datasets.readers.cropdiseases import read_cropdiseases
from tests.datasets.readers.trees import fill, some, touch

CLASSES = published_counts("cropdiseases")


@pytest.mark.parametrize(
    "place",
    ["dataset/train", "train", "CropDiseases/dataset/train", "CropDiseases/train", "", "raw/color"],
)
def test_every_layout_gives_the_same_classes(tmp_path, place):
    fill(tmp_path / place, some(CLASSES), ".JPG")
    listing = read_cropdiseases(tmp_path)
    assert list(listing.files) == sorted(CLASSES) and listing.n_images == 76
    assert "Corn_(maize)___Cercospora_leaf_spot Gray_leaf_spot" in listing.splits["test"]
    assert listing.provenance.kind == "partial"


def test_the_test_part_of_the_kaggle_copy_stays_out(tmp_path):
    fill(tmp_path / "dataset" / "train", some(CLASSES))
    fill(tmp_path / "dataset" / "test", some(CLASSES, 3))
    listing = read_cropdiseases(tmp_path)
    assert listing.n_images == 76
    assert all("train" in path.parts for f in listing.files.values() for path in f)


def test_plantvillage_itself_is_said_to_be_different(tmp_path):
    fill(tmp_path, some(list(CLASSES)[:2]))
    for number in range(123):
        touch(tmp_path / "Potato___healthy" / f"{number} copy 2.jpg")
    provenance = read_cropdiseases(tmp_path).provenance
    assert provenance.kind == "different"
    assert "class 'Potato___healthy' has 123 images where 122 are published" in provenance.remark
