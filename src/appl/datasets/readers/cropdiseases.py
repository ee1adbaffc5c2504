"""CropDiseases: leaves of 14 crops, healthy or with one of 26 diseases, from PlantVillage.

The benchmark uses the `train` part of one Kaggle copy (43,456 images) and leaves its `test` part
alone. PlantVillage itself has about 54,000 images in the same 38 classes: it is read, and said to
be different.
"""

from pathlib import Path

from appl.datasets._registry import DATASETS, DataSet
from appl.datasets.listing import Listing
from appl.datasets.provenance import published_counts
from appl.datasets.readers._assembling import assemble, no_layout, require_folder
from appl.datasets.readers._class_folders import find_tree, layout_of, read_tree

PLACES = (
    "dataset/train",
    "train",
    "CropDiseases/dataset/train",
    "CropDiseases/train",
    "",
    "raw/color",  # PlantVillage's own repository
)


def read_cropdiseases(root: Path) -> Listing:
    """List CropDiseases below `root`."""
    require_folder(root, "CropDiseases")
    known = published_counts("cropdiseases")
    tree = find_tree(root, PLACES, known)
    if tree is None:
        raise no_layout(
            root, "CropDiseases", ("dataset/train/<class>/", "train/<class>/", "<class>/")
        )
    files = read_tree(tree, known, "CropDiseases")
    return assemble("cropdiseases", root, layout_of(root, tree), files)


DATASETS.register("cropdiseases")(
    DataSet(
        name="cropdiseases",
        title="CropDiseases",
        what="leaves of 14 crops, healthy or with one of 26 diseases, 256 px",
        domain="plants, close up",
        role="target",
        terms="GPL-2 on Kaggle; PlantVillage asks to cite arXiv 1511.08060",
        where="kaggle.com/datasets/saroz014/plant-disease, its train part",
        folders=("CropDiseases", "plant-disease"),
        read=read_cropdiseases,
        remark="several photographs of one leaf exist, and nothing says which",
    )
)
