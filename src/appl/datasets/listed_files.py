"""What the files of a data set are, so that another copy can be told to be the same, or how not."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from appl.datasets.listing import Listing
from appl.errors import DataError


@dataclass(frozen=True)
class ListedFile:
    """An image file: its name below the data set's folder, its bytes, a digest of them."""

    name: str
    size: int
    digest: str


ListedFiles = Mapping[str, tuple[ListedFile, ...]]  # by class
OnFile = Callable[[int, int], None]


def describe_files(
    listing: Listing, on_file: OnFile = lambda _done, _total: None
) -> dict[str, tuple[ListedFile, ...]]:
    """Read every file of a listing for its digest; none is decoded."""
    described: dict[str, tuple[ListedFile, ...]] = {}
    done = 0
    for class_name, members in listing.files.items():
        files = []
        for path in members:
            size = path.stat().st_size
            files.append(ListedFile(listing.file_name(path), size, _digest(path)))
            done += 1
            on_file(done, listing.n_images)
        described[class_name] = tuple(files)
    return described


def refuse_other_files(
    listing: Listing,
    listed: ListedFiles,
    where: str,
    *,
    contents: bool,
    on_file: OnFile = lambda _done, _total: None,
) -> None:
    """Refuse a copy that is another one by names, classes or sizes, or also by contents."""
    paths = {listing.file_name(p): p for members in listing.files.values() for p in members}
    class_of = {listing.file_name(p): c for c, members in listing.files.items() for p in members}
    wanted = {file.name: (c, file) for c, members in listed.items() for file in members}
    differences = [f"{name} is missing" for name in wanted if name not in paths]
    differences += [f"{name} is new" for name in paths if name not in wanted]
    for done, name in enumerate(name for name in paths if name in wanted):
        class_name, file = wanted[name]
        size = paths[name].stat().st_size
        if class_of[name] != class_name:
            differences.append(f"{name} is of class {class_of[name]!r}, not {class_name!r}")
        elif size != file.size:
            differences.append(f"{name} has {size} bytes, not {file.size}")
        elif contents and _digest(paths[name]) != file.digest:
            differences.append(f"{name} has another content of the same size")
        on_file(done + 1, len(paths))
    if differences:
        more = f" (and {len(differences) - 1} files more differ)" if len(differences) > 1 else ""
        raise DataError(
            f"{where}: {listing.root} holds other data: {differences[0]}{more}; "
            "get the same copy, or write a manifest of this one with 'appl episodes'"
        )


def _digest(path: Path) -> str:
    """Identify the content of a file; eight bytes are plenty against accidents."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=8)).hexdigest()
