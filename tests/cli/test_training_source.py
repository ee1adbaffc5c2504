from pathlib import Path

import pytest

from appl.cli._training import list_source
from appl.datasets.own import OwnSet, register
from appl.errors import DataError
from tests.datasets.readers.trees import fill


def test_a_source_may_be_a_name_in_the_data_root(tmp_path, monkeypatch):
    tree = fill(tmp_path / "leaves", {"oak": 1, "ash": 1})
    split = tmp_path / "split.json"
    split.write_text('{"train": ["oak"], "validation": ["ash"]}')
    register("mine", OwnSet(str(tree), "source", str(split)), tmp_path)
    monkeypatch.setenv("APPL_DATA", str(tmp_path))
    assert list_source(Path("mine"), None).splits == {"train": ("oak",), "validation": ("ash",)}
    with pytest.raises(DataError, match="leaves has no train classes"):
        list_source(Path("leaves"), None)
    monkeypatch.delenv("APPL_DATA")
    with pytest.raises(DataError, match="mine is not a folder; give the one that holds mini"):
        list_source(Path("mine"), None)
