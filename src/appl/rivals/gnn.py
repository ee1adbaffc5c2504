"""GNN (Garcia and Bruna, 2018): a graph network over the supports and a query."""

from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from appl.core.draws import content_draws
from appl.core.episode import Task
from appl.core.methods import METHODS, MethodCard
from appl.encoders import Encoder
from appl.encoders.batch_statistics import own_statistics
from appl.rivals._episodic import check_n_way, task_vectors
from appl.settings.checks import check_ranges, setting

# Pairs of nodes, where the statistics allow parts: near the size of the cache, twice as fast as
# all at once, and the memory of 250 supports stays small.
PAIRS_AT_ONCE = 2**14


@METHODS.register("gnn")
@dataclass(frozen=True)
class GNN:
    """Few-Shot Learning with Graph Neural Networks: Garcia, Bruna, 2018, arXiv:1711.04043.

    A node is an image's features beside its one-hot class (zeros for a query). Three times the
    nodes gather from each other by weights learnt from |x_i − x_j|; the query's node answers.
    One query a graph and remembered batch statistics, as its authors have it: no query sees
    another.
    """

    card: ClassVar = MethodCard(
        title="GNN",
        paper="Garcia and Bruna, 2018",
        summary="labels pass along a graph whose weights are learnt",
        takes="none",
        is_meta_trained=True,
    )
    grouping: Literal["single", "random"] = setting(
        "single", "queries of a graph: one; or as many as classes, drawn without their classes"
    )
    batch_norm: Literal["running", "batch"] = setting(
        "running", "the head's statistics in tests: remembered; or of the task's graphs together"
    )
    n_features: int = setting(128, "of a node, beside its class", 1)
    n_hidden: int = setting(96, "units of the weights' network, twice as many in its first half", 1)
    n_grown: int = setting(48, "features that a layer adds to a node", 1)

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def takes(self) -> str:
        """The card's tag, save where queries share a graph or their statistics."""
        if self.grouping == "random":
            return "transductive"
        return "batchnorm" if self.batch_norm == "batch" else self.card.takes

    def build_head(self, encoder: Encoder, n_way: int) -> "GraphNetwork":
        """Return the graph network, for tasks of `n_way` classes only."""
        return GraphNetwork(encoder.meta.width, n_way, self.n_features, self.n_hidden, self.n_grown)

    def answer(self, encoder: Encoder, head: "GraphNetwork", task: Task) -> Tensor:
        """Return the output of the queries' nodes."""
        check_n_way(head.n_way, task)
        return self.answer_by(torch.cat(task_vectors(encoder, task)), head, task)

    def answer_by(self, features: Tensor, head: "GraphNetwork", task: Task) -> Tensor:
        """Return the same from the features of supports and queries."""
        with own_statistics(head) if self.batch_norm == "batch" else nullcontext():
            return self._scores(head.embed(features), head, task)

    def _scores(self, nodes: Tensor, head: "GraphNetwork", task: Task) -> Tensor:
        graphs, support, order = self.groups(nodes, task)
        scores = torch.cat([head(part, support) for part in _parts(graphs, support, head)])
        return self.of_queries(scores, order, task)

    def groups(self, nodes: Tensor, task: Task) -> tuple[Tensor, Tensor, Tensor]:
        """Return query nodes by graph (n_graphs, size, …), support nodes, the queries' order."""
        class_ids = task.class_ids.to(nodes.device)
        labels = F.one_hot(class_ids, task.n_way).to(nodes)
        labels = torch.cat([labels, labels.new_zeros(task.n_query, task.n_way)])
        support, query = torch.cat([nodes, labels], 1).split([task.n_support, task.n_query])
        order, size = torch.arange(task.n_query), 1
        if self.grouping == "random":
            order, size = next(content_draws(task.query, 1, seed=0)).argsort(), task.n_way
        # The last group is filled up with queries that have their answer elsewhere.
        n_graphs = -(-task.n_query // size)
        groups = query[order[torch.arange(n_graphs * size) % task.n_query].to(query.device)]
        return groups.view(n_graphs, size, -1), support, order

    def of_queries(self, scores: Tensor, order: Tensor, task: Task) -> Tensor:
        """Bring scores (n_graphs, size, n_way) into the task's order (n_query, n_way)."""
        return scores.flatten(0, 1)[: task.n_query][order.argsort().to(scores.device)]


@dataclass(frozen=True)
class Step:
    """What a layer starts from: nodes (n_graphs, n, width) and the weights of their edges."""

    nodes: Tensor
    adjacency: Tensor


class GraphNetwork(nn.Module):
    """Nodes grow by what they gather: x ← [x; LeakyReLU(norm(W [x; Ax]))], at last W [x; Ax]."""

    def __init__(
        self, width: int, n_way: int, n_features: int, n_hidden: int, n_grown: int
    ) -> None:
        super().__init__()
        self.n_way, self.n_grown = n_way, n_grown
        self.embed = nn.Sequential(nn.Linear(width, n_features), nn.BatchNorm1d(n_features))
        widths = [n_features + n_way + layer * n_grown for layer in range(3)]
        self.adjacencies = nn.ModuleList(Adjacency(n_in, n_hidden) for n_in in widths)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(2 * n_in, n_grown), nn.BatchNorm1d(n_grown), nn.LeakyReLU())
            for n_in in widths[:-1]
        )
        self.layers.append(nn.Linear(2 * widths[-1], n_way))

    def forward(self, groups: Tensor, support: Tensor) -> Tensor:
        """Return (n_graphs, n, n_way) of query nodes (n_graphs, n, …) among the supports'."""
        nodes = torch.cat([groups, support.expand(len(groups), *support.shape)], 1)
        return self.run(nodes)[0][:, : groups.shape[1]]

    def run(self, nodes: Tensor) -> tuple[Tensor, list[Step]]:
        """Return (n_graphs, n, n_way) of all nodes, and what every layer started from."""
        steps = []
        for adjacency, layer in zip(self.adjacencies, self.layers, strict=True):
            steps.append(Step(nodes, adjacency(nodes)))
            gathered = torch.cat([nodes, steps[-1].adjacency @ nodes], 2)
            output = layer(gathered.flatten(0, 1)).unflatten(0, nodes.shape[:2])
            nodes = torch.cat([nodes, output], 2)
        return nodes[..., -self.n_way :], steps


