"""How much faster a benchmark is with two workers than with one: the ratio within one run.

    python benchmarks/bench_scaling.py CONFIG.toml --data TARGETS --out results/bench_scaling.json

The same adapted episodes of the first target, solved from empty stores by one worker and by two, in
turns, so that a machine that gets busier disturbs both alike. CONFIG's rows on frozen features are
left out: they take milliseconds.
"""

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from appl.benchmark.plan import Plan, make_plan
from appl.benchmark.processes import ProcessWorkers
from appl.benchmark.runner import run_plan
from appl.core.files import write_atomically
from appl.core.methods import METHODS
from appl.settings.benchmark import BenchSettings
from appl.settings.files import load_settings
from appl.store import ResultStore


def seconds_with(n_workers: int, plan: Plan, data: Path, cache: Path) -> tuple[float, list[float]]:
    """Solve all episodes; return the time from the first result on, and the accuracies.

    Workers take seconds to load PyTorch; that is no part of what is compared.
    """
    finished: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        store = ResultStore(Path(folder) / "results.sqlite")
        run_plan(
            plan,
            cache,
            store,
            lambda p: ProcessWorkers(p, data, cache, n_workers),
            on_result=lambda *_: finished.append(time.perf_counter()),
        )
        target = next(iter(plan.targets.values()))
        found = [r.accuracy for r in store.results(plan.run(plan.rows[0], target))]
        store.close()
    # The first result of each worker ends its start.
    left = finished[n_workers - 1 :]
    return (left[-1] - left[0]) / (len(left) - 1), found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path("appl-cache"))
    parser.add_argument("--episodes", type=int, default=24)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    settings = load_settings(BenchSettings, arguments.config)
    adapted = [row for row in settings.rows if hasattr(METHODS.get(row.method), "solve")]
    name, title = next(iter(settings.targets.items()))
    row = replace(adapted[0], n_episodes=arguments.episodes)
    settings = replace(settings, rows=(row,), targets={name: title})
    plan = make_plan(settings, arguments.data, arguments.cache)
    one, accuracies = seconds_with(1, plan, arguments.data, arguments.cache)
    two, again = seconds_with(2, plan, arguments.data, arguments.cache)
    found = {
        "row": row.title or row.method,
        "target": title,
        "n_episodes": arguments.episodes,
        "seconds_an_episode": {"1 worker": round(one, 3), "2 workers": round(two, 3)},
        "ratio": round(one / two, 2),
        "same_results": accuracies == again,
    }
    write_atomically(arguments.out, (json.dumps(found, indent=1) + "\n").encode())
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
