"""miniImageNet as pickles of pixels, in the two forms around, turned into class folders once.

The reader stays with files: a listing is a list of files, and class folders of lossless PNG files
are a form that other tools read as well. From a shell:

    python -m appl.datasets.miniimagenet_pickles FOLDER_OF_PICKLES NEW_FOLDER
"""

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from appl.datasets._restricted_pickle import load_plain
from appl.datasets.readers.miniimagenet import class_names, find_pickles
from appl.errors import ApplError, DataError


def unpack_pickles(root: Path, out: Path) -> int:
    """Write the pickles in `root` as out/<class>/<number>.png and return the number of images.

    `out` appears when it is whole. Needs up to twice the size of the largest pickle in memory.
    """
    pickles = find_pickles(root)
    if not pickles:
        raise DataError(f"{root} holds no pickles of miniImageNet; give the folder with them")
    if out.exists():
        raise DataError(f"{out} is there already; give a new folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        n_images = sum(_write_classes(path, partial) for path in pickles)
        partial.chmod(0o755)  # a temporary folder is its owner's alone
        partial.rename(out)
    except BaseException:
        shutil.rmtree(partial)
        raise
    return n_images


def _write_classes(path: Path, out: Path) -> int:
    pixels, members = _read(path)
    for name, indices in members.items():
        folder = out / name
        if folder.exists():
            raise DataError(f"{path}: class {name} was in another pickle too; keep one of the two")
        folder.mkdir()
        for number, i in enumerate(indices):
            Image.fromarray(pixels[i]).save(folder / f"{number:05d}.png")
    return len(pixels)


def _read(path: Path) -> tuple[NDArray[np.uint8], dict[str, NDArray[np.int64]]]:
    """Return the pixels (n, height, width, 3) of a pickle and the indices of each class."""
    content = load_plain(path)
    keys = set(content) if isinstance(content, dict) else set()
    form = next((form for form in FORMS if keys.issuperset(form)), None)
    if form is None:
        wanted = " or ".join(", ".join(form) for form in FORMS)
        raise DataError(f"{path} lacks the keys {wanted}: it is no pickle of miniImageNet")
    try:
        pixels = np.asarray(content[form[0]])
        members = FORMS[form](content)
        named = np.sort(np.concatenate(list(members.values())))
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(
            f"{path}: {', '.join(form)} do not hold what they should: {error}"
        ) from error
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[3] != 3:
        raise DataError(f"{path}: images of {pixels.dtype} {pixels.shape}, not uint8 (n, h, w, 3)")
    if not np.array_equal(named, np.arange(len(pixels))):
        raise DataError(f"{path}: its classes do not name each of its {len(pixels)} images once")
    # Classes become folder names, so that a name like ../x must not pass either.
    unknown = sorted(str(name) for name in members if name not in class_names())
    if unknown:
        raise DataError(f"{path}: class {unknown[0]!r} is not one of miniImageNet's 100")
    return pixels, members


def _by_class_dict(content: dict[str, Any]) -> dict[str, NDArray[np.int64]]:
    return {name: np.asarray(indices) for name, indices in content["class_dict"].items()}


def _by_labels(content: dict[str, Any]) -> dict[str, NDArray[np.int64]]:
    labels = np.asarray(content["labels"])
    # Labels go on from file to file (the validation classes start at 64): names come from the
    # file's own table, which may also name classes of the other files.
    members = {name: (labels == k).nonzero()[0] for name, k in content["catname2label"].items()}
    return {name: indices for name, indices in members.items() if len(indices)}


FORMS: dict[tuple[str, ...], Callable[[dict[str, Any]], dict[str, NDArray[np.int64]]]] = {
    ("image_data", "class_dict"): _by_class_dict,
    ("data", "labels", "catname2label"): _by_labels,
}


def main(arguments: list[str]) -> None:
    """Convert from a shell: a folder of pickles, then the folder to make."""
    if len(arguments) != 2:
        raise SystemExit("two arguments, please: the folder of pickles and the folder to make")
    try:
        n_images = unpack_pickles(Path(arguments[0]), Path(arguments[1]))
    except ApplError as error:
        raise SystemExit(f"appl: {error}") from error
    print(f"{n_images} images written to {arguments[1]}")


if __name__ == "__main__":
    main(sys.argv[1:])
