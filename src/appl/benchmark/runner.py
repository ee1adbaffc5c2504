"""Running a plan on one machine: a process a core, one thread each, results stored as they come.

What is stored is never done again, so a killed run goes on with the same command and loses only
the episodes in flight. An episode is a pure function of its identity, so the number of workers
changes nothing but the time.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import torch

from appl._version import __version__
from appl.benchmark.features import embed, open_features
from appl.benchmark.plan import Plan, Row, Target, make_plan
from appl.core.compute import resolve_compute
from appl.core.methods import FeatureMethod
from appl.core.processes import end_with_parent
from appl.errors import ApplError
from appl.settings.benchmark import BenchSettings
from appl.settings.compute import ComputeSettings
from appl.store import EpisodeResult, ResultStore

EPISODES_A_JOB = 25  # of rows on frozen features, which take milliseconds


@dataclass(frozen=True)
class Job:
    """Some episodes of one row on one target."""

    row: int
    target: str
    episodes: tuple[int, ...]


OnResult = Callable[[Row, Target, list[EpisodeResult]], None]


def run_plan(
    plan: Plan,
    data_root: Path,
    cache: Path,
    store: ResultStore,
    *,
    n_workers: int,
    on_result: OnResult = lambda _row, _target, _results: None,
    on_embed: Callable[[str, int, int], None] = lambda _target, _done, _total: None,
) -> None:
    """Solve every episode of the plan that is not in the store yet."""
    if any(isinstance(row.method, FeatureMethod) for row in plan.rows):
        for target in plan.targets.values():
            embed(plan, target, cache, partial(on_embed, target.name))
    jobs = iter(open_jobs(plan, store))
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(n_workers, context, _start, (plan.settings, data_root, cache))
    running: dict[Future[list[EpisodeResult]], Job] = {}
    try:
        while True:
            # A short queue: an interrupted run has nothing to throw away.
            for job in islice(jobs, 2 * n_workers - len(running)):
                running[pool.submit(_work, job)] = job
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                row, target = plan.rows[job.row], plan.targets[job.target]
                results = future.result()
                store.add(plan.run(row, target), results)
                on_result(row, target, results)
    except BrokenProcessPool as error:
        raise ApplError(
            "a worker died (out of memory, or killed); run the same command again to go on"
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def open_jobs(plan: Plan, store: ResultStore) -> Iterator[Job]:
    """List what is left to do: the first episodes of every row and target before later ones."""
    jobs = []
    for number, row in enumerate(plan.rows):
        size = EPISODES_A_JOB if isinstance(row.method, FeatureMethod) else 1
        for target in plan.targets.values():
            done = store.done(plan.run(row, target))
            left = [episode for episode in range(row.n_episodes) if episode not in done]
            for start in range(0, len(left), size):
                jobs.append(Job(number, target.name, tuple(left[start : start + size])))
    return iter(sorted(jobs, key=lambda job: (job.episodes[0], job.row)))


def solve(plan: Plan, job: Job, cache: Path) -> list[EpisodeResult]:
    """Solve the episodes of a job in this process."""
    row, target = plan.rows[job.row], plan.targets[job.target]
    encoder, pcn = plan.pretrained.encoder, plan.pretrained.pcn
    method = row.method
    results = []
    for episode in job.episodes:
        draw = target.draw(plan, episode)
        if isinstance(method, FeatureMethod):
            features = open_features(embed(plan, target, cache))
            support, query = features[draw.support], features[draw.query]
            started = time.perf_counter()
            scores, record = method.scores(support, draw.class_ids, query), {}
        else:
            task = draw.load(target.data).task
            started = time.perf_counter()
            solution = method.solve(encoder, pcn, task)
            scores, record = solution.scores, solution.record
        seconds = time.perf_counter() - started
        right = (scores.argmax(1).cpu() == draw.query_class_ids).double().mean().item()
        results.append(EpisodeResult(episode, 100 * right, seconds, record, __version__))
    return results


_plan: Plan | None = None
_cache = Path()


def _start(settings: BenchSettings, data_root: Path, cache: Path) -> None:
    """Load the plan once in each worker: weights and memory-mapped data, not sent job by job."""
    global _plan, _cache
    end_with_parent()
    resolve_compute(ComputeSettings(n_threads=1, precision="fp32"))
    torch.set_num_threads(1)
    _plan, _cache = make_plan(settings, data_root, cache), cache


def _work(job: Job) -> list[EpisodeResult]:
    assert _plan is not None
    return solve(_plan, job, _cache)
