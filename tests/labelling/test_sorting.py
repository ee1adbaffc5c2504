import os

import pytest

from appl.labelling.inputs import Inputs
from appl.labelling.rows import unreadable_row
from appl.labelling.sorting import folder_name, sort_files


@pytest.mark.parametrize(
    ("name", "kept"),
    [("../../x", "_.._x"), ("a/b", "a_b"), ("..", "_"), ("C:", "C_"), ("_review", "_review")],
)
def test_no_class_name_leads_out_of_its_folder(name, kept):
    found = folder_name(name)
    assert "/" not in found and found not in ("", ".", "..") and not found.startswith("_")
    assert found.removeprefix("class ") == kept


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_copied(tmp_path, make):
    path = tmp_path / "a.png"
    make(path)
    inputs = Inputs(("a", "b"), (), (), (path,))
    sort_files([unreadable_row(str(path), "not a regular file")], inputs, tmp_path / "out", "copy")
    assert list((tmp_path / "out" / "_unreadable").iterdir()) == []
