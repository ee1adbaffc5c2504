"""Workers on this machine: processes, one thread each."""

import multiprocessing
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from appl.benchmark.features import embed, open_features
from appl.benchmark.plan import Plan, make_plan
from appl.benchmark.solving import Done, Job, Results, be_a_worker, solve
from appl.core.processes import end_with_parent
from appl.datasets.manifest import Manifest
from appl.errors import ApplError
from appl.settings.benchmark import BenchSettings


class ProcessWorkers:
    """A pool of processes that open the data of a plan by themselves, from the cache."""

    def __init__(self, plan: Plan, data_root: Path, cache: Path, n_workers: int) -> None:
        self.n_workers = n_workers
        context = multiprocessing.get_context("spawn")
        start = (plan.settings, data_root, cache, plan.manifest)
        self._pool = ProcessPoolExecutor(n_workers, context, _start, start)
        self._running: dict[Future[Results], Job] = {}

    def submit(self, job: Job) -> None:
        """Take a job."""
        self._running[self._pool.submit(_work, job)] = job

    def done(self) -> list[Done]:
        """Wait until a job is done; return all that are."""
        finished = wait(self._running, return_when=FIRST_COMPLETED).done
        try:
            return [(self._running.pop(future), future.result()) for future in finished]
        except BrokenProcessPool as error:
            raise ApplError(
                "a worker died (out of memory, or killed); run the same command again to go on"
            ) from error

    def close(self) -> None:
        """Stop; what is in flight is dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)


_plan: Plan | None = None
_cache = Path()


def _start(
    settings: BenchSettings, data_root: Path, cache: Path, manifest: Manifest | None
) -> None:
    """Load the plan once in each worker: weights and memory-mapped data, not sent job by job."""
    global _plan, _cache
    end_with_parent()
    be_a_worker()
    _plan, _cache = make_plan(settings, data_root, cache, manifest=manifest), cache


def _work(job: Job) -> Results:
    assert _plan is not None
    plan = _plan
    return solve(plan, job, lambda row, target: open_features(embed(plan, row, target, _cache)))
