import pytest

from appl.labelling.sorting import folder_name


@pytest.mark.parametrize(
    ("name", "kept"),
    [("../../x", "_.._x"), ("a/b", "a_b"), ("..", "_"), ("C:", "C_"), ("_review", "_review")],
)
def test_no_class_name_leads_out_of_its_folder(name, kept):
    found = folder_name(name)
    assert "/" not in found and found not in ("", ".", "..") and not found.startswith("_")
    assert found.removeprefix("class ") == kept
