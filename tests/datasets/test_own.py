import pytest

from appl.datasets.own import OwnSet, own_sets, read_own, register
from appl.errors import DataError, SettingsError
from tests.datasets.readers.trees import fill


def test_what_is_registered_is_found_again(tmp_path):
    tree = fill(tmp_path / "elsewhere" / "leaves", {"oak": 2, "ash": 1})
    root = tmp_path / "root"
    register("leaves", OwnSet(str(tree)), root)
    register("others", OwnSet(str(tree), "source"), root)
    assert own_sets(root) == {
        "leaves": OwnSet(str(tree)),
        "others": OwnSet(str(tree), "source"),
    }
    target = read_own("leaves", own_sets(root)["leaves"], root)
    assert (target.name, target.splits) == ("leaves", {"test": ("ash", "oak")})
    assert read_own("others", own_sets(root)["others"], root).splits == {"train": ("ash", "oak")}
    assert own_sets(tmp_path / "no root") == {}


def test_a_path_inside_the_root_moves_with_it(tmp_path):
    root = tmp_path / "root"
    tree = fill(root / "mine" / "leaves", {"oak": 2, "ash": 1})
    split = root / "split.json"
    split.write_text('{"train": ["oak"], "test": ["ash"]}')
    register("leaves", OwnSet(str(tree), "target", str(split)), root)
    moved = root.rename(tmp_path / "moved")
    own = own_sets(moved)["leaves"]
    assert (own.path, own.split) == ("mine/leaves", "split.json")
    assert read_own("leaves", own, moved).splits == {"train": ("oak",), "test": ("ash",)}


def test_mistakes_are_named(tmp_path):
    tree = fill(tmp_path / "leaves", {"oak": 1})
    with pytest.raises(DataError, match=r"'\.\./x' is no name for a data set"):
        register("../x", OwnSet(str(tree)), tmp_path)
    with pytest.raises(SettingsError, match="role = 'test' is not a choice"):
        OwnSet(str(tree), "test")  # type: ignore[arg-type]
    (tmp_path / "appl-data.toml").write_text("[sets.leaves]\npath = 3\n")
    with pytest.raises(SettingsError, match=r"appl-data\.toml"):
        own_sets(tmp_path)
    (tmp_path / "split.json").write_text('["oak"]')
    with pytest.raises(DataError, match="expected an object of lists"):
        read_own("leaves", OwnSet(str(tree), split=str(tmp_path / "split.json")), tmp_path)
