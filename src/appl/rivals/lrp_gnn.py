"""LRP-GNN (Sun et al., 2021): GNN, trained once more on what its own predictions rest upon."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from appl.core.episode import Episode
from appl.core.methods import METHODS, EpisodeLoss, MethodCard
from appl.encoders import Encoder
from appl.encoders.batch_statistics import own_statistics
from appl.rivals._episodic import check_n_way, task_vectors
from appl.rivals._relevance import (
    EPSILON,
    relevance_weights,
    start_relevance,
    through_linear,
    through_mixing,
)
from appl.rivals.gnn import GNN, GraphNetwork, Step
from appl.settings.checks import setting


@METHODS.register("lrp_gnn")
@dataclass(frozen=True)
class LRPGNN(GNN):
    """Explanation-Guided Training for Cross-Domain Few-Shot Classification: Sun et al., 2021.

    arXiv:2007.08790. The relevance of the queries' scores is carried back through the graph to the
    features of all nodes; a second pass with features times 1 + R / max |R| is trained along with
    the first. A test is GNN's.
    """

    card: ClassVar = MethodCard(
        title="LRP-GNN",
        paper="Sun et al., 2021",
        summary="GNN trained along with what supports its predictions",
        takes="none",
        is_meta_trained=True,
    )
    lrp_weight: float = setting(1.0, "ξ of the second loss; published: 0.5 at one shot", 0)

    def training_loss(self, encoder: Encoder, head: GraphNetwork, episode: Episode) -> EpisodeLoss:
        """Return L(scores) + ξ·L(scores of the re-weighted features)."""
        task = episode.task
        check_n_way(head.n_way, task)
        features = torch.cat(task_vectors(encoder, task))
        with own_statistics(head) if self.batch_norm == "batch" else nullcontext():
            groups, support, order = self.groups(head.embed(features), task)
            nodes = torch.cat([groups, support.expand(len(groups), *support.shape)], 1)
            outputs, steps = head.run(nodes)
            n_grouped = groups.shape[1]
            weights = feature_weights(head, outputs, steps, n_grouped, self.n_features)
            image, label = nodes.split([self.n_features, task.n_way], 2)
            explained, _ = head.run(torch.cat([image * weights, label], 2))
        answers = episode.query_class_ids.to(outputs.device)
        scores, again = (
            self.of_queries(found[:, :n_grouped], order, task) for found in (outputs, explained)
        )
        loss = F.cross_entropy(scores, answers)
        return EpisodeLoss(loss + self.lrp_weight * F.cross_entropy(again, answers), scores)


@torch.no_grad()
def feature_weights(
    head: GraphNetwork, outputs: Tensor, steps: list[Step], n_grouped: int, n_features: int
) -> Tensor:
    """Return 1 + R / max |R| of every node's features (n_graphs, n, n_features)."""
    start = torch.zeros_like(outputs)
    # The predictions are the queries'; the authors also start at the supports' outputs.
    start[:, :n_grouped] = start_relevance(outputs[:, :n_grouped])
    return relevance_weights(node_relevance(head, steps, start)[..., :n_features], 2)


def node_relevance(
    head: GraphNetwork, steps: list[Step], relevance: Tensor, epsilon: float = EPSILON
) -> Tensor:
    """Return the relevance of the first nodes (n_graphs, n, width) from that of the outputs.

    A step is [x; Ax] through a linear layer, and what it gives stands beside x in the next step;
    the weights A of the edges are constants.
    """
    carried = torch.zeros_like(relevance[..., :0])
    for step, layer in zip(reversed(steps), reversed(head.layers), strict=True):
        linear = layer if isinstance(layer, nn.Linear) else layer[0]  # type: ignore[index]
        gathered = torch.cat([step.nodes, step.adjacency @ step.nodes], 2)
        both = through_linear(gathered, linear.weight, relevance, epsilon)
        own, mixed = both.chunk(2, 2)
        total = own + through_mixing(step.adjacency, step.nodes, mixed, epsilon)
        if carried.shape[2]:
            total = total + carried
        carried, relevance = total[..., : -head.n_grown], total[..., -head.n_grown :]
    return total
