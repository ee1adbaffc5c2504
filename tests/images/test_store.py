import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from appl.errors import DataError
from appl.images import store as module
from appl.images.decode import decode_square
from appl.images.store import ImageArray, ImageFact, ImageStore, read_images
from tests.labelling.conftest import write_tree


@pytest.fixture
def tree(tmp_path):
    return write_tree(tmp_path / "given")


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
    monkeypatch.setattr(module, "decode_for_square", lambda *_: 1 / 0)
    assert read_images(paths, tmp_path / "pile", 32) == first


def test_a_call_that_was_killed_starts_again(tree, tmp_path, monkeypatch):
    paths = sorted((tree / "pile").iterdir())
    real, calls = module.decode_for_square, []

    def dies(*arguments):
        calls.append(1)
        if len(calls) == 10:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(module, "decode_for_square", dies)
    with pytest.raises(KeyboardInterrupt):
        read_images(paths, tmp_path / "pile", 32)
    monkeypatch.setattr(module, "decode_for_square", real)
    store = read_images(paths, tmp_path / "pile", 32)
    assert len(store.facts) == 24 and len(store.readable) == 24


def test_a_pile_that_was_killed_leaves_no_index(tree, tmp_path, monkeypatch):
    paths = sorted((tree / "pile").iterdir())
    stems = (tmp_path / "work" / "pile", tmp_path / "kept" / "pile")

    def dies(done, _total):
        if done == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_images(paths, stems[0], 32, dies, thumbnails=stems[1])
    assert [file for stem in stems for file in stem.parent.iterdir()] == []
    with pytest.raises(DataError, match="no images were decoded here"):
        ImageStore.open(*stems)


@pytest.mark.parametrize(
    "name",
    ["work/pile.pixels", "work/pile.pixels.json", "kept/pile.thumbs", "kept/pile.thumbs.json"],
)
def test_what_is_no_longer_whole_is_decoded_again(tree, tmp_path, name):
    paths = sorted((tree / "pile").iterdir())
    stems = (tmp_path / "work" / "pile", tmp_path / "kept" / "pile")
    first = read_images(paths, stems[0], 32, thumbnails=stems[1])
    pixels = first.images(range(24))
    for spoil in (Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-1])):
        spoil(tmp_path / name)
        with pytest.raises(DataError):
            ImageStore.open(*stems)
        again = read_images(paths, stems[0], 32, thumbnails=stems[1])
        assert again == first and torch.equal(again.images(range(24)), pixels)


def test_pixels_that_end_early_are_named(tree, tmp_path):
    store = read_images(sorted((tree / "pile").iterdir()), tmp_path / "pile", 32)
    store.path.write_bytes(store.path.read_bytes()[:-1])
    assert len(store.images([22])) == 1
    with pytest.raises(DataError, match=r"pile\.pixels ends before image 23"):
        store.images([0, 23])


@pytest.mark.parametrize(("size_px", "margin"), [(32, 1.0), (84, 1.0), (84, 1.15), (224, 1.0)])
def test_thumbnails_change_no_pixel(tmp_path, size_px, margin):
    draw = np.random.default_rng(0)
    coarse = Image.fromarray(draw.integers(0, 256, (15, 20, 3), dtype=np.uint8))
    paths = [tmp_path / "large.jpg", tmp_path / "small.png"]
    coarse.resize((2000, 1500), Image.Resampling.BICUBIC).save(paths[0])
    coarse.resize((40, 30)).save(paths[1])
    plain = read_images(paths, tmp_path / "plain", size_px, margin=margin)
    both = read_images(
        paths, tmp_path / "both", size_px, margin=margin, thumbnails=tmp_path / "both"
    )
    for i, path in enumerate(paths):
        expected = decode_square(path, size_px, margin)
        for store in (plain, both):
            assert (store.images([i])[0].permute(1, 2, 0).numpy() == expected).all()
    assert both.facts == plain.facts
    assert plain.thumbnail(0) == b"" and both.thumbnail(0) and both.thumbnail(1)


def test_a_file_is_decoded_once_for_pixels_and_thumbnail(tree, tmp_path, monkeypatch):
    paths = sorted((tree / "pile").iterdir())
    opened, real = [], Image.open
    monkeypatch.setattr(Image, "open", lambda path, *rest: opened.append(path) or real(path, *rest))
    store = read_images(paths, tmp_path / "pile", 32, thumbnails=tmp_path / "pile")
    assert sorted(opened) == paths and all(store.thumbnail(i) for i in range(len(store)))


def test_threads_read_at_the_same_time(tree, tmp_path):
    paths = sorted((tree / "pile").iterdir())
    store = read_images(paths, tmp_path / "pile", 32, thumbnails=tmp_path / "pile")
    index = torch.arange(24)
    pixels, thumbnails = store.images(index), [store.thumbnail(i) for i in range(24)]

    def read(seed):
        order = torch.randperm(24, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(store.images(order), pixels[order])
        assert [store.thumbnail(i) for i in order.tolist()] == [thumbnails[i] for i in order]

    with ThreadPoolExecutor(2) as pool:
        assert len(list(pool.map(read, range(200)))) == 200


def test_processes_that_decode_the_same_files_do_not_meet(tree, tmp_path):
    paths = sorted((tree / "pile").iterdir())
    alone = read_images(paths, tmp_path / "alone", 32)
    # One call begins and ends while another is in the middle.
    inner = []

    def meanwhile(done, _total):
        if done == 10:
            inner.append(read_images(paths, tmp_path / "pile", 32))

    outer = read_images(paths, tmp_path / "pile", 32, meanwhile)
    for store in (*inner, outer):
        assert torch.equal(store.images(range(24)), alone.images(range(24)))


def test_facts_are_taken_where_they_are_wanted(tree, tmp_path):
    paths = [*sorted((tree / "pile").iterdir()), tmp_path / "absent.png"]
    store = read_images(paths, tmp_path / "pile", 32, with_facts=False)
    assert store.facts == (*[ImageFact("")] * 24, ImageFact("no such file"))
    assert store.readable.tolist() == list(range(24)) and len(store) == 25
    assert (store.images([24]) == 0).all()
    with pytest.raises(DataError, match=r"absent\.png: no such file"):
        read_images(paths, tmp_path / "strict", 32, strict=True)


def test_a_pipe_is_named_and_not_waited_for(tree, tmp_path):
    os.mkfifo(tree / "pile" / "z.png")
    store = read_images(sorted((tree / "pile").iterdir()), tmp_path / "pile", 32)
    assert store.facts[-1].problem == "not a regular file" and len(store.readable) == 24


def test_an_array_gives_what_a_store_gives(tree, tmp_path):
    store = read_images(sorted((tree / "pile").iterdir()), tmp_path / "pile", 32)
    array = ImageArray(store.mapped())
    assert len(array) == len(store) == 24 and array.size_px == store.size_px == 32
    for index in ([5, 0], torch.tensor([23]), range(24)):
        assert torch.equal(array.images(index), store.images(index))
    assert array.images([1, 2]).is_contiguous(memory_format=torch.channels_last)


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
