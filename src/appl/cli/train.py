"""`appl train`: what encoder and PCN learn on the source.

Both commands go on where a killed run stopped, and both can be started in several processes by
torchrun; only the first of them is heard.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from appl.cli._progress import Bars
from appl.cli._training import (
    console_of_process,
    joined,
    list_source,
    meta_settings,
    packed_source,
    rival_settings,
)
from appl.cli._transductive import METHOD as TRANSDUCTIVE
from appl.cli._transductive import train_network

if TYPE_CHECKING:
    from appl.settings import MetaTrainSettings
    from appl.settings.rival_training import RivalTrainSettings
    from appl.training.episodes import Record, TrainedEpoch
    from appl.training.pretrain import Epoch

train = typer.Typer(help="Train on the source.", no_args_is_help=True)

Source = Annotated[Path, typer.Argument(help="miniImageNet, or a class-folder tree.")]
Out = Annotated[Path, typer.Option(help="Folder for checkpoints; a run there goes on.")]
Split = Annotated[
    Path | None,
    typer.Option(help="JSON with train and validation class names; default: Ravi's split."),
]
Cache = Annotated[
    Path | None, typer.Option(help="Folder for decoded images; default: cache in the out folder.")
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]


@train.command()
def pretrain(
    source: Source,
    out: Out,
    start_file: Annotated[
        Path | None,
        typer.Option("--from", help="Weights or checkpoint to start from; default: fresh weights."),
    ] = None,
    split: Split = None,
    settings_file: Annotated[
        Path | None, typer.Option("--settings", help="TOML with PretrainSettings.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="See `appl encoders`; default: resnet10, or that of --from.")
    ] = None,
    size_px: Annotated[int, typer.Option(min=32, help="Side of the stored images.")] = 84,
    cache: Cache = None,
    device: Device = "auto",
) -> None:
    """Classify the source's training classes; what every method here starts from."""
    console = console_of_process()
    with console.status("Loading PyTorch and the list of images …"):
        import torch

        from appl.encoders import ENCODERS
        from appl.errors import WeightsError
        from appl.settings import load_settings
        from appl.settings.pretraining import PretrainSettings
        from appl.training.checkpoint import trained_on
        from appl.training.pretrain import pretrain as run_pretraining
        from appl.weights import export_weights, load_pretrained

        settings = (
            load_settings(PretrainSettings, settings_file) if settings_file else PretrainSettings()
        )
        listing = list_source(source, split)
        start = load_pretrained(start_file) if start_file else None
        torch.manual_seed(settings.seed)
        network = start.encoder if start else ENCODERS.get(encoder or "resnet10")()
        if encoder not in (None, network.meta.name):
            raise WeightsError(
                f"{start_file} holds {network.meta.name}, not {encoder}; leave --encoder out"
            )
        trained_on(network, listing.name, size_px)
    with joined(device) as (compute, processes), Bars(console, transient=True) as progress:
        images = packed_source(listing, cache or out / "cache", size_px, progress, processes)
        bar = progress.add_task("Training", total=None)

        def on_step(step: int, total: int, loss: float) -> None:
            text = f"Training, loss {loss:.2f}"
            progress.update(bar, completed=step, total=total, description=text)

        def on_epoch(epoch: "Epoch") -> None:
            progress.console.print(
                f"epoch {epoch.epoch}: loss {epoch.loss:.3f}, "
                f"training classes {epoch.train_accuracy:.1%} right, {_validation(epoch)}, "
                f"{epoch.loading_share:.0%} of the time loading"
            )

        run_pretraining(
            network.place(compute),
            images,
            list(listing.splits["train"]),
            list(listing.splits["validation"]),
            settings,
            out,
            on_step,
            on_epoch,
            start,
            processes,
        )
        if processes.is_first:
            source_record = network.meta.weights
            export_weights(out / "best.pt", out / "weights.safetensors", source_record)
    _say_done(console, out, "best")


