"""Batches of the pretraining: which images, and what is done to them before they are learnt."""

from dataclasses import dataclass

import torch
from torch import Tensor

from appl.core.draws import generator_draws
from appl.core.images import colour_jitter, random_resized_crop, turn
from appl.datasets.packed import PackedImages
from appl.settings.pretraining import PretrainSettings
from appl.training.distributed import ALONE, Processes


@dataclass(frozen=True)
class Batch:
    """One process's share of a batch: augmented views, their turns and their classes."""

    views: Tensor  # (n, 3, crop_px, crop_px) float in 0–1
    quarters: Tensor  # (n,) quarter turns, 0 … 3
    class_ids: Tensor  # (n,)


def load_batch(
    source: PackedImages,
    index: Tensor,
    class_ids: Tensor,
    generator: torch.Generator,
    settings: PretrainSettings,
    processes: Processes = ALONE,
) -> Batch:
    """Load and augment this process's share of a batch; the draws are those of the whole batch."""
    share = slice(processes.rank, None, processes.n_processes)
    draws = (column[share] for column in generator_draws(len(index), generator))
    views = random_resized_crop(
        source.images(index[share]).float() / 255,
        settings.crop_px,
        draws,
        scale=(settings.crop_scale_low, 1.0),
    )
    views = colour_jitter(views, settings.jitter, draws)
    quarters = torch.randint(1, 4, (len(index),), generator=generator)
    quarters *= torch.rand(len(index), generator=generator) < settings.rotated_share
    return Batch(turn(views, quarters[share]), quarters[share], class_ids[share])
