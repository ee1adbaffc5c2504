"""CAN (Hou et al., 2019): class and query look at each other before they are compared."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from appl.core.distances import class_means
from appl.core.episode import Episode, Task
from appl.core.methods import METHODS, EpisodeLoss, MethodCard
from appl.encoders import Encoder
from appl.rivals._episodic import source_classes, task_maps
from appl.settings.checks import check_ranges, setting

# Of 75 queries the authors take the 35 most confident into the classes, then 70.
N_ROUNDS, ROUND_SHARE = 2, (35, 75)


@dataclass(frozen=True)
class Attended:
    """What pairs of a class and a query see of each other; m positions, attention in 1–2."""

    query_attention: Tensor  # (n_query, n_way, m)
    classes: Tensor  # (n_query, n_way, width) pooled under attention
    queries: Tensor  # the same of the query


@METHODS.register("can")
@dataclass(frozen=True)
class CAN:
    """Cross Attention Network for Few-shot Classification: Hou et al., 2019, arXiv:1910.07677.

    R_ij is the cosine of position i of a class's mean map and position j of a query's. A small
    network reads the mean of R over i and says which j count; positions that correlate with those
    get attention a = 1 + softmax. The score is 7·cos of the attended means. A query is trained
    position by position, and tells its source class beside.
    """

    card: ClassVar = MethodCard(
        title="CAN",
        paper="Hou et al., 2019",
        summary="class and query attend to each other's regions",
        takes="none",
        needs="map",
        is_meta_trained=True,
    )
    inference: Literal["inductive", "transductive"] = setting(
        "inductive", "each query alone; or confident queries join the classes, in two rounds"
    )
    side: int = setting(3, "of the maps that attention is learnt for: 3 at 84 px, 7 at 224 px", 1)
    n_hidden: int = setting(6, "units of the network that reads R", 1)
    scale: float = setting(7.0, "on the cosine", 0)
    sharpness: float = setting(0.025, "temperature of the attention's softmax", 1e-6)
    local_weight: float = setting(0.5, "of the few-shot loss beside that of source classes", 0)
    n_source_classes: int = setting(64, "training classes of the source, at most", 2)

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def takes(self) -> str:
        """Nothing, save where confident queries join the classes."""
        return "none" if self.inference == "inductive" else "transductive"

    def build_head(self, encoder: Encoder, n_way: int) -> "CrossAttention":  # noqa: ARG002
        """Return the attention and the classifier of the source; any number of classes."""
        return CrossAttention(
            encoder.meta.width, self.side, self.n_hidden, self.sharpness, self.n_source_classes
        )

    def answer(self, encoder: Encoder, head: "CrossAttention", task: Task) -> Tensor:
        """Return 7·cos of class and query as they see each other."""
        support, query = task_maps(encoder, task)
        class_ids = task.class_ids.to(support.device)
        scores = self.scores_of(head(mean_maps(support, class_ids, task.n_way), query))
        if self.inference == "inductive":
            return scores
        part, whole = ROUND_SHARE
        for number in range(1, N_ROUNDS + 1):
            n_chosen = number * (part * task.n_query // whole)
            confidence, guesses = torch.softmax(scores, 1).max(1)
            chosen = confidence.topk(n_chosen).indices
            maps = torch.cat([support, query[chosen]])
            ids = torch.cat([class_ids, guesses[chosen]])
            scores = self.scores_of(head(mean_maps(maps, ids, task.n_way), query))
        return scores

    def scores_of(self, pairs: Attended) -> Tensor:
        """Return the scores (n_query, n_way) of attended pairs."""
        return self.scale * F.cosine_similarity(pairs.queries, pairs.classes, dim=2)

    def training_loss(
        self, encoder: Encoder, head: "CrossAttention", episode: Episode
    ) -> EpisodeLoss:
        """Return half the loss of every position's classes, and that of its source class."""
        maps, pairs, answers = self.attended(encoder, head, episode)
        classes = F.normalize(pairs.classes, dim=2)
        # Attention scales a position, so that its cosine is that of the map as it is.
        scores = self.scale * torch.einsum("qcm,qnc->qnm", F.normalize(maps, dim=1), classes)
        local = F.cross_entropy(scores, answers[:, None].expand(-1, scores.shape[2]))
        loss = self.local_weight * local + self.source_loss(head, maps, pairs, episode)
        return EpisodeLoss(loss, self.scores_of(pairs))

    def attended(
        self, encoder: Encoder, head: "CrossAttention", episode: Episode
    ) -> tuple[Tensor, Attended, Tensor]:
        """Return the queries' maps (n_query, width, m), all pairs, the answers."""
        support, query = task_maps(encoder, episode.task)
        class_ids = episode.task.class_ids.to(support.device)
        pairs = head(mean_maps(support, class_ids, episode.task.n_way), query)
        return query.flatten(2), pairs, episode.query_class_ids.to(query.device)

    def source_loss(
        self, head: "CrossAttention", maps: Tensor, pairs: Attended, episode: Episode
    ) -> Tensor:
        """Return the cross-entropy of the source's classes at each position of the queries' maps.

        A map is seen as its own class sees it.
        """
        answers = episode.query_class_ids.to(maps.device)
        own = pairs.query_attention[torch.arange(len(maps), device=maps.device), answers]
        scores = head.classify((maps * own[:, None]).mT)  # (n_query, m, n_source_classes)
        classes = source_classes(episode, self.n_source_classes).to(maps.device)[answers]
        return F.cross_entropy(scores.mT, classes[:, None].expand(-1, scores.shape[1]))


