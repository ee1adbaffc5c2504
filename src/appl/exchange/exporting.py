"""Handing a run on: `export_run`, for the command line, Python and pages."""

import json
import os
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from appl.core.files import write_atomically
from appl.errors import DataError, SettingsError
from appl.exchange.format import FORMATS
from appl.exchange.labelled import Handover, chosen, read_run, require_files

CHOICES = ("accepted", "labelled", "all")


@dataclass(frozen=True)
class Exported:
    """What was written."""

    path: Path
    format: str
    n_images: int
    which: str
    note: str  # what to do with it


def export_run(
    run: Path, to: str, out: Path, *, which: str | None = None, link: bool = False
) -> Exported:
    """Write the labels of a run in a format of `FORMATS`; `out` must not exist yet.

    `which` is accepted, labelled (accepted and to review) or all; None is what suits the format.
    What a person said of an image stands in place of its label. A kill leaves nothing under `out`.
    """
    format_ = FORMATS.get(to)
    which = which or format_.which
    if which not in CHOICES:
        raise SettingsError(f"which = {which!r}: it is one of {', '.join(CHOICES)}")
    whole = Path(os.path.abspath(out))  # noqa: PTH100  a link stays a link
    beside = whole.with_name(f"{whole.stem}.certificate.json")
    for place in (out, beside) if format_.place == "file" else (out,):
        if os.path.lexists(place):
            raise DataError(f"{place} is there already; choose another --out, or remove it")
    handover = replace(chosen(read_run(run), which), link=link)
    if not handover.images:
        raise DataError(f"{run} has no image to hand on ({which}); try --which labelled, or all")
    if format_.needs_files:
        require_files(handover)
    whole.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=whole.parent, prefix=f".{whole.name}."))
    try:
        made = work / whole.name
        if format_.place == "folder":
            made.mkdir()
        note = format_.write(handover, made, whole)
        if format_.place == "folder":
            _save_certificate(handover, made / "certificate.json")
        elif not format_.holds_certificate:
            _save_certificate(handover, beside)
        made.rename(whole)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return Exported(out, to, len(handover.images), which, note)


def _save_certificate(handover: Handover, path: Path) -> None:
    if handover.certificate is not None:
        write_atomically(path, json.dumps(handover.certificate, indent=1).encode())
