"""The registry of data sets: a name gives a record of what it is and the function that reads it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from appl.core.registry import Registry
from appl.datasets.listing import Listing
from appl.datasets.provenance import published_counts


@dataclass(frozen=True)
class DataSet:
    """What tables, docs and command line say about a data set, and how it is read.

    `folders` are names that its folder has in the wild, beside its own; `read` finds the layout
    below such a folder by itself.
    """

    name: str
    title: str
    what: str
    domain: str
    role: Literal["source", "target"]
    terms: str
    where: str
    folders: tuple[str, ...]
    read: Callable[[Path], Listing]
    remark: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """The images that the protocol uses of each class; empty where no list is published."""
        return published_counts(self.name)


DATASETS: Registry[DataSet] = Registry("data set", "appl.datasets.readers")
