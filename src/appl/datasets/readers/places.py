"""Places365-Standard: 365 kinds of scenes, the first 200 training images of each by sorted name.

i of the split is the place of a class in the sorted list of all 365, also where some are missing.
Classes that are not of Places365 make a copy a stand-in (MiniPlaces has such): it is read whole,
every class of it is a test class, and it is named for what it is.
"""

from pathlib import Path

from appl.datasets._registry import DATASETS, DataSet
from appl.datasets.folder import class_folders
from appl.datasets.listing import Listing
from appl.datasets.provenance import Provenance, name_key, published_counts
from appl.datasets.readers import _file_lists
from appl.datasets.readers._assembling import (
    Files,
    assemble,
    no_layout,
    notes_beside,
    require_folder,
)
from appl.datasets.readers._class_folders import find_tree, layout_of, official
from appl.datasets.readers._every_fourth import every_fourth
from appl.images.decode import SUFFIXES

N_IMAGES_A_CLASS = 200
PLACES = ("places365_standard/train", "train", "")
# Places' own archives, whose folders are /a/airfield and /b/bakery/shop.
LETTERED = ("data_256", "data_large", "train", "")


def read_places(root: Path) -> Listing:
    """List Places below `root`."""
    require_folder(root, "Places")
    known = published_counts("places")
    layout, files = _find(root, known)
    title = str(notes_beside(root).get("title", ""))
    keys = {name_key(name) for name in known}
    unknown = [name for name in files if name_key(name) not in keys]
    if unknown or "stand-in" in title:
        why = title or (
            f"{len(unknown)} of its {len(files)} classes are not of Places365 "
            f"({', '.join(unknown[:3])})"
        )
        return assemble("places", root, layout, files, provenance=Provenance("stand-in", why))
    files = official(files, known, f"{root}", "Places")
    return assemble("places", root, layout, files, splits=every_fourth(sorted(known)))


def _find(root: Path, known: dict[str, int]) -> tuple[str, Files]:
    tree = find_tree(root, PLACES, known)
    if tree is not None:
        return layout_of(root, tree), class_folders(tree, N_IMAGES_A_CLASS)
    for place in LETTERED:
        files = _lettered(root / place)
        if files:
            return f"letter folders in {place or '.'}", files
    lists = _file_lists.read_file_lists(root)
    if lists is not None:
        files = {name: sorted(f)[:N_IMAGES_A_CLASS] for name, f in lists.files.items()}
        return _file_lists.LAYOUT, files
    layouts = ("places365_standard/train/<class>/", "data_256/<letter>/<class>/", "<class>/")
    raise no_layout(root, "Places", (*layouts, _file_lists.LAYOUT))


def _lettered(tree: Path) -> Files:
    letters = sorted(tree.glob("[a-z]"))
    files: Files = {}
    for letter in letters:
        for folder in sorted(path for path in letter.rglob("*") if path.is_dir()):
            members = sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES)
            if members:
                name = "-".join(folder.relative_to(letter).parts)
                files[name] = members[:N_IMAGES_A_CLASS]
    return files


DATASETS.register("places")(
    DataSet(
        name="places",
        title="Places",
        what="scenes of 365 kinds, 200 images of each; 91 are test classes",
        domain="scenes",
        role="target",
        terms="CC BY; the images are their owners'",
        where="places2.csail.mit.edu: Places365-Standard, small images in the easy format",
        folders=("places365_standard", "places365", "Places"),
        read=read_places,
        remark="MiniPlaces, a part of Places2, is read as a stand-in",
    )
)
