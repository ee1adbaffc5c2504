"""Running a plan: what is left to do, spread over workers, results stored as they come.

What is stored is never done again, so a killed run goes on with the same command and loses only
the episodes in flight. An episode is a pure function of its identity, so the number and the kind of
workers (`processes`, `cluster`) change nothing but the time.
"""

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Protocol

from appl.benchmark.features import embed
from appl.benchmark.plan import Plan, Target
from appl.benchmark.rows import Row
from appl.benchmark.solving import Done, Job
from appl.core.methods import FittingMethod, FrozenMethod
from appl.store import EpisodeResult, ResultStore

EPISODES_A_JOB = 25  # of rows on frozen features, which take milliseconds
EPISODES_TOGETHER = 600  # of rows that solve a whole job in one go

OnResult = Callable[[Row, Target, list[EpisodeResult]], None]


class Workers(Protocol):
    """Whoever solves jobs: it takes them one by one and hands back what is done."""

    @property
    def n_workers(self) -> int:
        """How many jobs are solved at a time."""

    def submit(self, job: Job) -> None:
        """Take a job."""

    def done(self) -> list[Done]:
        """Wait until a job is done; return all that are."""

    def close(self) -> None:
        """Stop; what is in flight is dropped."""


def run_plan(
    plan: Plan,
    cache: Path,
    store: ResultStore,
    start_workers: Callable[[Plan], Workers],
    *,
    on_result: OnResult = lambda _row, _target, _results: None,
    on_embed: Callable[[str, int, int], None] = lambda _target, _done, _total: None,
) -> None:
    """Solve every episode of the plan that is not in the store yet."""
    for row in embedding_rows(plan):
        for target in plan.targets.values():
            embed(plan, row, target, cache, partial(on_embed, target.name))
    for target in plan.targets.values():
        if target.provenance.remark:
            store.note_data(target.digest, str(target.provenance))
    jobs = iter(open_jobs(plan, store))
    workers = start_workers(plan)
    n_running = 0
    try:
        while True:
            # A short queue: an interrupted run has nothing to throw away.
            for job in islice(jobs, max(0, 2 * workers.n_workers - n_running)):
                workers.submit(job)
                n_running += 1
            if not n_running:
                return
            for job, results in workers.done():
                n_running -= 1
                target = plan.targets[job.target]
                for number, found in zip(job.rows, results, strict=True):
                    row = plan.rows[number]
                    store.add(plan.run(row, target), found)
                    on_result(row, target, found)
    finally:
        workers.close()


def embedding_rows(plan: Plan) -> list[Row]:
    """Return a row on frozen features for each of the weights, and layers, that have one."""
    rows = [row for row in plan.rows if isinstance(row.method, FrozenMethod)]
    return list({(row.weights_digest, row.layers): row for row in rows}.values())


def open_jobs(plan: Plan, store: ResultStore) -> Iterator[Job]:
    """List what is left to do: the first episodes of every row and target before later ones."""
    jobs = []
    sharing: dict[tuple[Hashable, str, int], list[int]] = {}
    for number, row in enumerate(plan.rows):
        size = 1
        if isinstance(row.method, FrozenMethod):
            size = EPISODES_TOGETHER if row.method.card.takes_many else EPISODES_A_JOB
        for target in plan.targets.values():
            done = store.done(plan.run(row, target))
            left = [episode for episode in range(row.n_episodes) if episode not in done]
            if isinstance(row.method, FittingMethod):
                fit = (row.weights, row.precision, row.method.fitting)
                for episode in left:
                    sharing.setdefault((fit, target.name, episode), []).append(number)
                continue
            for start in range(0, len(left), size):
                jobs.append(Job((number,), target.name, tuple(left[start : start + size])))
    for (_, name, episode), numbers in sharing.items():
        jobs.append(Job(tuple(numbers), name, (episode,)))
    return iter(sorted(jobs, key=lambda job: (job.episodes[0], job.rows)))
