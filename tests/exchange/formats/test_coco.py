"""COCO for whole images, by its documented form, and files of others."""

import json
from pathlib import Path

import pytest
from PIL import Image

from appl.errors import DataError
from appl.exchange.exporting import export_run
from appl.exchange.importing import read_statements
from tests.report.fake_run import FakeRun


def test_it_has_the_documented_form(odd: FakeRun, tmp_path: Path) -> None:
    turned = Path(odd.rows[3].path)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.open(turned).save(turned, exif=exif)
    found = json.loads(export_run(odd.folder, "coco", tmp_path / "c.json").path.read_text())
    assert {"info", "licenses", "images", "categories", "annotations"} == set(found)
    ids = [image["id"] for image in found["images"]]
    assert ids == list(range(1, 22)) and len({a["id"] for a in found["annotations"]}) == 18
    names = {c["id"]: c["name"] for c in found["categories"]}
    assert min(names) == 1 and list(names.values()) == list(odd.class_names)
    for annotation in found["annotations"]:
        assert annotation["image_id"] in ids and annotation["category_id"] in names
        assert "bbox" not in annotation
    sizes = {
        image["file_name"]: (image.get("width"), image.get("height")) for image in found["images"]
    }
    assert sizes["pile/part 2/test.png"] == (30, 20)
    assert sizes["pile/part 1/train 1, 'x'.png"] == (20, 30)  # as it is seen
    assert sizes["pile/torn.png"] == (None, None)


def theirs(folder: Path, **changed: object) -> Path:
    """A file as annotation tools write it: boxes, more fields, ids in no order."""
    found = {
        "images": [
            {"id": 7, "file_name": "img/a.png", "width": 3, "height": 4, "license": 1},
            {"id": 3, "file_name": "img/b.png", "width": 3, "height": 4},
        ],
        "categories": [{"id": 90, "name": "rust"}, {"id": 1, "name": "healthy"}],
        "annotations": [
            {"id": 1, "image_id": 3, "category_id": 90, "bbox": [0, 0, 1, 1], "iscrowd": 0},
            {"id": 2, "image_id": 7, "category_id": 1},
            {"id": 3, "image_id": 3, "category_id": 90},
        ],
    }
    path = folder / "theirs.json"
    path.write_text(json.dumps(found | changed))
    return path


def test_files_of_others(tmp_path: Path) -> None:
    said = {s.path: s.label for s in read_statements(theirs(tmp_path))}
    assert said == {tmp_path / "img/b.png": "rust", tmp_path / "img/a.png": "healthy"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"annotations": None}, "is no whole COCO file"),
        ({"images": []}, "is no whole COCO file: KeyError"),
        ({"categories": {"rust": 1}}, "is no whole COCO file"),
        (
            {
                "annotations": [
                    {"image_id": 3, "category_id": 90},
                    {"image_id": 3, "category_id": 1},
                ]
            },
            "img/b.png has two categories, 'rust' and 'healthy'; keep one",
        ),
    ],
)
def test_what_cannot_be_meant_is_named(tmp_path: Path, changed, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_statements(theirs(tmp_path, **changed))
    for text, words in (
        ("{}", "is no COCO file"),
        ("[", "is no whole JSON"),
        ("[" * 10**5, "JSON"),
    ):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(DataError, match=words):
            read_statements(tmp_path / "x.json", "coco")
