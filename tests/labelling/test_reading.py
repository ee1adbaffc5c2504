import random

import numpy as np
import pytest
import torch
from PIL import Image

from appl.images.decode import decode_square
from appl.labelling import reading
from appl.labelling.reading import read_images


def test_pixels_come_back_as_they_were_decoded(tree, tmp_path):
    paths = sorted((tree / "pile").iterdir())
    store = read_images(paths, tmp_path / "work" / "pile", 32)
    images = store.images([5, 0])
    assert images.shape == (2, 3, 32, 32) and images.dtype == torch.uint8
    assert (images[0].permute(1, 2, 0).numpy() == decode_square(paths[5], 32)).all()
    assert (images[1].permute(1, 2, 0).numpy() == decode_square(paths[0], 32)).all()
    assert images.is_contiguous(memory_format=torch.channels_last)


def test_a_second_call_decodes_nothing(tree, tmp_path, monkeypatch):
    paths = sorted((tree / "pile").iterdir())
    first = read_images(paths, tmp_path / "pile", 32)
    monkeypatch.setattr(reading, "decode_square", lambda *_: 1 / 0)
    assert read_images(paths, tmp_path / "pile", 32) == first


def test_a_call_that_was_killed_starts_again(tree, tmp_path, monkeypatch):
    paths = sorted((tree / "pile").iterdir())
    real, calls = reading.read_one, []

    def dies(*arguments):
        calls.append(1)
        if len(calls) == 10:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(reading, "read_one", dies)
    with pytest.raises(KeyboardInterrupt):
        read_images(paths, tmp_path / "pile", 32)
    monkeypatch.setattr(reading, "read_one", real)
    store = read_images(paths, tmp_path / "pile", 32)
    assert len(store.facts) == 24 and len(store.readable) == 24


def test_500_damaged_files_are_all_accounted_for(tmp_path):
    draw = random.Random(0)
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype="u1"))
    folder = tmp_path / "pile"
    folder.mkdir()
    whole = {}
    for suffix in ("jpg", "png", "gif", "tif", "webp", "bmp"):
        picture.save(tmp_path / f"a.{suffix}")
        whole[suffix] = (tmp_path / f"a.{suffix}").read_bytes()
    paths = []
    for n in range(500):
        suffix = draw.choice(list(whole))
        data = bytearray(whole[suffix])
        for _ in range(draw.choice([1, 3, 30])):
            data[draw.randrange(len(data))] = draw.randrange(256)
        if n % 3 == 0:
            data = data[: draw.randrange(len(data))]
        paths.append(folder / f"{n:03}.{suffix}")
        paths[-1].write_bytes(data)
    store = read_images(paths, tmp_path / "work", 16)
    assert len(store.facts) == 500
    assert 50 < len(store.readable) < 500
    for fact in store.facts:
        assert "\n" not in fact.problem and str(tmp_path) not in fact.problem
        assert bool(fact.problem) != bool(fact.content)