class Adjacency(nn.Module):
    """The weights A of a graph's edges: a network on |x_i − x_j|, softmax over each row."""

    def __init__(self, width: int, n_hidden: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise([width, 2 * n_hidden, 2 * n_hidden, n_hidden, n_hidden]):
            layers += [nn.Linear(n_in, n_out), nn.BatchNorm1d(n_out), nn.LeakyReLU(inplace=True)]
        self.layers = nn.Sequential(*layers, nn.Linear(n_hidden, 1))

    def forward(self, nodes: Tensor) -> Tensor:
        """Return A (n_graphs, n, n), its diagonal empty, of nodes (n_graphs, n, width)."""
        n_graphs, n_nodes, _ = nodes.shape
        # |x_i − x_j| is symmetric: every pair is taken once.
        rows, columns = torch.triu_indices(n_nodes, n_nodes, 1, device=nodes.device)
        gaps = (nodes[:, rows] - nodes[:, columns]).abs().flatten(0, 1)
        weights = self.layers(gaps).view(n_graphs, -1)
        scores = nodes.new_full((n_graphs, n_nodes, n_nodes), -torch.inf)
        scores[:, rows, columns] = weights
        scores[:, columns, rows] = weights
        return scores.softmax(2)


def _parts(graphs: Tensor, support: Tensor, head: "GraphNetwork") -> tuple[Tensor, ...]:
    """Split the graphs, so that memory stays small; statistics of a batch want all of them."""
    if head.training or head.embed[1].training:
        return (graphs,)
    n_nodes = graphs.shape[1] + len(support)
    return torch.split(graphs, max(1, 2 * PAIRS_AT_ONCE // n_nodes**2))
