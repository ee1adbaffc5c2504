"""What the commands of `appl train` share: source, processes, progress bar; their settings."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress

if TYPE_CHECKING:
    from appl.core.compute import Compute
    from appl.datasets.listing import Listing
    from appl.datasets.packed import PackedImages
    from appl.settings import MetaTrainSettings
    from appl.settings.rival_training import RivalTrainSettings
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


def meta_settings(
    preset: str | None,
    settings_file: Path | None,
    n_epochs: int | None,
    variant: str | None = None,
) -> "MetaTrainSettings":
    """Take the preset, then the file's changes, then the command line's."""
    import tomllib

    from appl.settings import MetaTrainSettings, load_settings
    from appl.settings.files import structure_settings, with_changes
    from appl.solver.variants import meta_training_variant

    values = {"preset": preset or "robust"}
    if settings_file:
        load_settings(MetaTrainSettings, settings_file)  # says what is wrong with the file
        values |= tomllib.loads(settings_file.read_text(encoding="utf-8"))
        if preset:
            values["preset"] = preset
    settings = structure_settings(MetaTrainSettings, values, str(settings_file or "settings"))
    if variant:
        settings = meta_training_variant(settings, variant)
    return settings if n_epochs is None else with_changes(settings, n_epochs=n_epochs)


def rival_settings(
    method: str, preset: str | None, settings_file: Path | None, n_epochs: int | None
) -> "RivalTrainSettings":
    """Take the file's settings, then the command line's."""
    import tomllib

    from appl.errors import SettingsError
    from appl.settings import load_settings
    from appl.settings.files import structure_settings
    from appl.settings.rival_training import RivalTrainSettings

    if preset:
        raise SettingsError(f"--preset is for appl; {method} takes --settings")
    values: dict[str, Any] = {}
    if settings_file:
        load_settings(RivalTrainSettings, settings_file)  # says what is wrong with the file
        values = tomllib.loads(settings_file.read_text(encoding="utf-8"))
    if values.setdefault("method", method) != method:
        raise SettingsError(f"{settings_file} is for {values['method']}, not for {method}")
    if n_epochs is not None:
        values["n_epochs"] = n_epochs
    return structure_settings(RivalTrainSettings, values, str(settings_file or "settings"))
