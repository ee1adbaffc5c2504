"""Running a plan: what is left to do, spread over workers, results stored as they come.

What is stored is never done again, so a killed run goes on with the same command and loses only
the episodes in flight. An episode is a pure function of its identity, so the number and the kind of
workers (`processes`, `cluster`) change nothing but the time.
"""

import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from appl._version import __version__
from appl.benchmark.features import embed
from appl.benchmark.plan import Plan, Target
from appl.benchmark.rows import Row
from appl.core.compute import Compute, resolve_compute
from appl.core.episode import STRANGER, right_answers
from appl.core.methods import (
    EpisodicMethod,
    FeatureMethod,
    FittingMethod,
    ImageMethod,
    Solution,
)
from appl.datasets.episodes import EpisodeDraw
from appl.errors import SettingsError
from appl.settings.compute import ComputeSettings
from appl.store import EpisodeResult, ResultStore

EPISODES_A_JOB = 25  # of rows on frozen features, which take milliseconds
EPISODES_TOGETHER = 200  # of rows that solve a whole job in one go …
EPISODES_IN_CACHE = 8  # … and so many at a time, whose features fit into a processor's cache


@dataclass(frozen=True)
class Job:
    """Some episodes on one target, of one row or of several that share their fits."""

    rows: tuple[int, ...]
    target: str
    episodes: tuple[int, ...]


Results = list[list[EpisodeResult]]  # a list for each row of a job
Done = tuple[Job, Results]
Features = Callable[[Row, Target], NDArray[np.float32]]
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
        if target.standing.remark:
            store.note_data(target.digest, str(target.standing))
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
    """Return a row on frozen features for each of the weights that have one."""
    rows = [row for row in plan.rows if isinstance(row.method, FeatureMethod)]
    return list({row.weights_digest: row for row in rows}.values())


def open_jobs(plan: Plan, store: ResultStore) -> Iterator[Job]:
    """List what is left to do: the first episodes of every row and target before later ones."""
    jobs = []
    sharing: dict[tuple[Hashable, str, int], list[int]] = {}
    for number, row in enumerate(plan.rows):
        size = 1
        if isinstance(row.method, FeatureMethod):
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


def solve(plan: Plan, job: Job, features_of: Features) -> Results:
    """Solve the episodes of a job in this process."""
    target = plan.targets[job.target]
    first = plan.rows[job.rows[0]]
    if isinstance(first.method, FeatureMethod):
        return [_solve_features(plan, job, first.method, features_of(first, target))]
    results: Results = [[] for _ in job.rows]
    for episode in job.episodes:
        draw = target.draw(plan, episode)
        task = draw.load(target.data).task
        fit = None
        for number, found in zip(job.rows, results, strict=True):
            row = plan.rows[number]
            pretrained = plan.pretrained(row)
            pretrained.encoder.place(row_compute(row))
            started = time.perf_counter()
            if isinstance(row.method, FittingMethod):
                # Each row's time is what it would take alone.
                fit = fit or _Fit(row.method.fit(pretrained.encoder, task), started)
                started = time.perf_counter() - fit.seconds
                solution = row.method.answer_by(fit.fitted, task)
            elif isinstance(row.method, EpisodicMethod):
                assert pretrained.head is not None  # the plan refuses a row without
                with torch.no_grad():
                    head = pretrained.head.module
                    solution = Solution(row.method.answer(pretrained.encoder, head, task))
            else:
                assert isinstance(row.method, ImageMethod)
                solution = row.method.solve(pretrained.encoder, pretrained.pcn, task)
            seconds = time.perf_counter() - started
            found.append(_result(episode, draw, solution, seconds))
    return results


class _Fit:
    """What a fit has left, and the seconds since it was started."""

    def __init__(self, fitted: object, started: float) -> None:
        self.fitted = fitted
        self.seconds = time.perf_counter() - started


def _solve_features(
    plan: Plan, job: Job, method: FeatureMethod, features: NDArray[np.float32]
) -> list[EpisodeResult]:
    """Solve episodes of a row on frozen features."""
    if method.card.takes_many:
        return _solve_together(plan, job, method, features)
    results = []
    for episode in job.episodes:
        draw = plan.targets[job.target].draw(plan, episode)
        support, query = (
            torch.from_numpy(features[rows.numpy()]) for rows in (draw.support, draw.query)
        )
        started = time.perf_counter()
        solution = Solution(method.scores(support, draw.class_ids, query))
        seconds = time.perf_counter() - started
        results.append(_result(episode, draw, solution, seconds))
    return results


def _result(episode: int, draw: EpisodeDraw, solution: Solution, seconds: float) -> EpisodeResult:
    right = right_answers(solution.scores, draw.query_class_ids).double().mean().item()
    return EpisodeResult(episode, 100 * right, seconds, solution.record, __version__)


def _solve_together(
    plan: Plan, job: Job, method: FeatureMethod, features: NDArray[np.float32]
) -> list[EpisodeResult]:
    """Solve all episodes of a job in one go: each alone takes longer to set up than to answer."""
    started = time.perf_counter()
    draw = plan.targets[job.target].draw_many(plan, job.episodes)
    answers = []
    for part in torch.arange(len(job.episodes)).split(EPISODES_IN_CACHE):
        support, query = (
            torch.from_numpy(features[rows[part].numpy()]) for rows in (draw.support, draw.query)
        )
        answers.append(method.scores(support, draw.class_ids[part], query).argmax(2))
    right = torch.cat(answers) == draw.query_class_ids
    known = draw.query_class_ids != STRANGER
    shares = ((right & known).sum(1).double() / known.sum(1)).tolist()
    seconds = (time.perf_counter() - started) / len(shares)
    return [
        EpisodeResult(episode, 100 * share, seconds, {}, __version__)
        for episode, share in zip(job.episodes, shares, strict=True)
    ]


def row_compute(row: Row) -> Compute:
    """Return how a row computes: a precision that is part of its identity has no fall-back."""
    compute = resolve_compute(ComputeSettings("cpu", precision=row.precision))
    if row.precision == "bf16" and compute.precision == "fp32":
        raise SettingsError(
            f"row {row.title!r}: precision = 'bf16', and this processor has no bf16 units; take "
            "it out of the configuration, or run it on one that has"
        )
    return compute


def be_a_worker() -> None:
    """Prepare this process to solve jobs: one thread, so that results are the same everywhere."""
    resolve_compute(ComputeSettings(n_threads=1, precision="fp32"))
    torch.set_num_threads(1)
