import pytest
import torch
import torch.nn.functional as F
from torch import nn

from appl.rivals import lrp_gnn
from appl.rivals.gnn import GNN
from appl.rivals.lrp_gnn import LRPGNN, node_relevance
from tests.conftest import make_episode, make_small_encoder

TINY = 1e-10


def graph(seed: int = 0):
    """A network without biases, its second pass linear but for the edges; and its nodes."""
    torch.manual_seed(seed)
    head = LRPGNN(n_features=4, n_hidden=5, n_grown=3).build_head(make_small_encoder(), 3).double()
    for layer in head.layers:
        linear = layer if isinstance(layer, nn.Linear) else layer[0]
        nn.init.zeros_(linear.bias)
        if isinstance(layer, nn.Sequential):
            layer[2].negative_slope = 1.0
            layer[1].eps = 0.0  # with mean 0 and variance 1 it changes nothing
    return head.eval(), torch.randn(2, 6, 7, dtype=torch.float64)


def test_relevance_is_conserved() -> None:
    head, nodes = graph()
    outputs, steps = head.run(nodes)
    start = torch.randn_like(outputs)
    found = node_relevance(head, steps, start, TINY)
    assert found.shape == nodes.shape
    torch.testing.assert_close(found.sum((1, 2)), start.sum((1, 2)), atol=1e-5, rtol=1e-5)


def test_where_the_network_is_linear_it_is_gradient_times_input() -> None:
    """With the edges' weights as constants, of the sum of some outputs."""
    head, nodes = graph()
    _, steps = head.run(nodes)
    nodes = nodes.requires_grad_()
    x = nodes
    for step, layer in zip(steps, head.layers, strict=True):
        output = layer(torch.cat([x, step.adjacency.detach() @ x], 2).flatten(0, 1))
        x = torch.cat([x, output.unflatten(0, nodes.shape[:2])], 2)
    outputs = x[..., -3:]
    start = torch.zeros_like(outputs)
    start[:, :2] = outputs.detach()[:, :2]
    (gradient,) = torch.autograd.grad(outputs[:, :2].sum(), nodes)
    found = node_relevance(head, steps, start, TINY).detach()
    torch.testing.assert_close(found, (gradient * nodes).detach(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("grouping", ["single", "random"])
def test_without_relevance_the_second_pass_is_the_first(monkeypatch, grouping) -> None:
    episode, encoder = make_episode(noise=0.3), make_small_encoder()
    method = LRPGNN(grouping=grouping, lrp_weight=0.5)
    torch.manual_seed(0)
    head = method.build_head(encoder, 3).eval()
    found = method.training_loss(encoder, head, episode)
    scores = GNN(grouping=grouping).answer(encoder, head, episode.task)
    torch.testing.assert_close(found.scores, scores)
    loss = F.cross_entropy(scores, episode.query_class_ids)
    assert not torch.allclose(found.loss, 1.5 * loss, rtol=1e-4)
    monkeypatch.setattr(lrp_gnn, "start_relevance", torch.zeros_like)
    torch.testing.assert_close(method.training_loss(encoder, head, episode).loss, 1.5 * loss)


def test_what_supports_the_prediction_weighs_more() -> None:
    """The last layer alone, on the query's own nodes: a feature times a weight, up or down."""
    head, nodes = graph()
    for layer in list(head.layers)[:2]:
        nn.init.zeros_(layer[0].weight)
    last = head.layers[2]
    nn.init.zeros_(last.weight)
    with torch.no_grad():
        last.weight[0, :2] = torch.tensor([1.0, -1.0])  # class 0: the first feature less the second
        nodes[:, 0, :2] = torch.tensor([3.0, 1.0])
    outputs, steps = head.run(nodes)
    weights = lrp_gnn.feature_weights(head, outputs, steps, 1, 4)
    torch.testing.assert_close(weights[:, 0, 0], torch.full((2,), 2.0).double())
    torch.testing.assert_close(weights[:, 0, 1], torch.full((2,), 1 - 1 / 3).double())
    torch.testing.assert_close(weights[:, 1:], torch.ones(2, 5, 4).double())
