"""Plantae: the 200 plants of iNaturalist 2018 with most images, up to 600 of each.

The field's own list cannot be reproduced: it comes from an unsorted directory, an unstable sort
and an unseeded shuffle, and its archive is gone. Ours ranks classes by (number of files, folder
name), takes files by sorted name, and says that it is ours. The authors' own file lists, where
someone still has them, are taken with their split. Folders that are no numbers are another data
set (Oxford Flowers, say): a stand-in, every class of which is a test class.
"""

from pathlib import Path

from appl.datasets._registry import DATASETS, DataSet
from appl.datasets.folder import class_folders
from appl.datasets.listing import Listing
from appl.datasets.provenance import Provenance
from appl.datasets.readers import _file_lists
from appl.datasets.readers._assembling import (
    assemble,
    no_layout,
    notes_beside,
    require_folder,
)
from appl.datasets.readers._class_folders import layout_of
from appl.datasets.readers._every_fourth import every_fourth

N_CLASSES = 200
N_IMAGES_A_CLASS = 600
N_CLASSES_OF_INATURALIST = 2900  # at least; the archive of 2018 has a few more
PLACES = ("Plantae", "train_val2018/Plantae", "images", "")


def read_plantae(root: Path) -> Listing:
    """List Plantae below `root`."""
    require_folder(root, "Plantae")
    lists = _file_lists.read_file_lists(root)
    if lists is not None:
        provenance = Provenance("unchecked", "file lists as found, with their own split")
        return assemble(
            "plantae",
            root,
            _file_lists.LAYOUT,
            lists.files,
            splits=lists.splits,
            provenance=provenance,
        )
    tree = next((root / place for place in PLACES if _has_folders(root / place)), None)
    if tree is None:
        raise no_layout(root, "Plantae", ("Plantae/<number>/", "<number>/", _file_lists.LAYOUT))
    files, layout = class_folders(tree), layout_of(root, tree)
    if not all(name.isdecimal() for name in files):
        why = notes_beside(root).get("title") or "its classes are not iNaturalist's numbers"
        return assemble("plantae", root, layout, files, provenance=Provenance("stand-in", str(why)))
    n_found = len(files)
    ranked = sorted(files, key=lambda name: (len(files[name]), name))[-N_CLASSES:]
    files = {name: files[name][:N_IMAGES_A_CLASS] for name in ranked}
    if n_found < N_CLASSES:
        # Which ranks these would have is unknown, so the rule would name the wrong classes.
        provenance = Provenance(
            "partial", f"{n_found} of {N_CLASSES} classes: all are test classes, there are no ranks"
        )
        return assemble("plantae", root, layout, files, provenance=provenance)
    ours = "our own ranking by (number of files, folder name), not the field's lost list"
    provenance = Provenance("complete", f"{N_CLASSES} of {n_found:,} classes by {ours}")
    if n_found < N_CLASSES_OF_INATURALIST:
        provenance = Provenance("partial", f"{provenance.remark}; iNaturalist 2018 has over 2,900")
    return assemble(
        "plantae", root, layout, files, splits=every_fourth(ranked), provenance=provenance
    )


def _has_folders(tree: Path) -> bool:
    return tree.is_dir() and any(child.is_dir() for child in tree.iterdir())


DATASETS.register("plantae")(
    DataSet(
        name="plantae",
        title="Plantae",
        what="plants of iNaturalist 2018, the 200 classes with most images; 50 are test classes",
        domain="plants, fine-grained",
        role="target",
        terms="non-commercial research",
        where="github.com/visipedia/inat_comp, 2018: the folder Plantae of train_val2018",
        folders=("Plantae", "train_val2018"),
        read=read_plantae,
        remark="the field's list of classes cannot be reproduced: the ranking is ours",
    )
)
