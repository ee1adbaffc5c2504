"""What the commands of `appl train` share: the source, the processes and the progress bar."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from appl.core.compute import Compute
    from appl.datasets.listing import Listing
    from appl.datasets.packed import PackedImages
    from appl.training.distributed import Processes


def console_of_process() -> Console:
    """Return a console that only the first of several processes can be heard on."""
    is_first = int(os.environ.get("WORLD_SIZE", "1")) == 1 or os.environ.get("RANK", "0") == "0"
    return Console(quiet=not is_first)


@contextmanager
def joined(device: str) -> Iterator[tuple["Compute", "Processes"]]:
    """Choose the device, and join the other processes where there are any."""
    from appl.core.compute import resolve_compute
    from appl.settings import ComputeSettings
    from appl.training.distributed import device_of_process, joined_processes

    compute = resolve_compute(ComputeSettings(device=device_of_process(device)))
    with joined_processes(compute.device) as processes:
        yield compute, processes


def progress_bar(console: Console) -> Progress:
    """Return a bar that leaves nothing behind."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeRemainingColumn(), console=console, transient=True)


def packed_source(
    listing: "Listing", cache: Path, size_px: int, progress: Progress, processes: "Processes"
) -> "PackedImages":
    """Decode the source once, or open what is there; the first process does it for all."""
    from appl.datasets.packed import pack

    bar = progress.add_task("Decoding images once", total=listing.n_images)
    with processes.first_goes_ahead():
        images = pack(
            listing,
            cache,
            size_px,
            on_progress=lambda done, _: progress.update(bar, completed=done),
        )
    progress.remove_task(bar)
    return images


def list_source(source: Path, split: Path | None) -> "Listing":
    """List the source and make sure that it has training and validation classes.

    What is no folder may be the name of a data set in the data root (APPL_DATA).
    """
    from appl.datasets.listing import list_folder, load_split
    from appl.datasets.locate import open_data
    from appl.datasets.readers.miniimagenet import read_miniimagenet
    from appl.datasets.readers.tiny_imagenet import read_tiny_imagenet
    from appl.errors import DataError

    data_root = os.environ.get("APPL_DATA")
    if split is None and data_root and not source.exists():
        listing = open_data(str(source), Path(data_root))
    elif split is None:
        listing = read_miniimagenet(source)
    else:
        splits = load_split(split)
        is_tiny = (source / "wnids.txt").is_file() and (source / "train").is_dir()
        listing = read_tiny_imagenet(source, splits) if is_tiny else list_folder(source, splits)
    for part in ("train", "validation"):
        if part not in listing.splits:
            raise DataError(f"{source} has no {part} classes; training needs train and validation")
    return listing
