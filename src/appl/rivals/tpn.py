"""TPN (Liu et al., 2019): label propagation over a graph whose length scales are learnt."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from appl.core.distances import squared_distances
from appl.core.episode import Task
from appl.core.methods import METHODS, MethodCard
from appl.core.propagation import diffuse
from appl.encoders import Encoder
from appl.encoders.batch_statistics import own_statistics
from appl.rivals._episodic import task_maps
from appl.settings.checks import check_ranges, setting

LEAST_SIGMA = 1e-4  # a scale of zero would tear its image out of the graph for good


@METHODS.register("tpn")
@dataclass(frozen=True)
class TPN:
    """Learning to Propagate Labels: Liu et al., 2019, arXiv:1805.10002.

    W_ij = exp(−½·mean_d (x_i/σ_i − x_j/σ_j)²), where σ_i comes from a network on the image's map;
    the strongest neighbours of each image are kept; F = (I − αS)⁻¹ Y in closed form, S the
    symmetrically normalised W. As published every batch norm uses the statistics of the task at
    hand, supports and queries together, also in a test.
    """

    card: ClassVar = MethodCard(
        title="TPN",
        paper="Liu et al., 2019",
        summary="labels propagate over a graph with learnt length scales",
        takes="transductive",
        needs="map",
        is_meta_trained=True,
    )
    alpha: float = setting(0.99, "how far labels travel; below 1", 0, 0.9999)
    n_neighbours: int = setting(20, "that each image keeps, itself among them", 1)
    batch_norm: Literal["batch", "running"] = setting(
        "batch", "statistics: the task's own, always; or as the modules' mode has it"
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def build_head(self, encoder: Encoder, n_way: int) -> nn.Module:  # noqa: ARG002
        """Return the network that gives σ; any number of classes."""
        width = encoder.meta.width
        return nn.Sequential(
            *(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()),
            nn.MaxPool2d(2, padding=1),
            *(nn.Conv2d(width, 1, 3, padding=1), nn.BatchNorm2d(1), nn.ReLU()),
            nn.MaxPool2d(2, padding=1),
            nn.AdaptiveAvgPool2d(3),  # of a 7×7 map 3×3 are left already: as published there
            nn.Flatten(),
            *(nn.Linear(9, 18), nn.ReLU(), nn.Linear(18, 1)),
        )

    def answer(self, encoder: Encoder, head: nn.Module, task: Task) -> Tensor:
        """Return the queries' rows of F, not normalised: the loss takes them as logits."""
        own = own_statistics(encoder, head) if self.batch_norm == "batch" else nullcontext()
        with own:
            maps = torch.cat(task_maps(encoder, task))
            # Paper: σ may have either sign, and cross zero. A length has none.
            sigma = head(maps).abs().clamp(min=LEAST_SIGMA)
        points = (encoder.pool(maps) / sigma).double()
        # Classes weigh alike whatever their number of supports; with equal shots, no change. The
        # field's code starts queries at 1/N, which adds the same to all scores of a query.
        start = F.one_hot(task.class_ids.to(points.device), task.n_way).double()
        start = start / start.sum(0) * (task.n_support / task.n_way)
        start = torch.cat([start, start.new_zeros(task.n_query, task.n_way)])
        spread = diffuse(nearest_weights(points, self.n_neighbours), start, self.alpha)
        return spread[task.n_support :].to(maps)


def nearest_weights(points: Tensor, n_neighbours: int) -> Tensor:
    """Return W (n, n), kept where one of the two is among the other's strongest neighbours."""
    weights = torch.exp(-0.5 * squared_distances(points, points) / points.shape[1])
    strongest = weights.topk(min(n_neighbours, len(points)), dim=1).indices
    keeps = torch.zeros_like(weights, dtype=torch.bool).scatter(1, strongest, True)
    return weights * (keeps | keeps.mT)
