import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from appl.errors import DataError
from appl.images.store import read_images
from appl.images.thumbnails import SIDE_PX, Thumbnails, make_thumbnail, write_thumbnails
from tests.report.fake_run import picture


def thumbnails_of(tmp_path: Path, *paths: str | Path) -> list[bytes]:
    files = [Path(path) for path in paths]
    store = read_images(
        files, tmp_path / "work" / "pile", 84, thumbnails=tmp_path / "kept" / "pile"
    )
    return [store.thumbnail(i) for i in range(len(store))]


def opened(thumbnail: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(thumbnail))
    assert image.format == "JPEG"
    return image


@pytest.mark.parametrize("suffix", ["png", "jpg"])
@pytest.mark.parametrize(
    ("size", "kept"),
    [
        ((400, 200), (96, 48)),
        ((50, 800), (6, 96)),
        ((20, 10), (20, 10)),
        ((2000, 1500), (96, 72)),
        ((3000, 1), (96, 1)),
    ],
)
def test_the_shape_is_kept(
    tmp_path: Path, size: tuple[int, int], kept: tuple[int, int], suffix: str
) -> None:
    (found,) = thumbnails_of(tmp_path, picture(tmp_path / f"a.{suffix}", 5, size))
    assert opened(found).size == kept


def test_noise_at_full_size_is_small(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (900, 1200, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    (found,) = thumbnails_of(tmp_path, tmp_path / "noise.png")

    assert max(opened(found).size) == SIDE_PX
    assert len(found) < 11_000


def test_16_bit_scans_are_seen(tmp_path: Path) -> None:
    Image.fromarray(np.full((40, 40), 40_000, dtype=np.uint16)).save(tmp_path / "scan.tif")
    (found,) = thumbnails_of(tmp_path, tmp_path / "scan.tif")

    assert opened(found).getpixel((5, 5)) == pytest.approx((155, 155, 155), abs=3)


def test_a_name_that_is_no_utf8_is_found(tmp_path: Path) -> None:
    plain = picture(tmp_path / "plain.png")
    raw = os.fsencode(tmp_path) + b"/M\xfcnchen.png"
    Path(plain).rename(os.fsdecode(raw))

    assert all(thumbnails_of(tmp_path, os.fsdecode(raw)))


def test_what_cannot_be_read_has_none(tmp_path: Path) -> None:
    (tmp_path / "torn.jpg").write_bytes(b"\xff\xd8 torn")
    good = picture(tmp_path / "good.png")
    bad = [tmp_path / "gone.png", tmp_path / "torn.jpg", tmp_path, "x" * 5000, "a\0b"]
    found = thumbnails_of(tmp_path, good, *bad, good)

    assert [bool(thumbnail) for thumbnail in found] == [True] + [False] * len(bad) + [True]
    assert found[0] == found[-1]
    kept = Thumbnails.open(tmp_path / "kept" / "pile")
    assert [kept.has(i) for i in range(len(kept))] == [bool(thumbnail) for thumbnail in found]


def test_what_a_file_says_of_itself_stays_out(tmp_path: Path) -> None:
    long = b"taken at home " * 6000
    Image.new("RGB", (300, 200), "red").save(tmp_path / "a.gif", comment=long)
    (found,) = thumbnails_of(tmp_path, tmp_path / "a.gif")

    assert opened(found).size == (96, 64) and b"taken at home" not in found


def test_the_image_itself_stays_as_it_is() -> None:
    image = Image.new("RGB", (300, 200), "red")
    image.info["comment"] = "mine"
    make_thumbnail(image)

    assert image.size == (300, 200) and image.info == {"comment": "mine"}


def test_they_are_opened_when_pixels_and_images_are_gone(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.png")
    before = thumbnails_of(tmp_path, path, path)
    Path(path).unlink()
    for file in (tmp_path / "work").iterdir():
        file.unlink()

    kept = Thumbnails.open(tmp_path / "kept" / "pile")
    assert len(kept) == 2 and [kept.thumbnail(i) for i in range(2)] == before


def test_what_is_not_whole_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no thumbnails were made here"):
        Thumbnails.open(tmp_path / "pile")
    with pytest.raises(KeyboardInterrupt), write_thumbnails(tmp_path / "pile") as add:
        add(b"one")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    with write_thumbnails(tmp_path / "pile") as add:
        add(b"one")
    (tmp_path / "pile.thumbs").write_bytes(b"o")
    with pytest.raises(DataError, match=r"does not fit pile\.thumbs\.json"):
        Thumbnails.open(tmp_path / "pile")
    for damaged in ("[0, 1", "{}", "[]", '"ab"', "[0, null]", "7"):
        (tmp_path / "pile.thumbs.json").write_text(damaged)
        with pytest.raises(DataError, match=r"damaged|does not fit"):
            Thumbnails.open(tmp_path / "pile")
