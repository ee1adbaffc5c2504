"""MatchingNet (Vinyals et al., 2016) with full context embeddings: attention over the supports."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from appl.core.draws import content_draws
from appl.core.episode import Episode, Task
from appl.core.methods import METHODS, EpisodeLoss, MethodCard
from appl.encoders import Encoder
from appl.rivals._episodic import task_vectors
from appl.settings.checks import check_ranges, setting


@METHODS.register("matching")
@dataclass(frozen=True)
class Matching:
    """Matching Networks for One Shot Learning: Vinyals et al., 2016, arXiv:1606.04080.

    A query's class probabilities are those of the supports it resembles:
    p = softmax_s(100·relu(cos(h, G_s)))·Y. A bi-LSTM makes G from the sequence of all supports,
    an LSTM with attention over G makes h from the query.

    A sequence has an order, a task has none. Ours reads class by class; which class comes first,
    and which image in a class, is drawn from the images' pixels. So neither the order of the
    supports nor the names of the classes change an answer.
    """

    card: ClassVar = MethodCard(
        title="MatchingNet",
        paper="Vinyals et al., 2016",
        summary="attention over supports that were read in the context of each other",
        takes="none",
        is_meta_trained=True,
    )
    full_context: bool = setting(True, "false: G and h are the plain features")
    n_steps: int = setting(0, "of reading the supports for a query; 0: one a support", 0)
    scale: float = setting(100.0, "on the cosine; not in the paper, without it p is near even", 0)
    relu: bool = setting(True, "cosines below zero count as zero; not in the paper")

    def __post_init__(self) -> None:
        check_ranges(self)

    def build_head(self, encoder: Encoder, n_way: int) -> nn.Module:  # noqa: ARG002
        """Return the two LSTMs; any number of classes."""
        return FullContext(encoder.meta.width) if self.full_context else nn.Identity()

    def answer(self, encoder: Encoder, head: nn.Module, task: Task) -> Tensor:
        """Return log(p + 1e-6)."""
        support, query = task_vectors(encoder, task)
        class_ids = task.class_ids.to(support.device)
        if self.full_context:
            order = reading_order(task).to(support.device)
            support, class_ids = support[order], class_ids[order]
            support, query = head(support, query, self.n_steps or task.n_support)
        cosines = F.normalize(query, dim=1) @ F.normalize(support, dim=1).mT
        cosines = cosines.relu() if self.relu else cosines
        attention = torch.softmax(self.scale * cosines, 1)  # (n_query, n_support)
        probs = attention @ F.one_hot(class_ids, task.n_way).to(attention)
        return torch.log(probs + 1e-6)

    def training_loss(self, encoder: Encoder, head: nn.Module, episode: Episode) -> EpisodeLoss:
        """Return the mean of −log(p + 1e-6) of the right class."""
        scores = self.answer(encoder, head, episode.task)
        return EpisodeLoss(F.nll_loss(scores, episode.query_class_ids.to(scores.device)), scores)


class FullContext(nn.Module):
    """G = S + h→ + h←, and h that reads G step by step."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.support_reader = nn.LSTM(width, width, bidirectional=True)
        self.query_reader = nn.LSTMCell(2 * width, width)

    def forward(self, support: Tensor, query: Tensor, n_steps: int) -> tuple[Tensor, Tensor]:
        """Return G (n_support, width) and h (n_query, width) of features in reading order."""
        hidden, _ = self.support_reader(support)
        context = support + sum(hidden.chunk(2, dim=1))
        state, cell = query, torch.zeros_like(query)
        for _ in range(n_steps):
            # a = softmax(hGᵀ), r = aG, (h, c) = LSTM([f; r], (h, c)), h ← h + f.
            read = torch.softmax(state @ context.mT, 1) @ context
            state, cell = self.query_reader(torch.cat([query, read], 1), (state, cell))
            state = state + query
        return context, state


def reading_order(task: Task) -> Tensor:
    """Return the supports' order (n_support,): by class, both levels by draws from the pixels."""
    draw, class_ids = next(content_draws(task.support, 1, seed=0)), task.class_ids.cpu()
    first = torch.stack([draw[class_ids == c].min() for c in range(task.n_way)])
    by_image = draw.argsort()
    return by_image[first[class_ids[by_image]].argsort(stable=True)]
