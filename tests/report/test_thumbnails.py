import base64
import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from appl.labelling.inputs import shown
from appl.report.thumbnails import SIDE_PX, make_thumbnails, thumbnail
from tests.report.fake_run import picture


def opened(uri: str) -> Image.Image:
    head, data = uri.split(",")
    assert head == "data:image/jpeg;base64"
    return Image.open(io.BytesIO(base64.b64decode(data)))


@pytest.mark.parametrize(
    ("size", "kept"), [((400, 200), (96, 48)), ((50, 800), (6, 96)), ((20, 10), (20, 10))]
)
def test_the_shape_is_kept(tmp_path: Path, size: tuple[int, int], kept: tuple[int, int]) -> None:
    assert opened(thumbnail(picture(tmp_path / "a.png", 5, size))).size == kept


def test_noise_at_full_size_is_small(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (900, 1200, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    uri = thumbnail(str(tmp_path / "noise.png"))

    assert max(opened(uri).size) == SIDE_PX
    assert len(uri) < 15_000


def test_16_bit_scans_are_seen(tmp_path: Path) -> None:
    Image.fromarray(np.full((40, 40), 40_000, dtype=np.uint16)).save(tmp_path / "scan.tif")
    pixel = opened(thumbnail(str(tmp_path / "scan.tif"))).getpixel((5, 5))

    assert pixel == pytest.approx((155, 155, 155), abs=3)


def test_a_name_that_is_no_utf8_is_found_again(tmp_path: Path) -> None:
    plain = picture(tmp_path / "plain.png")
    raw = os.fsencode(tmp_path) + b"/M\xfcnchen.png"
    Path(plain).rename(os.fsdecode(raw))
    name = shown(os.fsdecode(raw))

    assert "\\xfc" in name
    assert thumbnail(name)


def test_what_cannot_be_read_has_none(tmp_path: Path) -> None:
    (tmp_path / "torn.jpg").write_bytes(b"\xff\xd8 torn")
    good = picture(tmp_path / "good.png")
    bad = [
        str(tmp_path / "gone.png"),
        str(tmp_path / "torn.jpg"),
        str(tmp_path),
        "x" * 5000,
        "a\0b",
    ]
    found = make_thumbnails([good, *bad, good])

    assert [bool(found[path]) for path in (good, *bad)] == [True] + [False] * len(bad)
