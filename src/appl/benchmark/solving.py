"""Solving the episodes of a job: draw, load or look up, let the method answer, count."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from appl._version import __version__
from appl.benchmark.features import layer_widths
from appl.benchmark.plan import Plan, Target
from appl.benchmark.rows import Row
from appl.core.compute import Compute, resolve_compute
from appl.core.episode import OUT_OF_DISTRIBUTION, right_answers
from appl.core.methods import (
    EpisodicMethod,
    FeatureMethod,
    FittingMethod,
    FrozenMethod,
    ImageMethod,
    Solution,
)
from appl.datasets.episodes import EpisodeDraw
from appl.errors import SettingsError
from appl.settings.compute import ComputeSettings
from appl.store import EpisodeResult

EPISODES_IN_CACHE = 16  # solved at a time, so that their features fit into a processor's cache


@dataclass(frozen=True)
class Job:
    """Some episodes on one target, of one row or of several that share their fits."""

    rows: tuple[int, ...]
    target: str
    episodes: tuple[int, ...]


Results = list[list[EpisodeResult]]  # a list for each row of a job
Done = tuple[Job, Results]
Features = Callable[[Row, Target], NDArray[np.float32]]


def solve(plan: Plan, job: Job, features_of: Features) -> Results:
    """Solve the episodes of a job in this process."""
    target = plan.targets[job.target]
    first = plan.rows[job.rows[0]]
    if isinstance(first.method, FrozenMethod):
        return [_solve_features(plan, job, first.method, features_of(first, target))]
    results: Results = [[] for _ in job.rows]
    for episode in job.episodes:
        draw = target.draw(plan, episode)
        task = draw.load(target.data).task
        fit = None
        for number, found in zip(job.rows, results, strict=True):
            row = plan.rows[number]
            pretrained = plan.pretrained(row)
            for encoder in pretrained.encoders:
                encoder.place(row_compute(row))
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
                solution = row.method.solve(
                    pretrained.encoder, pretrained.pcn, task, pretrained.beside
                )
            seconds = time.perf_counter() - started
            found.append(_result(episode, draw, solution, seconds))
    return results


class _Fit:
    """What a fit has left, and the seconds since it was started."""

    def __init__(self, fitted: object, started: float) -> None:
        self.fitted = fitted
        self.seconds = time.perf_counter() - started


def _solve_features(
    plan: Plan, job: Job, method: FrozenMethod, features: NDArray[np.float32]
) -> list[EpisodeResult]:
    """Solve episodes of a row on frozen features."""
    if isinstance(method, FeatureMethod) and method.card.takes_many:
        return _solve_together(plan, job, method, features)
    widths = layer_widths(plan, plan.rows[job.rows[0]])
    results = []
    for episode in job.episodes:
        draw = plan.targets[job.target].draw(plan, episode)
        support, query = (
            torch.from_numpy(features[rows.numpy()]) for rows in (draw.support, draw.query)
        )
        started = time.perf_counter()
        if isinstance(method, FeatureMethod):
            scores = method.scores(support, draw.class_ids, query)
        else:
            parts = (support.split(widths, 1), query.split(widths, 1))
            scores = method.layer_scores(parts[0], draw.class_ids, parts[1])
        solution = Solution(scores)
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
    sides = (draw.support.numpy(), draw.query.numpy())
    # Taken once: fresh memory for every part costs more than the copy.
    memory = [
        np.empty((EPISODES_IN_CACHE, rows.shape[1], features.shape[1]), np.float32)
        for rows in sides
    ]
    answers = []
    for start in range(0, len(job.episodes), EPISODES_IN_CACHE):
        part = slice(start, start + EPISODES_IN_CACHE)
        support, query = (
            # "clip", since NumPy copies twice where it may raise; a draw has no other rows.
            torch.from_numpy(np.take(features, rows, 0, out=out[: len(rows)], mode="clip"))
            for rows, out in zip((side[part] for side in sides), memory, strict=True)
        )
        answers.append(method.scores(support, draw.class_ids[part], query).argmax(2))
    right = torch.cat(answers) == draw.query_class_ids
    known = draw.query_class_ids != OUT_OF_DISTRIBUTION
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
