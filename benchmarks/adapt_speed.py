"""How fast an adaptation is: ours against a plain loop, as ratios within one run on one thread.

    python benchmarks/adapt_speed.py [--iterations 100] [--out benchmarks/results/adapt_speed.json]

One 5-way 5-shot task with 75 queries at 84 px on ResNet10. The plain loop is what one would write
first: fp32, torch's default layout, every iteration through the whole network. `same` is the
preset `paper`, the same iterations in our loop; `robust` is the preset.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F

from appl import ENCODERS, PCN, AdaptSettings, ComputeSettings, Task, adapt, resolve_compute
from appl.core.compute import cpu_has_bf16_units
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
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    encoder, pcn, task = (
        ENCODERS.get("resnet10")().eval(),
        PCN(512).requires_grad_(False),
        make_task(),
    )
    compute = resolve_compute(ComputeSettings(n_threads=1))
    n = options.iterations
    paper = replace(AdaptSettings.preset("paper"), n_iterations=n)
    robust = AdaptSettings.preset("robust")
    plain_adapt(ENCODERS.get("resnet10")(), pcn, task, 1)  # warm up

    peak = matmul_peak(compute.autocast_dtype or torch.float32)
    encoder.place(compute)
    same_s, same = timed(lambda: adapt(encoder, pcn, task, paper))
    robust_s, _ = timed(lambda: adapt(encoder, pcn, task, robust))
    plain_encoder = ENCODERS.get("resnet10")()
    plain_encoder.load_state_dict(encoder.state_dict())
    plain_s, plain = timed(lambda: plain_adapt(plain_encoder, pcn, task, n))
    peak = max(peak, matmul_peak(compute.autocast_dtype or torch.float32))

    # Forward, backward to the weights, and backward to the maps (not needed into the images).
    work = 2 * N_IMAGES * n * (3 * MACS - STEM_MACS) + 2 * N_IMAGES * MACS
    result = {
        "iterations": n,
        "processor_has_bf16_units": cpu_has_bf16_units(),
        "precision": compute.precision,
        "seconds": {"plain": plain_s, "same": same_s, "robust": robust_s},
        "same_iterations_speedup": plain_s / same_s,
        "robust_speedup": plain_s / robust_s,
        "matmul_peak_gflops": peak / 1e9,
        "same_share_of_peak": work / same_s / peak,
        "answers_agree_share": (plain.argmax(1) == same.scores.argmax(1)).float().mean().item(),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if options.out:
        write_atomically(options.out, (text + "\n").encode())


if __name__ == "__main__":
    main()
