"""What a benchmark consists of: its data, its weights, its rows, and the identity of each run."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from appl.core.methods import METHODS, Method
from appl.datasets.episodes import EpisodeDraw, draw_episode
from appl.datasets.locate import open_data
from appl.datasets.packed import PackedImages, pack
from appl.datasets.standing import UNCHECKED, Standing
from appl.settings.benchmark import BenchSettings, RowSettings
from appl.settings.files import structure_settings
from appl.store import Run
from appl.training.shipped import load_pretrained, weights_digest
from appl.training.weights import Pretrained


@dataclass(frozen=True)
class Row:
    """A method made ready, and how many episodes it gets."""

    method: Method
    name: str
    title: str
    n_episodes: int

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that decide the results: presets are resolved to their values."""
        resolve = getattr(self.method, "settings", None)
        values: Any = resolve() if resolve is not None else self.method
        return asdict(values)


@dataclass(frozen=True)
class Target:
    """A data set ready for episodes: its test classes, and how the copy stands to the original."""

    name: str
    title: str
    data: PackedImages
    standing: Standing = UNCHECKED

    def draw(self, plan: "Plan", episode: int) -> EpisodeDraw:
        """Draw an episode under the plan's protocol."""
        names = self.data.class_names
        return draw_episode(self.data, names, index=episode, **asdict(plan.settings.protocol))


@dataclass(frozen=True)
class Plan:
    """A benchmark with everything loaded."""

    settings: BenchSettings
    targets: dict[str, Target]
    rows: tuple[Row, ...]
    pretrained: Pretrained
    weights_digest: str

    def run(self, row: Row, target: Target) -> Run:
        """Return the identity under which results of a row on a target are stored."""
        return Run(
            method=row.name,
            settings=row.settings,
            target=target.name,
            data_digest=target.data.digest,
            protocol=asdict(self.settings.protocol) | {"margin": self.settings.margin},
            weights=self.settings.weights,
            weights_digest=self.weights_digest,
            encoder=self.pretrained.encoder.meta.name,
            image_px=self.settings.image_px,
        )


def make_plan(
    settings: BenchSettings,
    data_root: Path,
    cache: Path,
    on_progress: Callable[[str, int, int], None] = lambda _target, _done, _total: None,
) -> Plan:
    """Load weights and data; images are decoded into `cache` on first use."""
    rows = tuple(_row(row, settings) for row in settings.rows)
    pretrained = load_pretrained(settings.weights)
    targets = {}
    for name, title in settings.targets.items():
        listing = open_data(name, data_root).part("test")
        data = pack(
            listing,
            cache / "images",
            settings.image_px,
            margin=settings.margin,
            on_progress=partial(on_progress, name),
        )
        targets[name] = Target(name, title, data, listing.standing)
    return Plan(settings, targets, rows, pretrained, weights_digest(pretrained))


def _row(row: RowSettings, settings: BenchSettings) -> Row:
    kind = METHODS.get(row.method)
    method = structure_settings(kind, row.settings, f"row {row.method!r}")
    return Row(
        method, row.method, row.title or kind.card.title, row.n_episodes or settings.n_episodes
    )
