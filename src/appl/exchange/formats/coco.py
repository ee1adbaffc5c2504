"""COCO's JSON for whole images: an annotation without a box for each label.

`score`, `decision`, `novelty` and `said_by` stand in the annotation. Read back: any COCO file with
one category per image; file names count from the JSON's folder.
"""

import json
from pathlib import Path
from typing import Any

from PIL import Image

from appl.errors import DataError
from appl.exchange.format import FORMATS, Format
from appl.exchange.labelled import Handover, LabelledImage, Statement, path_from, path_in
from appl.exchange.reading import read_json

UPSIDE = (5, 6, 7, 8)  # EXIF orientations that swap width and height
ORIENTATION = 0x0112


def write(handover: Handover, made: Path, out: Path) -> str:
    """Write the file."""
    numbers = {name: i for i, name in enumerate(handover.class_names, 1)}
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for image_id, image in enumerate(handover.images, 1):
        name = path_from(image.path, out.parent)
        images.append({"id": image_id, "file_name": name, **_size(image.path)})
        if image.label:
            annotations.append(_annotation(image, len(annotations) + 1, image_id, numbers))
    info: dict[str, Any] = {"description": "labels of appl", "version": handover.version}
    if handover.certificate is not None:
        info["certificate"] = handover.certificate
    found = {
        "info": info,
        "licenses": [],
        "images": images,
        "categories": [{"id": i, "name": name, "supercategory": ""} for name, i in numbers.items()],
        "annotations": annotations,
    }
    made.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
    return ""


def read(place: Path) -> list[Statement]:
    """Read a file whose images have one category each."""
    found = read_json(place)
    if not isinstance(found, dict) or not {"images", "categories", "annotations"} <= found.keys():
        raise DataError(f"{place} is no COCO file: it needs images, categories and annotations")
    try:
        names = {category["id"]: str(category["name"]) for category in found["categories"]}
        files = {image["id"]: str(image["file_name"]) for image in found["images"]}
        said: dict[Any, Statement] = {}
        for annotation in found["annotations"]:
            image_id, name = annotation["image_id"], names[annotation["category_id"]]
            more = annotation.get("attributes", {})
            statement = Statement(
                path_in(files[image_id], place.parent),
                name,
                {"person": True, "model": False}.get(more.get("said_by", "")),
                str(more.get("decision", "")),
            )
            if said.setdefault(image_id, statement).label != name:
                raise DataError(
                    f"{place}: {files[image_id]} has two categories, {said[image_id].label!r} and "
                    f"{name!r}; keep one"
                )
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{place} is no whole COCO file: {error!r} is missing or wrong") from error
    return list(said.values())


def _annotation(
    image: LabelledImage, number: int, image_id: int, numbers: dict[str, int]
) -> dict[str, Any]:
    return {
        "id": number,
        "image_id": image_id,
        "category_id": numbers[image.label],
        "score": image.confidence,
        "attributes": {
            "decision": image.decision,
            "novelty": image.novelty,
            "runner_up": image.runner_up,
            "said_by": image.said_by,
        },
    }


def _size(path: Path) -> dict[str, int]:
    """Return the size of an image as it is seen, from its header; nothing where it is gone."""
    try:
        with Image.open(path) as image:
            width, height = image.size
            if image.getexif().get(ORIENTATION) in UPSIDE:
                width, height = height, width
    except Exception:  # damaged files make the decoders raise nearly anything
        return {}
    return {"width": width, "height": height}


FORMATS.register("coco")(
    Format("COCO JSON for whole images", "file", "all", False, write, read, True)
)
