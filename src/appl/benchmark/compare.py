"""Two rows on the same episodes: how often one wins, and by how much.

A pair shares its images, so its difference says more than two means with their intervals.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from appl.benchmark.collection import Collection, Stored
from appl.benchmark.mixing import check_mixable, first_difference
from appl.benchmark.statistics import Estimate, estimate_difference, mean_of
from appl.errors import DataError, UnknownNameError
from appl.settings.checks import suggest
from appl.store import ResultStore, RunKey

SHORTEST_KEY = 6  # letters: fewer would hit a run by chance


@dataclass(frozen=True)
class Pairs:
    """The accuracies of two rows on the episodes of a target that both have."""

    title: str
    episodes: tuple[int, ...]
    a: tuple[float, ...]
    b: tuple[float, ...]

    @property
    def difference(self) -> Estimate:
        """The mean of a − b."""
        return estimate_difference([a - b for a, b in zip(self.a, self.b, strict=True)])

    @property
    def wins(self) -> int:
        """Episodes where a is better."""
        return sum(a > b for a, b in zip(self.a, self.b, strict=True))

    @property
    def ties(self) -> int:
        """Episodes where both are alike."""
        return sum(a == b for a, b in zip(self.a, self.b, strict=True))

    @property
    def win_share(self) -> float:
        """The share of episodes that a wins, a tie counted half."""
        return (self.wins + self.ties / 2) / len(self.episodes)


@dataclass(frozen=True)
class Comparison:
    """Row a against row b, target by target."""

    a: str
    b: str
    targets: tuple[Pairs, ...]

    @property
    def difference(self) -> Estimate:
        """The mean of a − b over the targets."""
        return mean_of([pairs.difference for pairs in self.targets])

    @property
    def win_share(self) -> float:
        """The share of all episodes that a wins, a tie counted half."""
        n = sum(len(pairs.episodes) for pairs in self.targets)
        return sum(pairs.wins + pairs.ties / 2 for pairs in self.targets) / n

    def as_values(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "a": self.a,
            "b": self.b,
            "win_share": self.win_share,
            **_values(self.difference),
            "targets": {
                pairs.title: {
                    "wins": pairs.wins,
                    "ties": pairs.ties,
                    "losses": len(pairs.episodes) - pairs.wins - pairs.ties,
                    "win_share": pairs.win_share,
                    **_values(pairs.difference),
                }
                for pairs in self.targets
            },
        }


def compare_rows(collections: Sequence[Collection], a: str, b: str) -> Comparison:
    """Compare two rows of configurations, by title."""
    check_mixable(collections)
    titles = [row.title for collection in collections for row in collection.outline.rows]
    for title in (a, b):
        if title not in titles:
            raise UnknownNameError(f"no row is called {title!r}; {suggest(title, titles)}")
    shots = {collection.outline.settings.protocol.n_shot for collection in collections}
    found = []
    for collection in collections:
        settings = collection.outline.settings
        for target, title in settings.targets.items():
            ours, theirs = collection.stored.get((a, target)), collection.stored.get((b, target))
            if ours and theirs:
                name = f"{title}, {settings.protocol.n_shot}-shot" if len(shots) > 1 else title
                found.append(_pairs(name, ours, theirs))
    return _comparison(a, b, found)


def compare_stored(store: ResultStore, a: str, b: str) -> Comparison:
    """Compare two rows of a store, each named by its method or by the key of one of its runs.

    Other weights or sizes are fine, since the episodes are the same; another protocol is not.
    """
    ours, theirs = _find_row(store, a), _find_row(store, b)
    found = first_difference(ours[0].protocol, theirs[0].protocol)
    if found is not None:
        name, one, other = found
        raise DataError(
            f"{a!r} has {name} = {one!r} and {b!r} has {name} = {other!r}: other episodes, no pairs"
        )
    partners = {(run.target, run.data_digest): run for run in theirs}
    pairs = []
    for run in ours:
        partner = partners.get((run.target, run.data_digest))
        if partner:
            one, other = (Stored(r, tuple(store.results(r))) for r in (run, partner))
            pairs.append(_pairs(run.target, one, other))
    return _comparison(_titled(ours[0]), _titled(theirs[0]), pairs)


def _find_row(store: ResultStore, words: str) -> list[RunKey]:
    """Return the runs of one row, a target each."""
    rows: dict[str, list[RunKey]] = {}
    for run in store.runs():
        rows.setdefault(replace(run, data_digest="").key, []).append(run)
    is_key = len(words) >= SHORTEST_KEY
    fitting = [
        runs
        for runs in rows.values()
        if runs[0].method == words or (is_key and any(run.key.startswith(words) for run in runs))
    ]
    if not fitting:
        methods = ", ".join(sorted({runs[0].method for runs in rows.values()})) or "none"
        raise UnknownNameError(
            f"{store.path} has no method and no run {words!r}; its methods: {methods}"
        )
    if len(fitting) > 1:
        choices = "; ".join(f"{runs[0].key[:12]} ({_described(runs[0])})" for runs in fitting)
        raise UnknownNameError(f"{store.path} has several rows {words!r}; give a key: {choices}")
    return fitting[0]


def _titled(run: RunKey) -> str:
    return f"{run.method} {run.key[:8]} ({run.encoder}, {run.image_px} px)"


def _described(run: RunKey) -> str:
    protocol = ", ".join(f"{name} {value}" for name, value in sorted(run.protocol.items()))
    return f"{run.encoder}, {run.image_px} px, {protocol}"


def _pairs(title: str, ours: Stored, theirs: Stored) -> Pairs:
    a, b = ours.accuracies, theirs.accuracies
    shared = tuple(sorted(set(a) & set(b)))
    return Pairs(title, shared, tuple(a[e] for e in shared), tuple(b[e] for e in shared))


def _comparison(a: str, b: str, pairs: Iterable[Pairs]) -> Comparison:
    found = tuple(p for p in pairs if p.episodes)
    if not found:
        raise DataError(f"{a!r} and {b!r} share no stored episode; run both on one target first")
    return Comparison(a, b, found)


def _values(difference: Estimate) -> dict[str, Any]:
    interval = None if math.isnan(difference.interval) else difference.interval
    return {"difference": difference.mean, "interval": interval, "n": difference.n}
