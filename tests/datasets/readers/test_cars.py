import json

import numpy as np
import pytest
from scipy.io import savemat

from appl.datasets.provenance import published_counts
from appl.datasets.readers.cars import read_cars
from appl.errors import DataError
from tests.datasets.readers.trees import fill, some, touch

COUNTS = published_counts("cars")
CLASSES = list(COUNTS)
# File number → class number of the devkit, in no order.
ANNOTATED = {1: 196, 2: 4, 3: 1, 4: 196, 5: 2}
EXPECTED = {f"{file:05d}": CLASSES[number - 1] for file, number in ANNOTATED.items()}


def write_mat(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = [(key, object) for key in records[0]]
    array = np.array([tuple(record.values()) for record in records], dtype=kinds)
    savemat(path, {"annotations": array.reshape(1, -1)})


def devkit(root, place="devkit"):
    records = [
        {"bbox_x1": 1.0, "class": float(number), "fname": f"{file:05d}.jpg"}
        for file, number in ANNOTATED.items()
    ]
    write_mat(root / place / "cars_train_annos.mat", records)
    for file in (*ANNOTATED, 6):
        touch(root / "cars_train" / f"{file:05d}.jpg")
        touch(root / "cars_test" / f"{file:05d}.jpg")  # the same names, other images


def all_images(root):
    records = [
        {"relative_im_path": f"car_ims/{file:05d}.jpg", "class": float(number), "test": float(t)}
        for t, shift in ((0, 0), (1, 100))
        for file, number in ((file + shift, number) for file, number in ANNOTATED.items())
    ]
    write_mat(root / "cars_annos.mat", records)
    for record in records:
        touch(root / record["relative_im_path"])


@pytest.mark.parametrize(
    "make",
    [devkit, lambda root: devkit(root, "car_devkit/devkit"), all_images],
    ids=["devkit", "kaggle devkit", "all images"],
)
def test_annotations_in_mat_files(tmp_path, make):
    make(tmp_path)
    listing = read_cars(tmp_path)
    assert {path.stem: name for name, f in listing.files.items() for path in f} == EXPECTED
    assert not any("cars_test" in p.parts for f in listing.files.values() for p in f)
    assert listing.splits["test"] == (CLASSES[3], CLASSES[195])
    assert listing.provenance.kind == "partial"


def test_a_missing_file_is_named_and_shifts_no_label(tmp_path):
    devkit(tmp_path)
    (tmp_path / "cars_train" / "00002.jpg").unlink()
    listing = read_cars(tmp_path)
    found = {path.stem: name for name, f in listing.files.items() for path in f}
    assert found == {stem: name for stem, name in EXPECTED.items() if stem != "00002"}
    assert listing.missing == ("00002",)


@pytest.mark.golden
def test_the_split_is_that_of_the_devkit_and_not_of_the_alphabet(tmp_path):
    splits = read_cars(fill(tmp_path, some(CLASSES, 1))).splits
    assert [len(names) for names in splits.values()] == [98, 49, 49]
    assert [sum(COUNTS[n] for n in names) for names in splits.values()] == [4_108, 2_009, 2_027]
    assert splits["train"][0] == "AM_General_Hummer_SUV_2000"
    assert splits["train"][-1] == "Volvo_XC90_SUV_2007"
    assert splits["validation"][0] == "Acura_RL_Sedan_2012"
    assert splits["validation"][-1] == "Volvo_240_Sedan_1993"
    assert splits["test"][0] == "Acura_TL_Type-S_2008"
    assert splits["test"][-1] == "smart_fortwo_Convertible_2012"
    sizes = [COUNTS[name] for name in splits["test"]]
    assert (min(sizes), max(sizes)) == (24, 47)
    assert sorted(CLASSES)[3::4] != list(splits["test"])


@pytest.mark.parametrize("place", ["", "train", "car_data/train", "car_data/car_data/train"])
def test_class_folders_with_blanks_or_underscores(tmp_path, place):
    shown = {"Ram C-V Cargo Van Minivan 2012": 2, "Acura TL Type-S 2008": 1}
    fill(tmp_path / place, shown)
    if place:
        fill((tmp_path / place).parent / "test", shown)
    listing = read_cars(tmp_path)
    assert listing.counts == {"Acura_TL_Type-S_2008": 1, "Ram_C_V_Cargo_Van_Minivan_2012": 2}
    assert listing.splits["test"] == ("Acura_TL_Type-S_2008",)


def test_class_folders_beside_a_devkit_without_its_images(tmp_path):
    write_mat(tmp_path / "devkit" / "cars_train_annos.mat", [{"class": 1.0, "fname": "1.jpg"}])
    fill(tmp_path / "train", {"Acura_TL_Type-S_2008": 1})
    assert read_cars(tmp_path).layout == "class folders in train"


def test_file_lists(tmp_path):
    names = ["AM General Hummer SUV 2000", "Acura RL Sedan 2012"]
    content = {
        "label_names": names,
        "image_names": [str(touch(tmp_path / "f" / "1.jpg"))],
        "image_labels": [1],
    }
    (tmp_path / "val.json").write_text(json.dumps(content))
    assert read_cars(tmp_path).splits == {"validation": ("Acura_RL_Sedan_2012",)}


def test_mistakes_are_named(tmp_path):
    write_mat(tmp_path / "devkit" / "cars_train_annos.mat", [{"class": 1.0, "fname": "1.jpg"}])
    with pytest.raises(DataError, match=r"annos\.mat is there, but no folder cars_train"):
        read_cars(tmp_path)
    touch(tmp_path / "cars_train" / "1.jpg")
    assert read_cars(tmp_path).n_images == 1  # a single annotation is a list of one
    write_mat(tmp_path / "devkit" / "cars_train_annos.mat", [{"class": 197.0, "fname": "1.jpg"}])
    with pytest.raises(DataError, match=r"'1\.jpg' has class 197 of 196"):
        read_cars(tmp_path)
    write_mat(tmp_path / "devkit" / "cars_train_annos.mat", [{"fname": "1.jpg"}])
    with pytest.raises(DataError, match="an annotation without class or file"):
        read_cars(tmp_path)
    (tmp_path / "devkit" / "cars_train_annos.mat").write_bytes(b"no MATLAB file at all")
    with pytest.raises(DataError, match="is no MATLAB file of annotations"):
        read_cars(tmp_path)
