"""Benchmarks with results made up by hand: no weights, no images, no training."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from appl.benchmark.collection import Collection, collect
from appl.benchmark.plan import Outline
from appl.benchmark.rows import Row
from appl.core.methods import METHODS
from appl.settings.benchmark import BenchSettings
from appl.settings.files import structure_settings
from appl.store import EpisodeResult, ResultStore

ROWS = (("ProtoNet", "prototypical", {}), ("TIM", "tim", {}))


def fake_outline(
    targets: dict[str, str] | None = None,
    rows: Sequence[tuple[str, str, dict[str, Any]]] = ROWS,
    *,
    n_shot: int = 5,
    n_episodes: int = 100,
    weights_digest: str = "e" * 64,
    **changes: Any,
) -> Outline:
    """Outline a benchmark; `changes` are of its settings, `protocol` a dict."""
    protocol = {"n_shot": n_shot} | changes.pop("protocol", {})
    settings = structure_settings(
        BenchSettings,
        {
            "targets": targets or {"cub": "CUB"},
            "rows": [{"method": method, "title": title} for title, method, _ in rows],
            "protocol": protocol,
            "n_episodes": n_episodes,
            **changes,
        },
    )
    made = tuple(
        Row(
            METHODS.get(method)(**values),
            method,
            title,
            n_episodes,
            settings.weights,
            weights_digest,
            "resnet10",
        )
        for title, method, values in rows
    )
    return Outline(settings, made, "resnet10", "miniImageNet", weights_digest)


def digest_of(target: str) -> str:
    """Return the digest of a target's files, each its own."""
    return target.ljust(64, "0")


def add(
    store: ResultStore,
    outline: Outline,
    title: str,
    target: str,
    accuracies: Sequence[float],
    *,
    digest: str = "",
    seconds: float = 0.5,
) -> None:
    """Store the accuracies of a row as those of the first episodes."""
    (row,) = (row for row in outline.rows if row.title == title)
    stamp = {"version": "0.1.0", "finished_at": "2026-11-16T22:17:46+00:00"}
    results = [EpisodeResult(i, value, seconds, **stamp) for i, value in enumerate(accuracies)]
    store.add(outline.run(row, target, digest or digest_of(target)), results)


def simple_collection(folder: Path, **changes: Any) -> Collection:
    """ProtoNet 50, 60, 70 and TIM 54, 66, 75 on CUB."""
    store = ResultStore(folder / "results.sqlite")
    outline = fake_outline(**changes)
    add(store, outline, outline.rows[0].title, "cub", [50.0, 60.0, 70.0])
    add(store, outline, outline.rows[1].title, "cub", [54.0, 66.0, 75.0], seconds=2.0)
    return collect(outline, store)
