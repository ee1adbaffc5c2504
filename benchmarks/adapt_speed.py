"""How fast an adaptation is: ours against a plain loop, as ratios within one run on one thread.

    python benchmarks/adapt_speed.py [--iterations 100] [--out benchmarks/results/adapt_speed.json]

One 5-way 5-shot task with 75 queries at 84 px on ResNet10. The plain loop is what one would write
first: fp32, torch's default layout, every iteration through the whole network. `same` is the
preset `paper`, the same iterations in our loop; `robust` is the preset. The iterations are run in
rounds, ours and plain in turn, because a shared machine changes its speed within minutes.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F

from appl import (
    ENCODERS,
    PCN,
    AdaptSettings,
    ComputeSettings,
    SolveSettings,
    Task,
    adapt,
    resolve_compute,
    solve_task,
)
from appl.core.compute import cpu_has_bf16_units, keep_freed_memory
from appl.core.files import write_atomically

# Multiply-accumulates of ResNet10's convolutions for one 84 px image; the stem's alone.
MACS, STEM_MACS = 142.9e6, 16.6e6
N_IMAGES = 100


def make_task() -> Task:
    generator = torch.Generator().manual_seed(0)
    patterns = torch.rand(5, 3, 84, 84, generator=generator)
    support_ids = torch.arange(5).repeat_interleave(5)
    ids = torch.cat([support_ids, torch.arange(5).repeat_interleave(15)])
    images = patterns[ids] * 0.5 + torch.rand(len(ids), 3, 84, 84, generator=generator) * 0.5
    return Task(images[:25], support_ids, images[25:])


def plain_adapt(encoder, pcn, task, n_iterations):
    """Preset `paper` in the most direct form; returns the scores of the queries."""
    stages = torch.nn.Sequential(*encoder.stages).to(memory_format=torch.contiguous_format)
    stages.train()
    for module in stages.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.__class__ = torch.nn.Conv2d  # torch's own backward pass, not ours
    x = ((task.images() - encoder.pixel_mean) / encoder.pixel_std).contiguous()
    optimiser = torch.optim.SGD(stages.parameters(), lr=1e-2)
    average, alpha = torch.zeros(75, 5), 0.5
    for _ in range(n_iterations):
        z = stages(x).mean((2, 3))
        p = torch.relu(pcn.linear(z[:25].view(5, -1)))
        d_support, h = torch.cdist(z[:25], p).square(), torch.cdist(z[25:], p).square()
        alpha *= 0.99
        average = alpha * h.detach() + (1 - alpha) * average
        soft = torch.softmax(-average, 1)
        chosen = soft.amax(1) > 0.4
        loss = F.cross_entropy(-d_support, task.class_ids, reduction="sum")
        loss = loss - (soft * torch.log_softmax(-h, 1)).sum(1)[chosen].sum()
        loss = loss + 0.1 / torch.pdist(p).square().sum()
        loss = loss + 1e-3 * d_support.gather(1, task.class_ids[:, None]).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        z = stages(x).mean((2, 3))
        return -torch.cdist(z[25:], torch.relu(pcn.linear(z[:25].view(5, -1)))).square()


def matmul_peak(dtype: torch.dtype) -> float:
    """Return the best FLOP/s of a square product on one thread."""
    a = torch.rand(1536, 1536, dtype=torch.float32).to(dtype)
    best = float("inf")
    for _ in range(8):
        start = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - start)
    return 2 * 1536**3 / best


def timed(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.manual_seed(0)
    compute = resolve_compute(ComputeSettings(n_threads=1))
    encoder = ENCODERS.get("resnet10")().eval().place(compute)
    pcn, task = PCN(512).requires_grad_(False), make_task()
    n = options.iterations // options.rounds
    paper = replace(AdaptSettings.preset("paper"), n_iterations=n)
    robust = SolveSettings.preset("robust")
    dtype = compute.autocast_dtype or torch.float32
    seconds = {"plain": 0.0, "same": 0.0, "robust": 0.0}
    peak, agree = 0.0, []
    for round_ in range(options.rounds + 1):
        is_warm_up = round_ == 0
        plain_encoder = ENCODERS.get("resnet10")()
        plain_encoder.load_state_dict(encoder.state_dict())
        keep_freed_memory(False)
        steps = 2 if is_warm_up else n
        plain_s, plain = timed(lambda: plain_adapt(plain_encoder, pcn, task, steps))  # noqa: B023
        keep_freed_memory()
        settings = replace(paper, n_iterations=steps)
        same_s, same = timed(lambda: adapt(encoder, pcn, task, settings))  # noqa: B023
        robust_s, _ = timed(lambda: solve_task(encoder, pcn, task, robust))
        if is_warm_up:
            continue
        peak = max(peak, matmul_peak(dtype))
        agree.append((plain.argmax(1) == same.scores.argmax(1)).float().mean().item())
        for name, value in [("plain", plain_s), ("same", same_s), ("robust", robust_s)]:
            seconds[name] += value
    n *= options.rounds
    # The rounds share the iterations of plain and same; each of them is a whole robust task.
    seconds["robust"] /= options.rounds

    # Forward, backward to the weights, and backward to the maps (not needed into the images).
    work = 2 * N_IMAGES * n * (3 * MACS - STEM_MACS) + 2 * N_IMAGES * MACS * options.rounds
    result = {
        "iterations": n,
        "rounds": options.rounds,
        "processor_has_bf16_units": cpu_has_bf16_units(),
        "precision": compute.precision,
        "seconds": seconds,
        "same_iterations_speedup": seconds["plain"] / seconds["same"],
        "robust_speedup": seconds["plain"] / seconds["robust"],
        "matmul_peak_gflops": peak / 1e9,
        "same_share_of_peak": work / seconds["same"] / peak,
        "answers_agree_share": sum(agree) / len(agree),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if options.out:
        write_atomically(options.out, (text + "\n").encode())


if __name__ == "__main__":
    main()