class CrossAttention(nn.Module):
    """The attention of pairs of maps, and a classifier of single positions."""

    def __init__(
        self, width: int, side: int, n_hidden: int, sharpness: float, n_source_classes: int
    ) -> None:
        super().__init__()
        self.side, self.sharpness = side, sharpness
        self.kernel = nn.Sequential(
            nn.Linear(side**2, n_hidden),
            nn.BatchNorm1d(n_hidden),
            nn.ReLU(),
            nn.Linear(n_hidden, side**2),
        )
        self.classify = nn.Linear(width, n_source_classes)

    def forward(self, classes: Tensor, query: Tensor) -> Attended:
        """Return all pairs of maps (n_way, width, h, w) and (n_query, width, h, w)."""
        sides = classes.shape[2:]
        p, q = classes.flatten(2), query.flatten(2)
        cosines = torch.einsum("nci,qcj->qnij", F.normalize(p, dim=1), F.normalize(q, dim=1))
        shape = cosines.shape[:3]
        pairs = cosines.flatten(0, 1)  # (n_query · n_way, m, m)
        of_class = self.attention(pairs, sides).view(shape)
        of_query = self.attention(pairs.mT, sides).view(shape)
        return Attended(
            of_query,
            torch.einsum("qni,nci->qnc", of_class, p) / shape[2],
            torch.einsum("qnj,qcj->qnc", of_query, q) / shape[2],
        )

    def attention(self, cosines: Tensor, sides: torch.Size) -> Tensor:
        """Return a (n_pairs, m) for the rows of cosines (n_pairs, m, m)."""
        mean = cosines.mean(1).view(-1, 1, *sides)
        # On maps of the size that it was learnt for, pooling and enlarging change nothing.
        seen = F.adaptive_avg_pool2d(mean, self.side).flatten(1)
        kernel = self.kernel(seen).view(-1, 1, self.side, self.side)
        kernel = F.interpolate(kernel, tuple(sides), mode="bilinear").flatten(1)
        correlation = (cosines * kernel[:, None]).mean(2)
        return torch.softmax(correlation / self.sharpness, 1) + 1


def mean_maps(maps: Tensor, class_ids: Tensor, n_way: int) -> Tensor:
    """Return the mean map of every class (n_way, width, h, w)."""
    return class_means(maps.flatten(1), class_ids, n_way).view(-1, *maps.shape[1:])
