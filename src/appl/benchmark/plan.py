"""What a benchmark consists of: its data, its weights, its rows, and the identity of each run.

An `Outline` is all of it that has a name and a digest, enough to find results; a `Plan` adds the
images, to make them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from appl.benchmark.replay import check_settings, draw, draw_many, replay_digest
from appl.benchmark.rows import Row, make_row
from appl.benchmark.sensitivity import sensitivity_rows
from appl.datasets.episodes import EpisodeDraw
from appl.datasets.listed_files import refuse_other_files
from appl.datasets.locate import open_target
from appl.datasets.manifest import Manifest
from appl.datasets.many_episodes import stacked
from appl.datasets.packed import PackedImages, pack, without_pixels
from appl.datasets.provenance import UNCHECKED, Provenance
from appl.errors import SettingsError
from appl.settings.benchmark import BenchSettings
from appl.store import RunKey
from appl.weights import Pretrained, load_pretrained, weights_digest


@dataclass(frozen=True)
class Outline:
    """A benchmark without its images."""

    settings: BenchSettings
    rows: tuple[Row, ...]
    encoder: str
    source: str  # what the weights were trained on
    weights_digest: str  # of the benchmark's weights; a row may have its own
    prototypes: str = ""  # what their PCN is, where an APPL row uses it

    def run(self, row: Row, target: str, data_digest: str) -> RunKey:
        """Return the identity under which results of a row on a target are stored."""
        return RunKey(
            method=row.name,
            settings=row.settings,
            target=target,
            data_digest=data_digest,
            protocol=self.settings.protocol.identity() | {"margin": self.settings.margin},
            weights=Path(row.weights).name,  # where a file lies says nothing about its results
            weights_digest=row.weights_digest,
            encoder=row.encoder,
            image_px=self.settings.image_px,
        )


@dataclass(frozen=True)
class Target:
    """A data set ready for episodes: its test classes, and how the copy stands to the original."""

    name: str
    title: str
    data: PackedImages
    digest: str  # of all in the data that decides its episodes: results are stored under it
    provenance: Provenance = UNCHECKED

    def draw(self, plan: "Plan", episode: int) -> EpisodeDraw:
        """Take an episode from the plan's manifest, or draw it under the plan's protocol."""
        if plan.manifest is not None:
            return plan.manifest.targets[self.name].episodes[episode].draw(self.data)
        return draw(self.data, plan.settings.protocol, episode)

    def draw_many(self, plan: "Plan", episodes: Sequence[int]) -> EpisodeDraw:
        """Take or draw several episodes, one row each."""
        if plan.manifest is not None:
            return stacked([self.draw(plan, episode) for episode in episodes])
        return draw_many(self.data, plan.settings.protocol, episodes)


@dataclass(frozen=True)
class Plan:
    """A benchmark with everything loaded."""

    outline: Outline
    targets: dict[str, Target]
    weights: dict[str, Pretrained]  # of every row, by their name or file
    manifest: Manifest | None = None  # of episodes to replay; without it they are drawn

    @property
    def settings(self) -> BenchSettings:
        """The settings that the plan was made from."""
        return self.outline.settings

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows, in the order of the tables."""
        return self.outline.rows

    def pretrained(self, row: Row) -> Pretrained:
        """Return the weights that a row starts from."""
        return self.weights[row.weights]

    def run(self, row: Row, target: Target) -> RunKey:
        """Return the identity under which results of a row on a target are stored."""
        return self.outline.run(row, target.name, target.digest)


def make_outline(settings: BenchSettings) -> Outline:
    """Load the weights, for their digest, and make the rows ready."""
    return _outline(settings, _load_weights(settings, may_be_away=True))


def make_plan(
    settings: BenchSettings,
    data_root: Path,
    cache: Path,
    on_progress: Callable[[str, int, int], None] = lambda _target, _done, _total: None,
    manifest: Manifest | None = None,
) -> Plan:
    """Load weights and data; images are decoded into `cache` on first use.

    Data that is not the manifest's is refused by names and sizes; `replay.check_data` reads it.
    """
    if manifest is not None:
        check_settings(manifest, settings)
    weights = _load_weights(settings)
    outline = _outline(settings, weights)
    targets = {}
    for name, title in settings.targets.items():
        listing = open_target(name, data_root)
        if manifest is not None:
            files = manifest.targets[name].files
            refuse_other_files(listing, files, f"target {name!r}", contents=False)
        data = pack(
            listing,
            cache / "images",
            settings.image_px,
            margin=settings.margin,
            on_progress=partial(on_progress, name),
        )
        if manifest is not None:
            digest = replay_digest(name, manifest, data)
        else:
            digest = data.identity(with_groups=settings.protocol.groups_apart)
        targets[name] = Target(name, title, data, digest, listing.provenance)
    return Plan(outline, targets, weights, manifest)


def data_digests(settings: BenchSettings, data_root: Path) -> dict[str, str]:
    """Identify the data of every target by its files; no image is decoded."""
    apart = settings.protocol.groups_apart
    return {
        name: without_pixels(open_target(name, data_root)).identity(with_groups=apart)
        for name in settings.targets
    }


def _load_weights(settings: BenchSettings, may_be_away: bool = False) -> dict[str, Pretrained]:
    """Load the weights of all rows; with `may_be_away`, of those whose file is there."""
    own = [
        row.weights
        for row in settings.rows
        if row.weights
        and not (may_be_away and row.weights_digest and not Path(row.weights).exists())
    ]
    return {name: load_pretrained(name) for name in dict.fromkeys([settings.weights, *own])}


def _outline(settings: BenchSettings, weights: dict[str, Pretrained]) -> Outline:
    digests = {name: weights_digest(pretrained) for name, pretrained in weights.items()}
    for row in settings.rows:
        if row.weights and row.weights_digest:
            found = digests.setdefault(row.weights, row.weights_digest)
            if found != row.weights_digest:
                raise SettingsError(
                    f"row {row.method!r}: {row.weights} has other weights (digest {found[:12]}) "
                    f"than weights_digest says ({row.weights_digest[:12]}); correct one of them"
                )
    rows = tuple(
        make_row(row, settings, weights, digests)
        for row in (*settings.rows, *sensitivity_rows(settings))
    )
    titles = [row.title for row in rows]
    for title in titles:
        if titles.count(title) > 1:
            raise SettingsError(f"two rows are called {title!r}; give one of them another title")
    start = weights[settings.weights]
    return Outline(
        settings,
        rows,
        start.name,
        start.source,
        digests[settings.weights],
        _prototypes(rows, weights),
    )


def _prototypes(rows: Sequence[Row], weights: dict[str, Pretrained]) -> str:
    """Say what the PCN is of the rows that use one; each row, where they differ."""
    of_row = {
        row.title: weights[row.weights].pcn.summary if row.weights in weights else "not at hand"
        for row in rows
        if row.name == "appl" and row.settings["adaptation"]["prototypes"]["kind"] == "pcn"
    }
    kinds = list(dict.fromkeys(of_row.values()))
    if len(kinds) < 2:
        return "".join(kinds)
    groups = [", ".join(t for t, kind in of_row.items() if kind == one) for one in kinds]
    return "; ".join(f"{kind}: {titles}" for kind, titles in zip(kinds, groups, strict=True))
