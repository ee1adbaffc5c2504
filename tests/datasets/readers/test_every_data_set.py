"""What holds for every data set of the registry, and what is published about them."""

import importlib
import re
import subprocess
import sys

import pytest

from appl.datasets._registry import DATASETS
from appl.datasets.provenance import judge, name_key, published_counts
from appl.datasets.readers.miniimagenet import ravi_split
from appl.errors import DataError

NAMES = DATASETS.names()


def test_the_ten_data_sets_are_there():
    assert NAMES == [
        "cars",
        "chestx",
        "cropdiseases",
        "cub",
        "eurosat",
        "isic",
        "miniimagenet",
        "places",
        "plantae",
        "tiny_imagenet",
    ]


def test_names_and_records_load_no_torch():
    code = (
        "import sys; from appl.datasets._registry import DATASETS; DATASETS.names()\n"
        "print(sorted({'torch', 'sklearn', 'scipy'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize("name", NAMES)
def test_a_record_says_what_where_and_on_which_terms(name):
    data_set = DATASETS.get(name)
    assert data_set.name == name
    assert data_set.read.__module__ == f"appl.datasets.readers.{name}"
    assert importlib.import_module(data_set.read.__module__).__doc__
    for text in (data_set.title, data_set.what, data_set.domain, data_set.terms, data_set.where):
        assert text and "\n" not in text
    assert data_set.folders


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_without_the_data_set_is_an_error_in_one_line(name, tmp_path):
    read = DATASETS.get(name).read
    for folder in (tmp_path / "absent", tmp_path):
        with pytest.raises(DataError, match=re.escape(str(folder))) as caught:
            read(folder)
        assert "\n" not in str(caught.value)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("name", "n_classes", "n_images", "smallest"),
    [
        ("cars", 196, 8_144, 24),
        ("chestx", 7, 25_848, 1_093),
        ("cropdiseases", 38, 43_456, 122),
        ("cub", 200, 11_788, 41),
        ("eurosat", 10, 27_000, 2_000),
        ("isic", 7, 10_015, 115),
        ("miniimagenet", 100, 60_000, 600),
        ("places", 365, 73_000, 200),
        ("tiny_imagenet", 200, 100_000, 500),
    ],
)
def test_published_counts_add_up(name, n_classes, n_images, smallest):
    counts = published_counts(name)
    assert (len(counts), sum(counts.values()), min(counts.values())) == (
        n_classes,
        n_images,
        smallest,
    )
    assert len({name_key(class_name) for class_name in counts}) == n_classes


@pytest.mark.golden
def test_published_counts_class_by_class():
    assert published_counts("isic") == {
        "MEL": 1113, "NV": 6705, "BCC": 514, "AKIEC": 327, "BKL": 1099, "DF": 115, "VASC": 142,
    }  # fmt: skip
    assert list(published_counts("isic")) == ["MEL", "NV", "BCC", "AKIEC", "BKL", "DF", "VASC"]
    assert published_counts("chestx") == {
        "Atelectasis": 4215, "Cardiomegaly": 1093, "Effusion": 3955, "Infiltration": 9547,
        "Mass": 2139, "Nodule": 2705, "Pneumothorax": 2194,
    }  # fmt: skip
    crops = published_counts("cropdiseases")
    assert crops["Potato___healthy"] == 122 and crops["Pepper,_bell___healthy"] == 1183
    assert set(published_counts("miniimagenet")) == {
        n for part in ravi_split().values() for n in part
    }
    assert published_counts("plantae") == {}


def test_a_copy_is_judged_by_its_counts():
    published = {"a": 3, "b": 2}
    assert str(judge({"a": 3, "b": 2}, published)) == "complete: all 2 classes and 5 images"
    part = judge({"b": 1}, published, ["b_0001"])
    assert part.kind == "partial"
    assert part.remark == (
        "1 of 2 classes, 1 of 5 images; 1 listed files are not there, 'b_0001' the first"
    )
    more = judge({"a": 3, "b": 4}, published)
    assert more.kind == "different" and "class 'b' has 4 images where 2 are published" in str(more)
    assert str(judge({"a": 3, "c": 1}, published)) == (
        "different: 1 classes are not of the published set, as 'c'"
    )
    assert judge({"a": 1}, {}).kind == "unchecked"
