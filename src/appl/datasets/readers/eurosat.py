"""EuroSAT: 27,000 satellite tiles of 64 px in ten classes of land use, the RGB release.

The multispectral release has the same class folders with TIFF files of 13 bands: it is refused,
since three of its bands decoded as RGB would be another data set under the same name.
"""

from pathlib import Path

from appl.datasets._registry import DATASETS, DataSet
from appl.datasets.listing import Listing
from appl.datasets.provenance import published_counts
from appl.datasets.readers._assembling import assemble, no_layout, require_folder
from appl.datasets.readers._class_folders import find_tree, layout_of, read_tree
from appl.errors import DataError

# The last two hold the multispectral release: found in order to be refused.
PLACES = ("", "2750", "EuroSAT/2750", "EuroSAT", "EuroSAT_RGB", "EuroSATallBands", "EuroSAT_MS")


def read_eurosat(root: Path) -> Listing:
    """List EuroSAT below `root`."""
    require_folder(root, "EuroSAT")
    known = published_counts("eurosat")
    tree = find_tree(root, PLACES, known)
    if tree is None:
        raise no_layout(root, "EuroSAT", ("2750/<class>/", "<class>/"))
    files = read_tree(tree, known, "EuroSAT")
    for members in files.values():
        for path in members:
            if path.suffix.lower() in (".tif", ".tiff"):
                raise DataError(
                    f"{path} is of the multispectral release of EuroSAT (TIFF, 13 bands); "
                    "get the RGB release (JPEG)"
                )
    return assemble("eurosat", root, layout_of(root, tree), files)


DATASETS.register("eurosat")(
    DataSet(
        name="eurosat",
        title="EuroSAT",
        what="satellite tiles of ten kinds of land use, 64 px",
        domain="satellite images",
        role="target",
        terms="MIT (its repository), on Copernicus Sentinel data",
        where="github.com/phelber/EuroSAT: EuroSAT.zip, the RGB release",
        folders=("EuroSAT", "EuroSAT_RGB"),
        read=read_eurosat,
    )
)
