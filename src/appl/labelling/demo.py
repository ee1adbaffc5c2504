"""The demonstration: ten handwritten digits, five examples each, 400 scans without labels."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from appl.core.compute import Compute
from appl.core.episode import Episode, Task
from appl.datasets.digits import write_digits
from appl.datasets.packed import PackedImages, pack_folder
from appl.encoders import Encoder
from appl.method.adaptation import Adaptation, IterationRecord, adapt
from appl.method.pcn import PCN
from appl.method.variants import variant
from appl.settings.adaptation import AdaptSettings

N_SUPPORT, N_PILE = 5, 40  # images a class


@dataclass(frozen=True)
class DemoResult:
    """Accuracies of both methods (shares, 0–1), and how the pseudo-labels improved."""

    protonet_accuracy: float
    appl_accuracy: float
    protonet_s: float
    appl_s: float
    label_accuracies: tuple[float, ...]  # of the pseudo-labels, one an iteration
    adaptation: Adaptation


def load_demo_episode(folder: Path, size_px: int, seed: int) -> Episode:
    """Write the digits as image files below `folder` and read them back as a task."""
    # A folder for each seed: two draws in one folder would mix examples and pile.
    images = folder / f"digits-{seed}"
    support_folder, pile_folder = write_digits(images, N_SUPPORT, N_PILE, seed)
    support = pack_folder(support_folder, folder / "cache", size_px)
    pile = pack_folder(pile_folder, folder / "cache", size_px)
    task = Task(_all_images(support), support.class_ids, _all_images(pile))
    return Episode(task, pile.class_ids)


def run_demo(
    encoder: Encoder,
    episode: Episode,
    settings: AdaptSettings,
    compute: Compute,
    on_iteration: Callable[[IterationRecord], None] = lambda _record: None,
) -> DemoResult:
    """Solve the task by ProtoNet and by APPL."""
    encoder.place(compute)
    pcn = PCN(encoder.meta.width, settings.prototypes.n_slots).to(compute.device)
    start = time.perf_counter()
    protonet = adapt(encoder, pcn, episode.task, variant(settings, "protonet"))
    middle = time.perf_counter()
    adaptation = adapt(encoder, pcn, episode.task, settings, on_iteration)
    end = time.perf_counter()
    return DemoResult(
        protonet_accuracy=episode.accuracy(protonet.scores),
        appl_accuracy=episode.accuracy(adaptation.scores),
        protonet_s=middle - start,
        appl_s=end - middle,
        label_accuracies=tuple(
            (record.labels == episode.query_class_ids).float().mean().item()
            for record in adaptation.records
        ),
        adaptation=adaptation,
    )


def _all_images(packed: PackedImages) -> torch.Tensor:
    return packed.images(torch.arange(len(packed.pixels)))
