import os

import numpy as np
import pytest
from PIL import Image

from appl.errors import DataError
from appl.images.decode import decode, decode_square


def save(path, array, **options):
    Image.fromarray(array).save(path, **options)
    return path


def test_a_plain_image_keeps_its_pixels(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    assert (decode_square(save(tmp_path / "a.png", pixels), 16) == pixels).all()


def test_the_margin_cuts_out_the_centre(tmp_path):
    pixels = np.zeros((96, 96, 3), dtype=np.uint8)
    pixels[6:90, 6:90] = 200
    found = decode_square(save(tmp_path / "a.png", pixels), 84, margin=1.15)
    assert found.shape == (84, 84, 3) and (found == 200).all()


def test_an_exif_rotated_photo_is_turned_upright(tmp_path):
    pixels = np.zeros((20, 20, 3), dtype=np.uint8)
    pixels[:10] = 255  # bright on top
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    found = decode_square(save(tmp_path / "a.png", pixels, exif=exif), 20)
    assert found[:, 10:].mean() > 250 and found[:, :10].mean() < 5


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1", "LA"])
def test_every_mode_becomes_three_channels(tmp_path, mode):
    path = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    Image.new("RGB", (10, 10), (90, 90, 90)).convert(mode).save(path)
    assert decode_square(path, 10).shape == (10, 10, 3)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text.jpg", b"hello", "not a readable image"),
        ("empty.png", b"", "not a readable image"),
        ("absent.png", None, "no such file"),
    ],
)
def test_an_unreadable_file_is_named(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        decode_square(tmp_path / name, 32)
    assert name in str(caught.value)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_only_regular_files_are_opened(tmp_path, make):
    make(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"a\.png: not a regular file"):
        decode(tmp_path / "a.png", 32)
    (tmp_path / "b.png").symlink_to(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"b\.png: not a regular file"):
        decode(tmp_path / "b.png", 32)


def test_a_link_to_an_image_is_opened(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    save(tmp_path / "a.png", pixels)
    (tmp_path / "b.png").symlink_to(tmp_path / "a.png")
    assert (decode_square(tmp_path / "b.png", 16) == pixels).all()


def test_a_truncated_jpeg_is_not_half_grey(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    whole = save(tmp_path / "a.jpg", pixels).read_bytes()
    (tmp_path / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"cut\.jpg"):
        decode_square(tmp_path / "cut.jpg", 32)


def test_16_bit_grey_keeps_its_shades(tmp_path):
    ramp = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    found = decode_square(save(tmp_path / "a.png", ramp), 8)[..., 0].astype(int)
    assert np.abs(found.ravel() - np.linspace(0, 255, 64)).max() <= 1


def test_transparency_is_seen_on_paper(tmp_path):
    pixels = np.zeros((8, 8, 4), dtype=np.uint8)  # black, wholly transparent
    pixels[:4, :, 3] = 255
    found = decode_square(save(tmp_path / "a.png", pixels), 8)
    assert (found[:4] == 0).all() and (found[4:] == 255).all()


def test_the_first_page_of_an_animation_is_taken(tmp_path):
    pages = [Image.new("RGB", (10, 10), colour) for colour in ("red", "blue")]
    for name in ("a.gif", "a.tif"):
        pages[0].save(tmp_path / name, save_all=True, append_images=pages[1:])
        assert decode_square(tmp_path / name, 10)[5, 5].tolist() == [255, 0, 0]


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_bomb_is_named_and_not_opened(tmp_path):
    path = tmp_path / "huge.png"
    Image.new("1", (30000, 30000)).save(path)
    with pytest.raises(DataError, match=r"huge\.png: too large an image .*cut it into tiles"):
        decode_square(path, 32)


def test_a_large_jpeg_is_read_at_a_part_of_its_size_and_looks_the_same(tmp_path):
    ramp = np.add.outer(np.arange(1600), np.arange(1200)) * 255 // 2800
    path = save(tmp_path / "a.jpg", np.stack([ramp] * 3, 2).astype(np.uint8), quality=95)
    assert decode(path, 150).size == (150, 200)
    whole = Image.fromarray(ramp.astype(np.uint8)).resize((64, 64), Image.Resampling.BILINEAR)
    assert np.abs(decode_square(path, 64)[..., 0].astype(int) - np.asarray(whole)).max() <= 3
