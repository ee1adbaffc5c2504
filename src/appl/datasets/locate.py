"""From the name of a data set to its files: below the data root, or where the user registered it.

A name that is neither known nor registered is a class-folder tree of that name in the data root.
"""

from pathlib import Path

from appl.datasets._registry import DATASETS, DataSet
from appl.datasets.listing import Listing, list_folder
from appl.datasets.own import own_sets, read_own
from appl.errors import DataError


def find_folder(data_set: DataSet, data_root: Path) -> Path | None:
    """Return the folder of a known data set: as registered, by its name, or by a usual name."""
    own = own_sets(data_root).get(data_set.name)
    if own is not None:
        return data_root / own.path
    for name in (data_set.name, *data_set.folders):
        if (data_root / name).is_dir():
            return data_root / name
    return None


def open_data(name: str, data_root: Path) -> Listing:
    """List a data set by its name, in whichever layout it is there."""
    if name in DATASETS.names():
        data_set = DATASETS.get(name)
        folder = find_folder(data_set, data_root)
        if folder is None:
            looked_for = ", ".join(dict.fromkeys((name, *data_set.folders)))
            raise DataError(
                f"{data_root} has no {data_set.title} (looked for {looked_for}); "
                "'appl data list' says where to get it"
            )
        return data_set.read(folder)
    own = own_sets(data_root).get(name)
    return read_own(name, own, data_root) if own is not None else list_folder(data_root / name)


def open_target(name: str, data_root: Path) -> Listing:
    """List the test classes of a data set: all that a benchmark may look at."""
    return open_data(name, data_root).part("test")
