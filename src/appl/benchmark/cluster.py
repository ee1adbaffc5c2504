"""Workers on many machines, through Ray: a task a job, on any core that the cluster has.

Weights, pixels and features are put into Ray's object store once; every node fetches them once, and
its workers share them. A job whose worker or node dies is done again elsewhere: that is Ray's own
retry, and an episode gives the same result wherever it is solved.
"""

import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from appl.benchmark.features import embed, open_features
from appl.benchmark.plan import Plan, Target
from appl.benchmark.runner import embedding_rows
from appl.benchmark.solving import Done, Job, Results, be_a_worker, solve
from appl.errors import ApplError
from appl.images.store import ImageArray, Images, ImageStore

Key = tuple[str, tuple[str, ...], str]  # digest of the weights, layers, target


@dataclass(frozen=True)
class SharedPlan:
    """A plan whose large arrays are references into the object store."""

    key: str  # of this start: a worker of a long-lived cluster may have served another one
    plan: Any  # reference: the plan without pixels
    pixels: dict[str, Any]  # references by target
    features: dict[Key, Any]


class RayWorkers:
    """All cores of a Ray cluster; `address` as `ray.init` takes it, "local" for this machine."""

    def __init__(self, plan: Plan, cache: Path, address: str, n_workers: int | None = None) -> None:
        try:
            import ray
        except ImportError as error:
            raise ApplError("--ray needs Ray; install it with pip install 'appl[ray]'") from error
        self._ray: Any = ray
        self._joined = not ray.is_initialized()
        if self._joined:
            try:
                _check_reachable(address)
                ray.init(address=address, num_cpus=n_workers, log_to_driver=False)
            except (OSError, ValueError) as error:
                raise ApplError(
                    f"no Ray cluster at {address!r} ({error}); start one with `ray start --head`"
                ) from error
        # Retried for ever where a worker or node dies; an error of ours is raised at once.
        self._solve = ray.remote(num_cpus=1, max_retries=-1)(_solve)
        self._shared = _share(ray, plan, cache)
        self._running: dict[Any, Job] = {}

    @property
    def n_workers(self) -> int:
        """The cores that the cluster has at this moment."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, job: Job) -> None:
        """Take a job."""
        self._running[self._solve.remote(self._shared, job)] = job

    def done(self) -> list[Done]:
        """Wait until a job is done; return all that are."""
        running = list(self._running)
        self._ray.wait(running, num_returns=1)
        finished, _ = self._ray.wait(running, num_returns=len(running), timeout=0)
        return [(self._running.pop(ref), self._ray.get(ref)) for ref in finished]

    def close(self) -> None:
        """Drop what is in flight and leave the cluster."""
        for ref in self._running:
            self._ray.cancel(ref, force=True)
        self._running.clear()
        if self._joined:
            self._ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise where nobody listens at HOST:PORT: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host:
        socket.create_connection((host, int(port)), timeout=5).close()


def _share(ray: Any, plan: Plan, cache: Path) -> SharedPlan:
    """Put a plan into the object store."""
    bare = {
        name: replace(target, data=replace(target.data, store=None))
        for name, target in plan.targets.items()
    }
    features = {
        (row.weights_digest, row.layers, name): ray.put(
            np.asarray(open_features(embed(plan, row, target, cache)))
        )
        for row in embedding_rows(plan)
        for name, target in plan.targets.items()
    }
    reference = ray.put(replace(plan, targets=bare))
    pixels = {name: ray.put(_array(target.data.store)) for name, target in plan.targets.items()}
    return SharedPlan(reference.hex(), reference, pixels, features)


def _array(images: Images | None) -> NDArray[np.uint8]:
    """Return pixels as one array: a node of the cluster need not see our disk."""
    assert isinstance(images, ImageStore)  # a plan opens its data from the cache
    return np.asarray(images.mapped())


Arrays = dict[Key, NDArray[np.float32]]
_opened: dict[str, tuple[Plan, Arrays]] = {}


def _solve(shared: SharedPlan, job: Job) -> Results:
    """Solve a job in a worker of the cluster."""
    if shared.key not in _opened:
        _opened.clear()
        _opened[shared.key] = _open(shared)
    plan, features = _opened[shared.key]
    return solve(
        plan, job, lambda row, target: features[row.weights_digest, row.layers, target.name]
    )


def _open(shared: SharedPlan) -> tuple[Plan, Arrays]:
    """Take a plan out of the object store; its arrays stay there, shared by a node's workers."""
    import ray

    be_a_worker()
    plan: Plan = ray.get(shared.plan)
    targets: dict[str, Target] = {
        name: replace(
            target, data=replace(target.data, store=ImageArray(ray.get(shared.pixels[name])))
        )
        for name, target in plan.targets.items()
    }
    features = {key: ray.get(reference) for key, reference in shared.features.items()}
    return replace(plan, targets=targets), features
