import os

import pytest
from PIL import Image

from appl.errors import DataError
from appl.labelling.inputs import find_inputs, find_pile, find_support, images_below, shown
from tests.labelling.conftest import CLASSES


def refused(action, *parts):
    with pytest.raises(DataError) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message


def test_classes_are_sorted_and_counted(tree):
    inputs = find_inputs(tree / "support", str(tree / "pile"))
    assert inputs.class_names == tuple(sorted(CLASSES))
    assert inputs.class_ids == (0,) * 4 + (1,) * 4 + (2,) * 4
    assert len(inputs.pile) == 24 and inputs.notes == ()


def test_a_csv_is_the_same_as_folders(tree):
    rows = ["path,label"]
    for name in CLASSES:
        rows += [f'"{name}/{i}.png","{name}"' for i in range(4)]
    table = tree / "support" / "examples.csv"
    table.write_text("\ufeff" + "\n".join(rows), encoding="utf-8")  # as a spreadsheet saves it
    assert find_support(table) == find_support(tree / "support")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("file,label\na.png,x", ["no column 'path'"]),
        ("path,label\n", ["lists no example"]),
        ("path,label\na.png,\nb.png,y", ["line 2", "label is 'empty'"]),
        ("path,label\na.png,nan\nb.png,y", ["line 2", "label is 'nan'"]),
        ("path,label\nNaN,x\nb.png,y", ["line 2", "path is 'NaN'"]),
        ("path,label\nabsent.png,x\nabsent.png,y", ["absent.png is not there"]),
        ("path,label\na.png,x\nb.png,x", ["only the class 'x'", "at least two"]),
        ("path,label\na.png,Cat\nb.png,cat", ["'Cat' and 'cat'", "by case"]),
    ],
)
def test_a_csv_with_a_mistake_is_refused_by_line(tmp_path, text, parts):
    for name in ("a.png", "b.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    table = tmp_path / "table.csv"
    table.write_text(text)
    refused(lambda: find_support(table), str(table), *parts)


def test_support_folders_with_a_mistake_are_refused(tmp_path):
    refused(lambda: find_support(tmp_path / "no"), "no such folder")
    refused(lambda: find_support(tmp_path), "no sub-folders (it is empty)")
    Image.new("RGB", (8, 8)).save(tmp_path / "loose.png")
    refused(lambda: find_support(tmp_path), "its images lie loose")
    refused(lambda: find_support(tmp_path / "loose.png"), "neither a folder nor a .csv")
    (tmp_path / "one").mkdir()
    refused(lambda: find_support(tmp_path), "one holds no image")
    Image.new("RGB", (8, 8)).save(tmp_path / "one" / "a.png")
    refused(lambda: find_support(tmp_path), "only the class 'one'")


def test_the_pile_is_a_folder_a_list_or_a_glob(tree):
    folder = find_pile(str(tree / "pile"))
    assert len(folder) == 24 and folder == tuple(sorted(folder))
    names = tree / "names.txt"
    names.write_text("# what is left\npile/0-0.png\n\npile/0-1.png\npile/0-0.png\n")
    assert find_pile(str(names)) == folder[:2]
    assert find_pile(str(tree / "pile" / "0-?.png")) == folder[:8]
    assert find_pile(str(tree / "**" / "0-0.png")) == folder[:1]
    assert find_pile(str(folder[3])) == folder[3:4]


def test_a_pile_with_a_mistake_is_refused(tmp_path):
    refused(lambda: find_pile(str(tmp_path / "no")), "no such folder")
    refused(lambda: find_pile(str(tmp_path)), "holds no image")
    refused(lambda: find_pile(str(tmp_path / "*.png")), "no file matches")
    (tmp_path / "empty.txt").write_text("\n")
    refused(lambda: find_pile(str(tmp_path / "empty.txt")), "lists no file")
    (tmp_path / "binary.txt").write_bytes(b"a\0b")
    refused(lambda: find_pile(str(tmp_path / "binary.txt")), "is no list of paths")


def test_examples_inside_the_pile_are_not_labelled_again(tree):
    inputs = find_inputs(tree / "support", str(tree))
    assert len(inputs.pile) == 24 and "12 files of the pile are examples" in inputs.notes[0]
    refused(lambda: find_inputs(tree / "support", str(tree / "support")), "nothing to label")


def test_a_loop_of_links_ends(tmp_path):
    (tmp_path / "a").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "a" / "x.png")
    (tmp_path / "a" / "again").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    assert [path.name for path in images_below(tmp_path)] == ["x.png"]


def test_hidden_and_other_files_are_left_alone(tmp_path):
    for name in ("._a.png", "notes.txt", "b.PNG"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "c.png").write_bytes(b"x")
    assert [path.name for path in images_below(tmp_path)] == ["b.PNG"]


def test_a_name_that_is_not_utf_8_can_be_shown(tmp_path):
    path = os.fsencode(tmp_path) + b"/caf\xe9.png"
    Image.new("RGB", (8, 8)).save(open(path, "wb"), "PNG")  # noqa: PTH123, SIM115
    (found,) = find_pile(str(tmp_path))
    assert found.is_file() and shown(found).endswith("caf\\xe9.png")
    shown(found).encode("utf-8")
