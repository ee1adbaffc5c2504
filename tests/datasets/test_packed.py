from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from appl.datasets.digits import write_digits
from appl.datasets.groups import grouped_digest
from appl.datasets.listing import list_folder
from appl.datasets.packed import pack, pack_folder, without_pixels
from appl.errors import DataError
from appl.images import store as module
from appl.images.decode import decode_square


def make_tree(root, counts=(3, 2)):
    for i, n in enumerate(counts):
        folder = root / f"class {i}"
        folder.mkdir(parents=True)
        for j in range(n):
            colour = (40 * i, 10 * j, 5)
            Image.new("RGB", (12, 10), colour).save(folder / f"{j}.png")
    return root


def test_classes_and_images_come_back_in_sorted_order(tmp_path):
    packed = pack_folder(make_tree(tmp_path / "tree"), tmp_path / "cache", 8)
    assert packed.class_names == ("class 0", "class 1")
    assert packed.class_ids.tolist() == [0, 0, 0, 1, 1]
    assert packed.members("class 1").tolist() == [3, 4]
    images = packed.images(torch.tensor([4, 1]))
    assert images.shape == (2, 3, 8, 8) and images.dtype == torch.uint8
    assert images[:, :, 0, 0].tolist() == [[40, 10, 5], [0, 10, 5]]
    assert images.is_contiguous(memory_format=torch.channels_last)


def test_a_second_start_decodes_nothing_and_a_changed_tree_does(tmp_path, monkeypatch):
    root = make_tree(tmp_path / "tree")
    first = pack_folder(root, tmp_path / "cache", 8)

    def fail(*_):
        raise AssertionError("decoded again")

    monkeypatch.setattr(module, "decode_for_square", fail)
    second = pack_folder(root, tmp_path / "cache", 8)
    assert (
        torch.equal(first.images(torch.arange(5)), second.images(torch.arange(5)))
        and first.digest == second.digest
    )
    Image.new("RGB", (12, 10)).save(root / "class 0" / "new.png")
    with pytest.raises(AssertionError, match="decoded again"):
        pack_folder(root, tmp_path / "cache", 8)


def test_a_pack_that_was_killed_is_made_again(tmp_path, monkeypatch):
    root = make_tree(tmp_path / "tree")
    real, calls = module.decode_for_square, []

    def dies(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(module, "decode_for_square", dies)
    with pytest.raises(KeyboardInterrupt):
        pack_folder(root, tmp_path / "cache", 8)
    monkeypatch.undo()
    assert len(pack_folder(root, tmp_path / "cache", 8).store) == 5


def test_the_first_file_that_cannot_be_read_is_an_error(tmp_path):
    root = make_tree(tmp_path / "tree")
    for name in ("class 0/1.png", "class 1/0.png"):
        (root / name).write_text("no image")
    with pytest.raises(DataError, match=r"class 0/1\.png: not a readable image"):
        pack_folder(root, tmp_path / "cache", 8)
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_margin_is_that_of_decoding(tmp_path):
    listing = list_folder(write_digits(tmp_path, 2, 1, seed=0)[0])
    packed = pack(listing, tmp_path / "cache", 28, margin=1.15)
    first = next(path for members in listing.files.values() for path in members)
    assert packed.size_px == 28
    found = packed.images(torch.tensor([0]))[0].permute(1, 2, 0).numpy()
    assert (found == decode_square(first, 28, 1.15)).all()
    assert not (found == decode_square(first, 28)).all()


def test_a_folder_that_cannot_be_used_says_why(tmp_path):
    with pytest.raises(DataError, match="is not a folder"):
        pack_folder(tmp_path / "absent", tmp_path / "cache", 8)
    (tmp_path / "flat").mkdir()
    with pytest.raises(DataError, match="has no sub-folders"):
        pack_folder(tmp_path / "flat", tmp_path / "cache", 8)
    (tmp_path / "flat" / "leaves").mkdir()
    with pytest.raises(DataError, match="leaves holds no image"):
        pack_folder(tmp_path / "flat", tmp_path / "cache", 8)


def test_groups_come_along_and_no_pixel_is_needed_for_them(tmp_path):
    listing = list_folder(make_tree(tmp_path / "tree"))
    assert without_pixels(listing).group_ids is None
    first, second, third = listing.files["class 0"]
    groups = {second: "anna", listing.files["class 1"][0]: "anna", third: "otto"}
    bare = without_pixels(replace(listing, groups=groups))
    packed = pack(replace(listing, groups=groups), tmp_path / "cache", 8)
    for data in (bare, packed):
        assert data.group_ids.tolist() == [-1, 0, 1, 0, -1]
    assert bare.digest == packed.digest == without_pixels(listing).digest
    assert bare.class_ids.tolist() == packed.class_ids.tolist()
    other = without_pixels(replace(listing, groups=groups | {first: "otto"}))
    digests = [grouped_digest(data.digest, data.group_ids) for data in (bare, packed, other)]
    assert digests[0] == digests[1] != digests[2]


def test_digits_are_written_apart_and_the_same_for_a_seed(tmp_path):
    support, pile, truth = write_digits(tmp_path / "a", 5, 40, seed=0)
    names = {p.relative_to(support) for p in support.rglob("*.png")}
    others = {p.name for p in pile.rglob("*.png")}
    assert len(names) == 50 and len(others) == 400
    assert not {path.name for path in names} & others and set(truth) == others
    again, *_ = write_digits(tmp_path / "b", 5, 40, seed=0)
    assert {p.relative_to(again) for p in again.rglob("*.png")} == names
    ink = np.asarray(Image.open(next(support.rglob("*.png"))))
    assert ink.shape == (64, 64, 3) and ink.std() > 30


def test_a_table_that_gives_a_file_another_class_makes_other_data(tmp_path):
    folders = list_folder(make_tree(tmp_path / "tree"))
    first, second = folders.files["class 0"], folders.files["class 1"]
    before = without_pixels(replace(folders, files={"a": first, "b": second}, splits={}))
    # The same files in the same order, one of them of the other class.
    moved = {"a": first[:-1], "b": [first[-1], *second]}
    after = without_pixels(replace(folders, files=moved, splits={}))
    assert before.digest != after.digest
