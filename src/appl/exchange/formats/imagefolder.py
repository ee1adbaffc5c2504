"""Hugging Face's imagefolder: images below `train`, and metadata.csv with their labels.

The images are numbered: `datasets` makes a split of every file or folder that is called test or
validation. The labels in metadata.csv are the names themselves, with nothing put before them.
"""

import csv
import io
from pathlib import Path

from appl.exchange.format import FORMATS, Format
from appl.exchange.formats.csv import COLUMNS
from appl.exchange.labelled import Handover
from appl.exchange.placing import file_suffix, put
from appl.labelling.inputs import shown

SPLIT = "train"


def write(handover: Handover, made: Path, out: Path) -> str:
    """Write images and table."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("file_name", *COLUMNS[1:], "original_path"))
    for number, image in enumerate(handover.images, 1):
        name = f"{number:06}{file_suffix(image.path)}"
        put(image.path, made / SPLIT / name, link=handover.link)
        values = (getattr(image, column) for column in COLUMNS[1:])
        writer.writerow((name, *values, shown(image.path.resolve())))
    table = text.getvalue().encode("utf-8", "backslashreplace")
    (made / SPLIT / "metadata.csv").write_bytes(table)
    return f'read it with datasets.load_dataset("imagefolder", data_dir={shown(out)!r})'


FORMATS.register("imagefolder")(
    Format("Hugging Face imagefolder with metadata.csv", "folder", "accepted", True, write)
)
