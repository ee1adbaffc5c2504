import shutil

import pytest

from appl.datasets.listed_files import describe_files, refuse_other_files
from appl.datasets.listing import list_folder
from appl.errors import DataError


@pytest.fixture
def root(tmp_path):
    for name in ("a/1.png", "a/2.png", "b/1.png"):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {name}")
    return tmp_path / "data"


def refuse(root, listed, **options):
    options = {"contents": True} | options
    refuse_other_files(list_folder(root), listed, "target 'x'", **options)


def test_files_have_names_that_do_not_depend_on_the_place(root, tmp_path):
    listed = describe_files(list_folder(root))
    assert [file.name for file in listed["a"]] == ["a/1.png", "a/2.png"]
    assert listed["a"][0].size == len("content of a/1.png")
    assert len({file.digest for files in listed.values() for file in files}) == 3
    copy = shutil.copytree(root, tmp_path / "elsewhere" / "copy")
    assert describe_files(list_folder(copy)) == listed
    refuse(copy, listed)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda root: (root / "a/2.png").unlink(), "a/2.png is missing;"),
        (lambda root: (root / "b/3.png").write_text("x"), "b/3.png is new;"),
        (lambda root: (root / "a/1.png").write_text("x"), "a/1.png has 1 bytes, not 18;"),
        (
            lambda root: (root / "a/1.png").write_text("CONTENT of a/1.png"),
            "a/1.png has another content of the same size;",
        ),
        (
            lambda root: (root / "a/2.png").rename(root / "b/2.png"),
            r"a/2.png is missing \(and 1 files more differ\);",
        ),
    ],
)
def test_another_copy_is_refused_by_the_file_that_differs(root, change, words):
    listed = describe_files(list_folder(root))
    change(root)
    with pytest.raises(DataError, match=f"target 'x': .*data holds other data: {words} get the"):
        refuse(root, listed)


def test_a_file_in_another_class_is_named(root):
    listed = describe_files(list_folder(root))
    moved = {"a": listed["a"][:1], "b": (listed["a"][1], *listed["b"])}
    with pytest.raises(DataError, match=r"a/2.png is of class 'a', not 'b'"):
        refuse(root, moved)


def test_contents_are_read_only_where_asked(root):
    listed = describe_files(list_folder(root))
    (root / "a/1.png").write_text("CONTENT of a/1.png")
    refuse(root, listed, contents=False)
