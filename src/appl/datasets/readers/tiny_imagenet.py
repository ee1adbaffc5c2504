"""tiny-imagenet-200, a usual stand-in source: 200 ImageNet classes × 500 images of 64 px.

Read from train/<class>/images/ only: its val/ holds 50 more images of the same 200 classes, so no
unseen ones, and its test/ has no labels. It has no class split of its own, hence one is given.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from appl.datasets._registry import DATASETS, DataSet
from appl.datasets.folder import class_folders
from appl.datasets.listing import Listing
from appl.datasets.provenance import judge, published_counts
from appl.datasets.readers.miniimagenet import ravi_split
from appl.errors import DataError


def miniimagenet_overlap(class_names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return which of these classes are miniImageNet's training, validation and test classes.

    A network that saw miniImageNet's training classes has seen the first group; one that is
    trained on any of the others can no longer be tested on miniImageNet.
    """
    given = set(class_names)
    return {part: tuple(n for n in names if n in given) for part, names in ravi_split().items()}


def read_tiny_imagenet(root: Path, splits: Mapping[str, Sequence[str]]) -> Listing:
    """List the classes that `splits` names (train, validation, test) below `root`/train.

    Validation and test classes must be unseen: neither in another split nor among miniImageNet's
    training classes, on which the encoders may have been trained.
    """
    if not (root / "train").is_dir():
        raise DataError(f"{root} has no folder train; give the unpacked tiny-imagenet-200")
    _check_unseen(splits)
    wanted = {name for names in splits.values() for name in names}
    # Unnamed classes stay out: packed at 224 px, all 200 would take 15 GB.
    files = {name: f for name, f in class_folders(root / "train").items() if name in wanted}
    chosen = {split: tuple(names) for split, names in splits.items()}
    counts = {name: len(members) for name, members in files.items()}
    provenance = judge(counts, published_counts("tiny_imagenet"))
    return Listing("tiny-imagenet", root, files, chosen, "train/<class>/images", provenance)


def read_every_class(root: Path) -> Listing:
    """List all classes below `root`/train as training classes."""
    tree = root / "train"
    names = [p.name for p in sorted(tree.glob("*")) if p.is_dir()]
    return read_tiny_imagenet(root, {"train": names})


def _check_unseen(splits: Mapping[str, Sequence[str]]) -> None:
    place: dict[str, str] = {}
    for split, names in splits.items():
        for name in names:
            if name in place:
                raise DataError(
                    f"class {name} is in the {place[name]} split and again in {split}; keep one"
                )
            place[name] = split
        seen = miniimagenet_overlap(names)["train"] if split != "train" else ()
        if seen:
            raise DataError(
                f"{len(seen)} of the {len(names)} {split} classes are training classes of "
                f"miniImageNet, so not unseen ({', '.join(seen)}); move them to train or drop them"
            )


DATASETS.register("tiny_imagenet")(
    DataSet(
        name="tiny_imagenet",
        title="tiny-imagenet-200",
        what="200 classes of ImageNet × 500 images of 64 px, the training part",
        domain="objects, web photographs",
        role="source",
        terms="ImageNet's: non-commercial research and education",
        where="cs231n.stanford.edu/tiny-imagenet-200.zip",
        folders=("tiny-imagenet-200", "tiny-imagenet"),
        read=read_every_class,
        remark="no class split of its own: give one; 25 of its classes are miniImageNet's",
    )
)
