"""MAML (Finn et al., 2017): weights from which a few gradient steps on the supports lead far."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from appl.core.episode import Task
from appl.core.methods import METHODS, MethodCard
from appl.encoders import Encoder
from appl.encoders.batch_statistics import own_statistics
from appl.rivals._episodic import check_n_way, query_cross_entropy
from appl.settings.checks import check_ranges, setting

Weights = dict[str, Tensor]


@METHODS.register("maml")
@dataclass(frozen=True)
class MAML:
    """Model-Agnostic Meta-Learning: Finn, Abbeel, Levine, 2017, arXiv:1703.03400.

    θ_{t+1} = θ_t − η ∇L_S(θ_t) for encoder and linear head together; the queries' loss at the last
    θ_t teaches the first one, through the steps (second order) or as if the steps were constant.
    As published every batch is normalised by its own statistics, the queries' among them.
    """

    card: ClassVar = MethodCard(
        title="MAML",
        paper="Finn et al., 2017",
        summary="all weights take a few gradient steps on the supports",
        takes="batchnorm",
        needs="weights",
        is_meta_trained=True,
    )
    order: Literal["first", "second"] = setting(
        "second", "derivatives in training; the first needs a fraction of the memory"
    )
    inner_rate: float = setting(0.01, "η", 0)
    n_steps: int = setting(5, "on the supports, while it learns", 0)
    n_test_steps: int = setting(5, "the same in a benchmark; the field also takes 100", 0)
    batch_norm: Literal["batch", "running"] = setting(
        "batch", "statistics: each batch's own, always; or as the modules' mode has it"
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def takes(self) -> str:
        """The card's tag, save where queries are normalised by remembered statistics."""
        return "none" if self.batch_norm == "running" else self.card.takes

    def build_head(self, encoder: Encoder, n_way: int) -> nn.Linear:
        """Return a linear layer, for tasks of `n_way` classes only."""
        head = nn.Linear(encoder.meta.width, n_way)
        nn.init.zeros_(head.bias)
        return head

    def answer(self, encoder: Encoder, head: nn.Linear, task: Task) -> Tensor:
        """Return the scores of the adapted weights; encoder and head stay as they are."""
        check_n_way(head.out_features, task)
        network = nn.Sequential(encoder, head)  # of the same modules: one dict holds all weights
        support, query = encoder.normalise(task.support), encoder.normalise(task.query)
        n_steps = self.n_steps if head.training else self.n_test_steps
        own = own_statistics(network) if self.batch_norm == "batch" else nullcontext()
        with own:
            weights = self._adapted(network, support, task.class_ids, n_steps)
            scores: Tensor = functional_call(network, weights, (query,))
        return scores

    def inner_loss(self, scores: Tensor, class_ids: Tensor) -> Tensor:
        """Return what the inner steps lower: the mean cross-entropy of the supports."""
        return query_cross_entropy(scores, class_ids)

    def _adapted(
        self, network: nn.Module, pixels: Tensor, class_ids: Tensor, n_steps: int
    ) -> Weights:
        """Return the fast weights; they know the first ones if the caller wants gradients."""
        is_learning = torch.is_grad_enabled()
        second = is_learning and self.order == "second"
        weights = {
            name: weight if is_learning and weight.requires_grad else _leaf(weight)
            for name, weight in network.named_parameters()
        }
        with torch.enable_grad():
            for _ in range(n_steps):
                scores = functional_call(network, weights, (pixels,))
                loss = self.inner_loss(scores, class_ids)
                # Without create_graph a step's graph is gone when it is done: first order keeps
                # one at a time, second order all of them until the queries' loss.
                gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=second)
                weights = {
                    name: weight - self.inner_rate * gradient
                    for (name, weight), gradient in zip(weights.items(), gradients, strict=True)
                }
                if not is_learning:
                    weights = {name: _leaf(weight) for name, weight in weights.items()}
        return weights


def _leaf(weight: Tensor) -> Tensor:
    return weight.detach().requires_grad_()
