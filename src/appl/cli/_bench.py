"""What the commands of `appl bench` share: their options, the store, a run with its bars."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import TaskID

from appl.cli._progress import Bars
from appl.errors import DataError

if TYPE_CHECKING:
    from appl.benchmark.collection import Collection
    from appl.settings.benchmark import BenchSettings
    from appl.store import ResultStore

Config = Annotated[Path, typer.Argument(help="TOML file with BenchSettings.")]
Configs = Annotated[list[Path], typer.Argument(help="TOML files with BenchSettings.")]
Data = Annotated[
    Path, typer.Option(envvar="APPL_DATA", help="Folder with one class-folder tree a target.")
]
WhichData = Annotated[
    Path | None,
    typer.Option(help="Folder of the targets: take results on these files; none is decoded."),
]
Store = Annotated[Path, typer.Option(help="SQLite file of results; a run there goes on.")]
Cache = Annotated[Path, typer.Option(help="Folder for decoded images and features.")]
Workers = Annotated[int, typer.Option(min=0, help="Processes, one thread each; 0: one a core.")]
Episodes = Annotated[
    Path | None,
    typer.Option(help="Manifest that `appl episodes` wrote: replay it; other data is refused."),
]
Ray = Annotated[
    str, typer.Option(help="Address of a Ray cluster, auto, or local: spread the work over it.")
]


def open_results(path: Path) -> "ResultStore":
    """Open a store that must be there: reading makes no empty one."""
    from appl.store import ResultStore

    if not path.exists():
        raise DataError(f"no results at {path}; `appl bench run` or `appl bench import` makes them")
    return ResultStore(path)


def load_collections(
    configs: Sequence[Path], store: "ResultStore", data: Path | None
) -> list["Collection"]:
    """Read configurations, titled by their files if not by themselves, and their results."""
    from appl.benchmark.collection import collect
    from appl.benchmark.plan import data_digests, make_outline
    from appl.settings.benchmark import BenchSettings
    from appl.settings.files import load_settings

    found = []
    for config in configs:
        settings = load_settings(BenchSettings, config)
        settings = replace(settings, title=settings.title or config.stem)
        digests = data_digests(settings, data) if data else None
        found.append(collect(make_outline(settings), store, digests))
    return found


def run_with_bars(
    settings: "BenchSettings",
    data: Path,
    cache: Path,
    results: Path,
    workers: int,
    ray: str,
    episodes: Path | None = None,
) -> None:
    """Solve what is not stored yet, with a bar a row: mean ± interval so far, time left."""
    from appl.benchmark import runner
    from appl.benchmark.cluster import RayWorkers
    from appl.benchmark.plan import Plan, Target, make_plan
    from appl.benchmark.processes import ProcessWorkers
    from appl.benchmark.replay import check_data, check_settings
    from appl.benchmark.rows import Row
    from appl.benchmark.statistics import estimate
    from appl.datasets.manifest import read_manifest
    from appl.store import EpisodeResult, ResultStore

    with Bars() as progress:
        preparing: dict[str, TaskID] = {}

        def on_prepare(kind: str, target: str, done: int, total: int) -> None:
            name = f"{kind} {target}"
            if name not in preparing:
                preparing[name] = progress.add_task(name, total=total)
            progress.update(preparing[name], completed=done)

        manifest = read_manifest(episodes) if episodes else None
        if manifest is not None:
            check_settings(manifest, settings)  # before the files are read
            manifest = manifest.only(settings.targets)
            check_data(manifest, data, partial(on_prepare, "Checking"))
        plan = make_plan(settings, data, cache, partial(on_prepare, "Decoding"), manifest)
        store = ResultStore(results)
        bars: dict[str, TaskID] = {}
        accuracies: dict[str, list[float]] = {}
        for row in plan.rows:
            stored = [
                result.accuracy
                for target in plan.targets.values()
                for result in store.results(plan.run(row, target))
                if result.episode < row.n_episodes
            ]
            accuracies[row.title] = stored
            total = row.n_episodes * len(plan.targets)
            bars[row.title] = progress.add_task(row.title, total=total, completed=len(stored))

        def on_result(row: Row, _: Target, new: list[EpisodeResult]) -> None:
            so_far = accuracies[row.title]
            so_far.extend(result.accuracy for result in new)
            mean = estimate(so_far)
            progress.update(
                bars[row.title],
                advance=len(new),
                description=f"{row.title} {mean.mean:.1f} ± {mean.interval:.1f}",
            )

        def start_workers(plan: Plan) -> runner.Workers:
            if ray:
                return RayWorkers(plan, cache, ray, workers or None)
            return ProcessWorkers(plan, data, cache, workers or len(os.sched_getaffinity(0)))

        runner.run_plan(
            plan,
            cache,
            store,
            start_workers,
            on_result=on_result,
            on_embed=partial(on_prepare, "Embedding"),
        )
        store.close()
