"""RelationNet (Sung et al., 2018): a small network says how well two maps go together."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from appl.core.distances import class_means
from appl.core.episode import Episode, Task
from appl.core.methods import METHODS, EpisodeLoss, MethodCard
from appl.encoders import Encoder
from appl.rivals._episodic import query_cross_entropy, task_maps
from appl.settings.checks import check_ranges, setting


@METHODS.register("relation")
@dataclass(frozen=True)
class Relation:
    """Learning to Compare: Sung et al., 2018, arXiv:1711.06025.

    A class is the mean of its supports' maps; two convolutional blocks and two linear layers turn
    the pair [class; query] into a score. As published the blocks normalise by the pairs at hand,
    so queries enter each other's scores.
    """

    card: ClassVar = MethodCard(
        title="RelationNet",
        paper="Sung et al., 2018",
        summary="a learnt comparison of the class's mean map with the query's",
        takes="batchnorm",
        needs="map",
        is_meta_trained=True,
    )
    loss_form: Literal["mse", "cross_entropy"] = setting(
        "mse", "of the sigmoid against 0 and 1, as in the paper; or softmax over the scores"
    )
    batch_norm: Literal["batch", "running"] = setting(
        "batch", "the head's statistics: always of the pairs at hand, or remembered ones in tests"
    )
    n_hidden: int = setting(8, "units between the two linear layers", 1)

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def takes(self) -> str:
        """The card's tag, save where the head remembers its statistics."""
        return "none" if self.batch_norm == "running" else self.card.takes

    def build_head(self, encoder: Encoder, n_way: int) -> "Comparison":  # noqa: ARG002
        """Return the comparison; any number of classes."""
        return Comparison(encoder.meta.width, self.n_hidden, remembers=self.batch_norm == "running")

    def answer(self, encoder: Encoder, head: nn.Module, task: Task) -> Tensor:
        """Return the relation scores before the sigmoid, which changes no order."""
        support, query = task_maps(encoder, task)
        class_ids = task.class_ids.to(support.device)
        means = class_means(support.flatten(1), class_ids, task.n_way)
        scores: Tensor = head(means.view(-1, *support.shape[1:]), query)
        return scores

    def training_loss(self, encoder: Encoder, head: nn.Module, episode: Episode) -> EpisodeLoss:
        """Return the loss of the setting `loss_form`."""
        scores = self.answer(encoder, head, episode.task)
        return EpisodeLoss(self.loss(scores, episode.query_class_ids), scores)

    def loss(self, scores: Tensor, query_class_ids: Tensor) -> Tensor:
        """Return the squared error of the sigmoids over all pairs, or the cross-entropy."""
        if self.loss_form == "cross_entropy":
            return query_cross_entropy(scores, query_class_ids)
        targets = F.one_hot(query_class_ids.to(scores.device), scores.shape[1])
        return F.mse_loss(torch.sigmoid(scores), targets.to(scores))


class Comparison(nn.Module):
    """[class; query] → conv, norm, ReLU, pool → the same again → linear, ReLU, linear."""

    def __init__(self, width: int, n_hidden: int, *, remembers: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(2 * width, width, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(width, track_running_stats=remembers)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(width, track_running_stats=remembers)
        self.score = nn.Sequential(nn.Linear(width, n_hidden), nn.ReLU(), nn.Linear(n_hidden, 1))

    def forward(self, classes: Tensor, query: Tensor) -> Tensor:
        """Return the scores (n_query, n_way) of maps (n_way, width, h, w), (n_query, width, …)."""
        # A convolution of [p; q] is one of p plus one of q: each map goes through it once, not each
        # pair.
        class_weight, query_weight = self.conv1.weight.chunk(2, dim=1)
        of_class = F.conv2d(classes, class_weight, self.conv1.bias, padding=1)
        of_query = F.conv2d(query, query_weight, padding=1)
        pairs = (of_query[:, None] + of_class).flatten(0, 1)  # (n_query · n_way, width, h, w)
        pairs = _halve(F.relu(self.norm1(pairs)))
        pairs = _halve(F.relu(self.norm2(self.conv2(pairs))))
        scores: Tensor = self.score(pairs.mean((2, 3)))
        return scores.view(len(query), len(classes))


def _halve(maps: Tensor) -> Tensor:
    """Pool 2×2; a side of 1 stays. 7 → 3 → 1 as published, and every other size works too."""
    return F.max_pool2d(maps, [min(2, side) for side in maps.shape[2:]])
