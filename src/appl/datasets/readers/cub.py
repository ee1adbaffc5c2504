"""CUB-200-2011: photographs of 200 kinds of birds; the 50 test classes are every fourth.

i of the split is the number before a class's name, less one, whatever else is there: a copy of
the test classes alone keeps them all.
"""

from pathlib import Path

from appl.datasets._registry import DATASETS, DataSet
from appl.datasets.listing import Listing
from appl.datasets.provenance import published_counts
from appl.datasets.readers import _file_lists
from appl.datasets.readers._assembling import Files, assemble, no_layout, require_folder
from appl.datasets.readers._class_folders import find_tree, layout_of, official, read_tree
from appl.datasets.readers._every_fourth import every_fourth

PLACES = ("CUB_200_2011/images", "images", "CUB_200_2011", "")


def read_cub(root: Path) -> Listing:
    """List CUB below `root`."""
    require_folder(root, "CUB")
    known = published_counts("cub")
    layout, files = _find(root, known)
    return assemble("cub", root, layout, files, splits=every_fourth(known))


def _find(root: Path, known: dict[str, int]) -> tuple[str, Files]:
    tree = find_tree(root, PLACES, known)
    if tree is not None:
        return layout_of(root, tree), read_tree(tree, known, "CUB")
    parts = [part for part in ("train", "test") if find_tree(root, (part,), known) is not None]
    if parts:  # a split of images, not of classes: together they are the data set
        files: Files = {}
        for part in parts:
            for name, members in read_tree(root / part, known, "CUB").items():
                files.setdefault(name, []).extend(members)
        return f"class folders in {' and '.join(parts)}", files
    lists = _file_lists.read_file_lists(root)
    if lists is not None:
        return _file_lists.LAYOUT, official(lists.files, known, f"{root}", "CUB")
    layouts = ("CUB_200_2011/images/<class>/", "train/ and test/<class>/", "<class>/")
    raise no_layout(root, "CUB", (*layouts, _file_lists.LAYOUT))


DATASETS.register("cub")(
    DataSet(
        name="cub",
        title="CUB",
        what="photographs of 200 kinds of birds; 50 are test classes",
        domain="birds, fine-grained",
        role="target",
        terms="non-commercial research; the photographs are their makers'",
        where="data.caltech.edu/records/65de6-vp158: CUB_200_2011.tgz",
        folders=("CUB_200_2011", "CUB"),
        read=read_cub,
        remark="easyfsl's split of CUB is another one: do not mix",
    )
)
