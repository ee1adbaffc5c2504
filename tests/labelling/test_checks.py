import shutil

import pytest
from PIL import Image, ImageEnhance

from appl.errors import DataError
from appl.labelling.checks import examine
from appl.labelling.inputs import find_inputs
from tests.labelling.conftest import stripes


def kinds(tree):
    return {f.kind: f for f in examine(find_inputs(tree / "support", str(tree / "pile")))}


def photograph(seed):
    """A picture with large shapes: what perceptual hashes are made for."""
    small = stripes(seed % 3, seed, 6).rotate(17 * seed)
    return small.resize((64, 64), Image.Resampling.BICUBIC)


def test_clean_input_has_no_finding(tree):
    assert kinds(tree) == {}


def test_unreadable_files_are_named_with_their_reason(tree):
    (tree / "pile" / "text.jpg").write_text("hello")
    (tree / "pile" / "empty.png").touch()
    (tree / "support" / "green" / "bad.png").write_bytes(b"\x89PNG")
    found = examine(find_inputs(tree / "support", str(tree / "pile")))
    texts = [f.text for f in found if f.kind == "unreadable"]
    assert texts == [
        "1 file of examples could not be read",
        "2 files of the pile could not be read",
    ]
    assert any("text.jpg: not a readable image" in name for name in found[1].files)


def test_a_class_without_a_readable_example_is_an_error(tree):
    for path in (tree / "support" / "green").iterdir():
        path.write_bytes(b"no image")
    with pytest.raises(DataError, match="class 'green' has no readable example"):
        kinds(tree)


def test_a_pile_without_a_readable_image_is_an_error(tree):
    for path in (tree / "pile").iterdir():
        path.write_bytes(b"no image")
    with pytest.raises(DataError, match=r"no image of the pile could be read; .*0-0\.png"):
        kinds(tree)


def test_few_examples_are_said(tree):
    for i in (0, 1):
        (tree / "support" / "green" / f"{i}.png").unlink()
    assert "'green' has 2 examples" in kinds(tree)["few-examples"].text


def test_the_same_image_in_two_classes_is_a_conflict(tree):
    photograph(1).save(tree / "support" / "green" / "x.png")
    shutil.copy(tree / "support" / "green" / "x.png", tree / "support" / "red level" / "y.png")
    found = kinds(tree)["conflict"]
    assert "the same image is an example of 'green' and of 'red level'" in found.text
    assert [name[-5:] for name in found.files] == ["x.png", "y.png"]


def test_equal_and_near_examples_in_the_pile_are_named(tree):
    picture = photograph(2)
    picture.save(tree / "support" / "green" / "x.png")
    picture.save(tree / "pile" / "same.png")
    ImageEnhance.Brightness(picture).enhance(1.08).save(tree / "pile" / "near.jpg", quality=85)
    found = kinds(tree)
    assert "1 images of the pile are examples" in found["leak"].text
    assert "same.png" in found["leak"].files[0]
    assert (
        len(found["near-duplicate"].files) == 1 and "near.jpg" in found["near-duplicate"].files[0]
    )


def test_two_equal_examples_of_a_class_are_named(tree):
    folder = tree / "support" / "green"
    shutil.copy(folder / "0.png", folder / "copy.png")
    assert "two examples of 'green' are the same image" in kinds(tree)["duplicate"].text


def test_an_image_of_one_colour_is_named(tree):
    Image.new("I;16", (32, 32), 40).save(tree / "pile" / "dark.png")
    assert "dark.png" in kinds(tree)["flat"].files[0]
