"""`appl train meta --method transductive_pcn`: the network that learns over tasks of all kinds."""

from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from appl._version import __version__
from appl.cli._progress import Bars
from appl.cli._training import joined, list_source, packed_source

METHOD = "transductive_pcn"


def train_network(
    console: Console,
    source: Path,
    out: Path,
    start_file: Path,
    settings_file: Path | None,
    split: Path | None,
    cache: Path | None,
    device: str,
) -> None:
    """Describe the source's test classes, their disguises and drawn domains once; then learn."""
    with console.status("Loading PyTorch and the list of images …"):
        from appl.errors import DataError
        from appl.settings import load_settings
        from appl.settings.transductive_training import TransductiveTrainSettings
        from appl.training.checkpoint import images_digest
        from appl.training.transductive import (
            Validation,
            make_pools,
            train_transductive,
            write_network,
        )
        from appl.weights import load_pretrained, weights_digest

        settings = (
            load_settings(TransductiveTrainSettings, settings_file)
            if settings_file
            else TransductiveTrainSettings()
        )
        listing = list_source(source, split)
        if "test" not in listing.splits:
            raise DataError(
                f"{source} has no test classes; the network learns on classes that the encoder "
                "has not been trained on: name them as `test` in --split"
            )
        start = load_pretrained(start_file)
    with joined(device) as (compute, processes), Bars(console, transient=True) as progress:
        images = packed_source(
            listing, cache or out / "cache", settings.image_px, progress, processes
        )
        for encoder in start.encoders:
            encoder.place(compute)
        classes, validation = list(listing.splits["test"]), list(listing.splits["validation"])
        bar = progress.add_task("Describing all images once", total=None)
        pools = make_pools(
            start,
            images,
            classes,
            validation,
            settings,
            (cache or out / "cache") / "pools",
            lambda done, total: progress.update(bar, completed=done, total=total),
        )
        progress.remove_task(bar)
        bar = progress.add_task("Learning over tasks", total=settings.n_steps)

        def on_step(done: int, _total: int, loss: float) -> None:
            progress.update(
                bar, completed=done, description=f"Learning over tasks, loss {loss:.2f}"
            )

        def on_validation(found: Validation) -> None:
            gains = ", ".join(f"{name} {gain:+.2f}" for name, gain in found.gains.items())
            progress.console.print(
                f"step {found.step}: loss {found.loss:.3f}; learnt minus fixed rule on validation "
                f"classes: {gains}",
                highlight=False,
            )

        origin = {
            "training": METHOD,
            "version": __version__,
            "encoders": start.name,
            "weights": weights_digest(start),
            "trained_on": f"{listing.name}, {len(classes)} test classes in disguise; drawn images",
            "images": images_digest(images, classes, validation),
            "settings": asdict(settings),
        }
        run = train_transductive(pools, settings, out, origin, on_step, on_validation)
        write_network(out / "network.safetensors", run, origin)
    console.print(
        f"Done: [bold]{out / 'network.safetensors'}[/], with {out / 'settings.toml'}",
        soft_wrap=True,
    )
