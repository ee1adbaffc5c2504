"""`appl train`: what the encoder learns on the source."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from appl.datasets.listing import Listing

train = typer.Typer(help="Train an encoder on the source.", no_args_is_help=True)


@train.command()
def pretrain(
    source: Annotated[Path, typer.Argument(help="miniImageNet, or a class-folder tree.")],
    out: Annotated[Path, typer.Option(help="Folder for checkpoints; a run there goes on.")],
    split: Annotated[
        Path | None,
        typer.Option(help="JSON with train and validation class names; default: Ravi's split."),
    ] = None,
    settings_file: Annotated[
        Path | None, typer.Option("--settings", help="TOML with PretrainSettings.")
    ] = None,
    encoder: Annotated[str, typer.Option(help="See `appl encoders`.")] = "resnet10",
    size_px: Annotated[int, typer.Option(min=32, help="Side of the stored images.")] = 84,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Classify the source's training classes; what every method here starts from."""
    console = Console()
    with console.status("Loading PyTorch and the list of images …"):
        import torch

        from appl.core.compute import resolve_compute
        from appl.datasets.packed import pack
        from appl.encoders import ENCODERS
        from appl.settings import ComputeSettings, load_settings
        from appl.settings.pretraining import PretrainSettings
        from appl.training.pretrain import Epoch
        from appl.training.pretrain import pretrain as run_pretraining

        settings = (
            load_settings(PretrainSettings, settings_file) if settings_file else PretrainSettings()
        )
        listing = _listing(source, split)
        compute = resolve_compute(ComputeSettings(device=device))
        torch.manual_seed(settings.seed)
        network = ENCODERS.get(encoder)().place(compute)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        decoding = progress.add_task("Decoding images once", total=listing.n_images)
        images = pack(
            listing,
            out / "cache",
            size_px,
            on_progress=lambda done, _: progress.update(decoding, completed=done),
        )
        progress.remove_task(decoding)
        bar = progress.add_task("Training", total=None)

        def on_step(step: int, total: int, loss: float) -> None:
            progress.update(
                bar, completed=step, total=total, description=f"Training, loss {loss:.2f}"
            )

        def on_epoch(epoch: Epoch) -> None:
            progress.console.print(
                f"epoch {epoch.epoch}: loss {epoch.loss:.3f}, "
                f"training classes {epoch.train_accuracy:.1%} right, validation "
                f"{epoch.validation_accuracy:.2f} ± {epoch.validation_interval:.2f} (5-way 5-shot)"
            )

        run_pretraining(
            network,
            images,
            list(listing.splits["train"]),
            list(listing.splits["validation"]),
            settings,
            out,
            on_step,
            on_epoch,
        )
    console.print(f"Done: [bold]{out / 'best.pt'}[/] and [bold]{out / 'last.pt'}[/]")


def _listing(source: Path, split: Path | None) -> "Listing":
    import json

    from appl.datasets.listing import list_folder
    from appl.datasets.miniimagenet import read_miniimagenet
    from appl.errors import DataError

    if split is None:
        listing = read_miniimagenet(source)
    else:
        try:
            splits = json.loads(split.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{split} is no JSON file with class names: {error}") from error
        listing = list_folder(source, splits)
    for part in ("train", "validation"):
        if part not in listing.splits:
            raise DataError(f"{source} has no {part} classes; training needs train and validation")
    return listing
