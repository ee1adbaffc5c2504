"""LRP-CAN (Sun et al., 2021): CAN, trained on what its own predictions rest upon."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from appl.core.episode import Episode
from appl.core.methods import METHODS, EpisodeLoss, MethodCard
from appl.encoders import Encoder
from appl.rivals._relevance import EPSILON, relevance_weights, start_relevance, through_sum
from appl.rivals.can import CAN, Attended, CrossAttention
from appl.settings.checks import setting


@METHODS.register("lrp_can")
@dataclass(frozen=True)
class LRPCAN(CAN):
    """Explanation-Guided Training for Cross-Domain Few-Shot Classification: Sun et al., 2021.

    arXiv:2007.08790. The relevance of the scores is shared out over the channels of the cosine and
    from there over the query's positions; channels and positions count 1 + R / max |R| times in the
    scores that are trained. A test is CAN's, with its transductive inference as the paper's row.
    """

    card: ClassVar = MethodCard(
        title="LRP-CAN",
        paper="Sun et al., 2021",
        summary="CAN trained on what supports its predictions",
        takes="transductive",
        needs="map",
        is_meta_trained=True,
    )
    inference: Literal["inductive", "transductive"] = setting(
        "transductive", "confident queries join the classes, in two rounds; or each alone"
    )

    def training_loss(
        self, encoder: Encoder, head: CrossAttention, episode: Episode
    ) -> EpisodeLoss:
        """Return half the loss of re-weighted positions, and that of their source classes."""
        maps, pairs, answers = self.attended(encoder, head, episode)
        of_channels, of_positions = self.weights(maps, pairs)
        classes = F.normalize(pairs.classes, dim=2) * of_channels
        queries = F.normalize(maps, dim=1)
        products = torch.einsum("qcm,qncm,qnc->qnm", queries, of_positions, classes)
        scores = self.scale * products
        local = F.cross_entropy(scores, answers[:, None].expand(-1, scores.shape[2]))
        loss = self.local_weight * local + self.source_loss(head, maps, pairs, episode)
        return EpisodeLoss(loss, self.scores_of(pairs))

    @torch.no_grad()
    def weights(self, maps: Tensor, pairs: Attended) -> tuple[Tensor, Tensor]:
        """Return the weights of channels (n_query, n_way, width) and of positions (…, width, m)."""
        of_channels, of_positions = self.relevance(maps, pairs)
        return relevance_weights(of_channels, 2), relevance_weights(of_positions, 2)

    def relevance(
        self, maps: Tensor, pairs: Attended, epsilon: float = EPSILON
    ) -> tuple[Tensor, Tensor]:
        """Return the relevance of the cosine's channels, and of the attended map's values."""
        start = start_relevance(self.scores_of(pairs))
        products = F.normalize(pairs.queries, dim=2) * F.normalize(pairs.classes, dim=2)
        of_channels = through_sum(products, start[..., None], 2, epsilon)
        attended = maps[:, None] * pairs.query_attention[:, :, None]  # (n_query, n_way, width, m)
        parts = attended / attended.shape[3]
        return of_channels, through_sum(parts, of_channels[..., None], 3, epsilon)
