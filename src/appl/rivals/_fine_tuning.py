"""Fine-tuning on a task's supports by the benchmark's recipe (Guo et al., 2020).

A fresh linear head and a copy of the encoder step together down the cross-entropy of mini-batches
of supports, without augmentation. The rivals that begin so differ in what they do afterwards.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from appl.core.episode import Task
from appl.core.methods import Solution
from appl.core.seeds import generator_for
from appl.encoders import Encoder
from appl.encoders.batch_statistics import with_batch_statistics
from appl.settings.checks import check_ranges, setting


@dataclass(frozen=True)
class Fitted:
    """What fine-tuning leaves behind: a copy of the encoder, in eval mode, and the head."""

    encoder: Encoder
    weight: Tensor  # (n_way, width)
    bias: Tensor  # (n_way,)
    losses: tuple[float, ...]  # of every epoch, the mean over its images

    def scores(self, features: Tensor) -> Tensor:
        """Return W z + b."""
        return F.linear(features, self.weight, self.bias)

    def record(self) -> dict[str, Any]:
        """Say how the loss went, at six epochs at most."""
        kept = self.losses[:: max(1, len(self.losses) // 5)]
        return {"n_epochs": len(self.losses), "loss": [round(loss, 4) for loss in kept]}


@dataclass(frozen=True)
class FineTuning(ABC):
    """The settings of the recipe; every rival that begins with it has them all."""

    n_epochs: int = setting(100, "over the supports", 0)
    batch_size: int = setting(4, "supports per step; an epoch's last batch may be smaller", 1)
    head_rate: float = setting(0.01, "of the head's SGD", 0)
    head_momentum: float = setting(0.9, "of the head's SGD", 0, 1)
    head_dampening: float = setting(0.9, "of its momentum, which so is a mean of gradients", 0, 1)
    head_decay: float = setting(1e-3, "weight decay of the head", 0)
    encoder_rate: float = setting(0.01, "of the encoder's SGD, without momentum or decay", 0)
    batch_norm: Literal["follow", "keep"] = setting(
        "follow", "batch norms take each batch's statistics and remember them; or keep the source's"
    )
    seed: int = setting(0, "of the head's first weights and of the batches")

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def what_trains(self) -> Literal["all", "head"]:
        """Head and encoder, or the head alone."""
        return "all"

    @property
    def fitting(self) -> Hashable:
        """The settings of the recipe: what a rival does afterwards has no part in the fit."""
        recipe = tuple(getattr(self, field.name) for field in fields(FineTuning))
        return "fine-tuning", self.what_trains, *recipe

    def fit(self, encoder: Encoder, task: Task) -> Fitted:
        """Fit a head and a copy of the encoder to the supports, or the head alone."""
        trains = self.what_trains
        encoder = deepcopy(encoder).eval().requires_grad_(trains == "all")
        generator = generator_for("fine-tuning", self.seed)
        # A frozen encoder's features do not change from step to step.
        inputs = encoder.normalise if trains == "all" else encoder.encode
        images = inputs(task.support)
        class_ids = task.class_ids.to(images.device)
        weight, bias = _first_head(task.n_way, encoder.meta.width, generator, images.device)
        head = {
            "params": [weight, bias],
            "lr": self.head_rate,
            "momentum": self.head_momentum,
            "dampening": self.head_dampening,
            "weight_decay": self.head_decay,
        }
        body = {"params": list(encoder.parameters()), "lr": self.encoder_rate}
        sgd = torch.optim.SGD([head, body], lr=self.head_rate)
        losses = []
        for _ in range(self.n_epochs):
            total = 0.0
            order = torch.randperm(task.n_support, generator=generator)
            for batch in order.to(images.device).split(self.batch_size):
                features = images[batch]
                if trains == "all" and self.batch_norm == "follow":
                    features = with_batch_statistics(encoder, features)
                elif trains == "all":
                    features = encoder(features)
                loss = F.cross_entropy(F.linear(features, weight, bias), class_ids[batch])
                sgd.zero_grad()
                loss.backward()
                sgd.step()
                total += float(loss.detach()) * len(batch)
            losses.append(total / task.n_support)
        return Fitted(encoder, weight.detach(), bias.detach(), tuple(losses))

    @abstractmethod
    def answer_by(self, fitted: Fitted, task: Task) -> Solution:
        """Answer the task by a fit, which stays as it was: where the rivals differ."""

    def solve(
        self,
        encoder: Encoder,
        pcn: nn.Module,  # noqa: ARG002
        task: Task,
        beside: Sequence[nn.Module] = (),  # noqa: ARG002
    ) -> Solution:
        """Fit, then answer."""
        return self.answer_by(self.fit(encoder, task), task)


def _first_head(
    n_way: int, width: int, generator: torch.Generator, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Draw a head as nn.Linear does, evenly within ±1/√width, but from our own generator."""
    bound = width**-0.5
    drawn = torch.empty(n_way, width + 1).uniform_(-bound, bound, generator=generator).to(device)
    return drawn[:, :width].clone().requires_grad_(), drawn[:, width].clone().requires_grad_()
