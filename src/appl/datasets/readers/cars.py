"""Stanford Cars: 196 models of cars, the 8,144 training images; 49 classes are test classes.

i of the split is the class number of the devkit less one, which is not the alphabetical order.
Only the training part is used, as the field does: copies that hold the test part too are read
without it. Class names are written with underscores, as folders of them are.
"""

from pathlib import Path
from typing import Any

from appl.datasets._registry import DATASETS, DataSet
from appl.datasets.listing import Listing
from appl.datasets.provenance import published_counts
from appl.datasets.readers import _file_lists
from appl.datasets.readers._assembling import assemble, no_layout, require_folder
from appl.datasets.readers._class_folders import find_tree, layout_of, official, read_tree
from appl.datasets.readers._every_fourth import every_fourth
from appl.datasets.readers._tables import find_images, find_table
from appl.errors import DataError

# Tables and the folders of their images; the second names the test images too, and marks them.
ANNOTATIONS = {"cars_train_annos.mat": "cars_train", "cars_annos.mat": "car_ims"}
PLACES = ("train", "car_data/train", "car_data/car_data/train", "")


def read_cars(root: Path) -> Listing:
    """List Cars below `root`."""
    require_folder(root, "Cars")
    known = published_counts("cars")
    splits = every_fourth(known)
    tables = {folder: find_table(root, name) for name, folder in ANNOTATIONS.items()}
    for folder, table in tables.items():
        # The test images have the same names, so the folder is asked for by its own.
        if table is not None and (root / folder).is_dir():
            files, missing = find_images(root / folder, annotated_classes(table), table)
            layout = f"{table.relative_to(root)} and {folder}"
            return assemble("cars", root, layout, files, splits=splits, missing=missing)
    tree = find_tree(root, PLACES, known)
    if tree is not None:
        files = read_tree(tree, known, "Cars")
        return assemble("cars", root, layout_of(root, tree), files, splits=splits)
    lists = _file_lists.read_file_lists(root)
    if lists is not None:
        files = official(lists.files, known, f"{root}", "Cars")
        return assemble("cars", root, _file_lists.LAYOUT, files, splits=splits)
    for folder, table in tables.items():
        if table is not None:
            raise DataError(f"{table} is there, but no folder {folder} with its images in {root}")
    layouts = [f"{name} and {folder}" for name, folder in ANNOTATIONS.items()]
    raise no_layout(root, "Cars", (*layouts, "train/<class>/", "<class>/", _file_lists.LAYOUT))


def annotated_classes(table: Path) -> dict[str, str]:
    """Return the class of each training image that a .mat file of annotations names."""
    names = list(published_counts("cars"))
    class_of = {}
    for record in _annotations(table):
        try:
            if record.get("test", 0):
                continue
            number = int(record["class"])
            file = str(record["fname"] if "fname" in record else record["relative_im_path"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{table}: an annotation without class or file: {record!r}") from error
        if not 1 <= number <= len(names):
            raise DataError(f"{table}: {file!r} has class {number} of {len(names)}")
        class_of[Path(file).stem] = names[number - 1]
    return class_of


def _annotations(table: Path) -> list[Any]:
    from scipy.io import loadmat

    try:
        content = loadmat(table, simplify_cells=True)["annotations"]
    except Exception as error:  # a damaged file fails in as many ways as it has bytes
        raise DataError(f"{table} is no MATLAB file of annotations ({error!r})") from error
    return list(content) if isinstance(content, list) else [content]  # one record comes bare


DATASETS.register("cars")(
    DataSet(
        name="cars",
        title="Cars",
        what="photographs of 196 models of cars; 49 are test classes, the training part only",
        domain="cars, fine-grained",
        role="target",
        terms="non-commercial research; photographs from the web",
        where="Stanford's links are dead; copies: kaggle.com 'Stanford Cars', with the devkit",
        folders=("stanford_cars", "StanfordCars", "Cars", "car_data"),
        read=read_cars,
        remark="test classes have 24 to 47 images: shots and queries together are at most 24",
    )
)
