from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from appl.datasets.contact_sheet import GAP_PX, NAME_PX, contact_sheet, spread
from appl.datasets.listing import list_folder
from appl.errors import DataError

COLOURS = {"blue": (0, 0, 200), "red with a very long name that no column would hold": (200, 0, 0)}


@pytest.fixture
def listing(tmp_path):
    for name, colour in COLOURS.items():
        (tmp_path / name).mkdir()
        for number in range(3):
            Image.new("RGB", (40, 20), colour).save(tmp_path / name / f"{number}.png")
    return list_folder(tmp_path)


def test_rows_are_classes_and_images_keep_their_proportions(listing):
    sheet = Image.open(BytesIO(contact_sheet(listing, n_images=2, n_classes=5, size_px=20)))
    assert sheet.size == (NAME_PX + 2 * 24, GAP_PX + 2 * 24)
    pixels = np.asarray(sheet)
    for row, colour in enumerate(COLOURS.values()):
        top = GAP_PX + row * 24
        for left in (NAME_PX, NAME_PX + 24):
            assert (pixels[top : top + 10, left : left + 20] == colour).all()
            assert (pixels[top + 10 : top + 20, left : left + 20] == 255).all()
        name = pixels[top : top + 20, :NAME_PX]
        assert (name < 100).any() and (name[:, -GAP_PX:] == 255).all()  # written, and cut to fit


def test_classes_and_images_are_spread_evenly():
    assert spread("abcdefghi", 3) == ["a", "e", "i"]
    assert spread("abc", 5) == ["a", "b", "c"]
    assert spread("abc", 1) == ["a"]


def test_an_unreadable_image_is_named(listing):
    next(iter(listing.files["blue"])).write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"0\.png: not a readable image"):
        contact_sheet(listing, n_images=2, n_classes=5, size_px=20)