@train.command()
def meta(
    source: Source,
    out: Out,
    start_file: Annotated[
        Path, typer.Option("--from", help="Weights or checkpoint of `appl train pretrain`.")
    ],
    method: Annotated[
        str,
        typer.Option(
            help="What learns: appl, a rival by its name in `appl methods`, or transductive_pcn."
        ),
    ] = "appl",
    preset: Annotated[
        str | None,
        typer.Option(help="Of appl: robust, paper or released; default: the file's, or robust."),
    ] = None,
    settings_file: Annotated[
        Path | None,
        typer.Option("--settings", help="TOML with changes to the preset, or a rival's settings."),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(help="Of appl: train without a part, for an ablation of the paper's Table 3."),
    ] = None,
    n_epochs: Annotated[
        int | None, typer.Option(min=0, help="Epochs; default: by the settings.")
    ] = None,
    split: Split = None,
    cache: Cache = None,
    device: Device = "auto",
) -> None:
    """Meta-train on tasks of the source: Algorithm 1, a rival's way, or the learnt answer."""
    console = console_of_process()
    if method == TRANSDUCTIVE:
        train_network(console, source, out, start_file, settings_file, split, cache, device)
        return
    with console.status("Loading PyTorch and the list of images …"):
        from appl.errors import SettingsError
        from appl.training.checkpoint import trained_on
        from appl.training.meta import train_meta
        from appl.training.rival import train_rival
        from appl.weights import export_weights, load_pretrained

        settings: MetaTrainSettings | RivalTrainSettings
        if method == "appl":
            settings = meta_settings(preset, settings_file, n_epochs, variant)
        elif variant:
            raise SettingsError(f"--variant is for appl, not for {method}")
        else:
            settings = rival_settings(method, preset, settings_file, n_epochs)
        run_training: Any = train_meta if method == "appl" else train_rival
        listing = list_source(source, split)
        start = load_pretrained(start_file)
        trained_on(start.encoder, listing.name, settings.image_px)
    with joined(device) as (compute, processes), Bars(console, transient=True) as progress:
        images = packed_source(
            listing, cache or out / "cache", settings.image_px, progress, processes
        )
        bar = progress.add_task("Meta-training", total=None)

        def on_task(done: int, total: int, record: "Record") -> None:
            text = f"Meta-training, loss {record.loss:.2f}"
            progress.update(bar, completed=done, total=total, description=text)

        def on_epoch(epoch: "TrainedEpoch") -> None:
            if epoch.tasks is None:
                text = f"before the first task: {_validation(epoch)}"
            else:
                text = (
                    f"epoch {epoch.epoch}: loss {epoch.tasks.loss:.3f}, "
                    f"queries {epoch.tasks.query_accuracy:.1%} right, {_validation(epoch)}, "
                    f"{epoch.loading_share:.0%} of the time loading"
                )
            progress.console.print(text)

        start.encoder.place(compute)

        def on_encoded(done: int, total: int) -> None:
            text = "Encoding the source once"
            progress.update(bar, completed=done, total=total, description=text)

        run_training(
            start,
            images,
            list(listing.splits["train"]),
            list(listing.splits["validation"]),
            settings,
            out,
            on_task,
            on_epoch,
            processes,
            cache=cache and cache / "features",
            on_encoded=on_encoded,
        )
        if processes.is_first:
            export_weights(out / f"{settings.model_selection}.pt", out / "weights.safetensors")
    _say_done(console, out, settings.model_selection)


def _validation(epoch: "Epoch | TrainedEpoch") -> str:
    return (
        f"validation {epoch.validation_accuracy:.2f} ± {epoch.validation_interval:.2f} "
        "(5-way 5-shot)"
    )


def _say_done(console: Console, out: Path, selected: str) -> None:
    console.print(
        f"Done: [bold]{out / 'weights.safetensors'}[/] from {selected}.pt, "
        f"with {out / 'settings.toml'}",
        soft_wrap=True,
    )
