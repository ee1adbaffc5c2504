"""FiftyOne's FiftyOneImageClassificationDataset: images in `data`, labels.json by their names.

FiftyOne's guide on importing data sets says how it is laid out. Labels are keyed by file name
without ending, so each has a number that no other has.
"""

import json
from pathlib import Path
from typing import Any

from appl.exchange.format import FORMATS, Format
from appl.exchange.labelled import Handover
from appl.exchange.placing import file_stem, file_suffix, put
from appl.labelling.inputs import shown


def write(handover: Handover, made: Path, out: Path) -> str:
    """Write images and labels."""
    numbers = {name: i for i, name in enumerate(handover.class_names)}
    labels: dict[str, dict[str, Any] | None] = {}
    for number, image in enumerate(handover.images, 1):
        key = f"{number:06}-{file_stem(image.path)}"
        put(image.path, made / "data" / f"{key}{file_suffix(image.path)}", link=handover.link)
        labels[key] = None
        if image.label:
            labels[key] = {
                "label": numbers[image.label],
                "confidence": image.confidence,
                "attributes": {"decision": image.decision, "said_by": image.said_by},
            }
    found = {"classes": list(handover.class_names), "labels": labels}
    text = json.dumps(found, ensure_ascii=False)
    (made / "labels.json").write_text(text, encoding="utf-8")
    return (
        f"read it with fiftyone.Dataset.from_dir({shown(out)!r}, "
        "dataset_type=fiftyone.types.FiftyOneImageClassificationDataset)"
    )


FORMATS.register("fiftyone")(Format("a data set for FiftyOne", "folder", "all", True, write))
