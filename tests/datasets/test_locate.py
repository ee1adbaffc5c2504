import pytest

from appl.datasets.locate import open_data
from appl.datasets.own import OwnSet, register
from appl.errors import DataError
from tests.datasets.readers.trees import fill

BIRDS = {"004.Groove_billed_Ani": 2, "007.Parakeet_Auklet": 1}


@pytest.mark.parametrize("folder", ["cub", "CUB_200_2011/images", "CUB"])
def test_a_known_name_is_found_by_the_names_its_folder_has(tmp_path, folder):
    fill(tmp_path / folder, BIRDS)
    listing = open_data("cub", tmp_path)
    assert listing.name == "cub" and listing.counts == BIRDS
    assert listing.splits["test"] == ("004.Groove_billed_Ani",)


def test_its_own_name_comes_before_others(tmp_path):
    fill(tmp_path / "cub", BIRDS)
    fill(tmp_path / "CUB_200_2011", {"008.Rhinoceros_Auklet": 1})
    assert open_data("cub", tmp_path).root == tmp_path / "cub"


def test_a_registered_place_comes_first_and_keeps_the_reader(tmp_path):
    fill(tmp_path / "root" / "cub", {"008.Rhinoceros_Auklet": 1})
    tree = fill(tmp_path / "elsewhere", BIRDS)
    register("cub", OwnSet(str(tree)), tmp_path / "root")
    listing = open_data("cub", tmp_path / "root")
    assert listing.counts == BIRDS and listing.provenance.kind == "partial"


def test_any_other_name_is_a_folder_or_a_registered_set(tmp_path):
    fill(tmp_path / "leaves", {"oak": 1})
    assert open_data("leaves", tmp_path).splits == {"test": ("oak",)}
    assert open_data("leaves", tmp_path).provenance.kind == "unchecked"
    register("leaves", OwnSet(str(fill(tmp_path / "new", {"ash": 1}))), tmp_path)
    assert open_data("leaves", tmp_path).splits == {"test": ("ash",)}


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"has no CUB \(looked for cub, CUB_200_2011, CUB\)"):
        open_data("cub", tmp_path)
    with pytest.raises(DataError, match="nowhere is not a folder"):
        open_data("nowhere", tmp_path)
