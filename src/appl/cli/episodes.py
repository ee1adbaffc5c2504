"""`appl episodes`: the episodes of a benchmark as a file that replays anywhere."""

from pathlib import Path
from typing import Annotated

import typer

from appl.cli._bench import Data
from appl.cli._progress import Bars
from appl.errors import SettingsError


def episodes(
    data: Data,
    config: Annotated[
        Path | None, typer.Argument(help="TOML file with BenchSettings: write its episodes.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="The manifest: a .json file, or .json.gz for a smaller one.")
    ] = Path("episodes.json.gz"),
    check: Annotated[
        Path | None, typer.Option(help="A manifest to compare the data with; writes nothing.")
    ] = None,
) -> None:
    """Write which images make up every episode, or check that data is what a manifest says.

    `appl bench run CONFIG --episodes MANIFEST` replays it.
    """
    if (config is None) == (check is None):
        raise SettingsError("give CONFIG.toml to write its episodes, or --check MANIFEST")
    if check is not None:
        _check(check, data)
    elif config is not None:
        _write(config, data, out)


def _write(config: Path, data: Path, out: Path) -> None:
    from appl.benchmark.replay import make_manifest
    from appl.datasets.manifest import write_manifest
    from appl.settings.benchmark import BenchSettings
    from appl.settings.files import load_settings

    settings = load_settings(BenchSettings, config)
    with Bars(transient=True) as progress:
        bars = {name: progress.add_task(f"Reading {name}") for name in settings.targets}
        manifest = make_manifest(
            settings, data, lambda t, d, n: progress.update(bars[t], completed=d, total=n)
        )
    write_manifest(manifest, out)
    for name, target in manifest.targets.items():
        n_episodes, n_classes = len(target.episodes), len(target.files)
        typer.echo(
            f"{name}: {n_episodes} episodes of {target.n_images} images, {n_classes} classes"
        )
    typer.echo(f"Episodes in {out} ({out.stat().st_size / 1e3:,.0f} kB)")


def _check(path: Path, data: Path) -> None:
    from appl.benchmark.replay import check_data
    from appl.datasets.manifest import read_manifest

    manifest = read_manifest(path)
    with Bars(transient=True) as progress:
        bars = {name: progress.add_task(f"Checking {name}") for name in manifest.targets}
        checked = check_data(
            manifest, data, lambda t, d, n: progress.update(bars[t], completed=d, total=n)
        )
    for name, as_drawn in checked.items():
        target = manifest.targets[name]
        origin = "those drawn here, too" if as_drawn else "its own: results have keys of their own"
        typer.echo(
            f"{name}: the same {target.n_images} images; {len(target.episodes)} episodes, {origin}"
        )
