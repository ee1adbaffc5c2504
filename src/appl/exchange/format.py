"""What a format is, and the registry of them.

To add one: a file in `formats` with a function that writes, perhaps one that reads, and a `Format`
registered under the file's name (with "-" for "_").
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from appl.core.registry import Registry
from appl.exchange.labelled import Handover, Statement

Which = Literal["accepted", "labelled", "all"]


@dataclass(frozen=True)
class Format:
    """A way to hand labels on. What `write` makes is whole before it has its name."""

    summary: str
    place: Literal["file", "folder"]
    which: Which  # handed on unless asked otherwise
    needs_files: bool  # copies images, rather than naming them
    write: Callable[[Handover, Path, Path], str]  # in the second path, for the third; what to do
    read: Callable[[Path], list[Statement]] | None = None
    holds_certificate: bool = False  # in the file itself; else it lies beside the labels


FORMATS: Registry[Format] = Registry("format", "appl.exchange.formats")
