"""What a store holds for a benchmark: found by names and digests, without an image.

Results of one target may come from one set of files only; where a store has several, the caller
says which.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from appl.benchmark.plan import Outline
from appl.benchmark.statistics import Estimate, estimate
from appl.errors import DataError
from appl.store import EpisodeResult, ResultStore, RunKey


@dataclass(frozen=True)
class Stored:
    """The results of a row on a target, and the run that they belong to."""

    run: RunKey
    results: tuple[EpisodeResult, ...]

    @property
    def accuracies(self) -> dict[int, float]:
        """Accuracy in percent by episode."""
        return {result.episode: result.accuracy for result in self.results}

    @property
    def accuracy(self) -> Estimate:
        """The mean over the episodes."""
        return estimate(list(self.accuracies.values()))


@dataclass(frozen=True)
class Collection:
    """A benchmark with its results, by row title and target name; what has none is missing."""

    outline: Outline
    stored: Mapping[tuple[str, str], Stored]
    provenances: Mapping[str, str]  # what the data of a target is, where that is known


def collect(
    outline: Outline, store: ResultStore, digests: Mapping[str, str] | None = None
) -> Collection:
    """Find the results of every row and target, of a row no more episodes than it asks for.

    `digests` says by target which data they must come from; without it, the store may know one
    only.
    """
    known = store.runs()
    digests = digests if digests is not None else _only_digests(outline, known, store)
    stored = {}
    for row in outline.rows:
        for target in outline.settings.targets:
            if target not in digests:
                continue
            run = outline.run(row, target, digests[target])
            results = [r for r in store.results(run) if r.episode < row.n_episodes]
            if results:
                stored[row.title, target] = Stored(run, tuple(results))
    known_data = store.provenances()
    provenances = {t: known_data[digest] for t, digest in digests.items() if digest in known_data}
    return Collection(outline, stored, provenances)


def _only_digests(outline: Outline, known: list[RunKey], store: ResultStore) -> dict[str, str]:
    """Return the one data digest that the runs of each target have."""
    found: dict[str, set[str]] = {}
    for target in outline.settings.targets:
        wanted = {outline.run(row, target, "").key for row in outline.rows}
        for run in known:
            if run.target == target and replace(run, data_digest="").key in wanted:
                found.setdefault(target, set()).add(run.data_digest)
    for target, digests in found.items():
        if len(digests) > 1:
            names = " and ".join(sorted(digest[:12] for digest in digests))
            raise DataError(
                f"{store.path} has results of target {target!r} on different files "
                f"(data digests {names}); say which ones with --data"
            )
    return {target: digests.pop() for target, digests in found.items()}
