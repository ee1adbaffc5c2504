import pytest
import torch
import torch.nn.functional as F

from appl.core.episode import Task
from appl.errors import TaskError
from appl.rivals import gnn
from appl.rivals.gnn import GNN, Adjacency
from tests.conftest import WIDTH, encoder_of_width, make_episode, make_small_encoder


def head_of(method: GNN = GNN(), n_way: int = 3):
    """With statistics that are not those of a fresh batch norm."""
    torch.manual_seed(0)
    head = method.build_head(encoder_of_width(WIDTH), n_way)
    for module in head.modules():
        if hasattr(module, "running_mean"):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return head.eval()


@torch.no_grad()
def test_a_graph_by_hand() -> None:
    """One query, all pairs of nodes in turn, as the equations stand."""
    head, encoder, task = head_of(), make_small_encoder(), make_episode(noise=0.3).task
    query = head.embed(encoder.encode(task.query[4:5]))
    support = head.embed(encoder.encode(task.support))
    nodes = torch.cat(
        [
            torch.cat([query, torch.zeros(1, 3)], 1),
            torch.cat([support, F.one_hot(task.class_ids, 3)], 1),
        ]
    )
    for adjacency, layer in zip(head.adjacencies, head.layers, strict=True):
        rows = []
        for i in range(16):
            others = [j for j in range(16) if j != i]
            weights = adjacency.layers((nodes[i] - nodes[others]).abs())[:, 0].softmax(0)
            rows.append(weights @ nodes[others])
        nodes = torch.cat([nodes, layer(torch.cat([nodes, torch.stack(rows)], 1))], 1)
    scores = GNN().answer(encoder, head, task)
    torch.testing.assert_close(scores[4], nodes[0, -3:], atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_edges_sum_to_one_and_follow_their_nodes() -> None:
    torch.manual_seed(0)
    adjacency, nodes = Adjacency(5, 4).eval(), torch.randn(2, 7, 5)
    edges = adjacency(nodes)
    torch.testing.assert_close(edges.sum(2), torch.ones(2, 7))
    assert (edges.diagonal(dim1=1, dim2=2) == 0).all()
    order = torch.randperm(7)
    torch.testing.assert_close(adjacency(nodes[:, order]), edges[:, order][:, :, order])


@torch.no_grad()
def test_classes_may_be_renamed_if_the_head_is() -> None:
    """Columns of the one-hot classes at the entrance, of the scores at the end."""
    method, encoder, task = GNN(n_features=7), make_small_encoder(), make_episode(noise=0.3).task
    head, other = head_of(method), head_of(method)
    renamed = torch.tensor([2, 0, 1])
    for adjacency in other.adjacencies:
        first = adjacency.layers[0].weight
        first[:, 7 + renamed] = first[:, 7:10].clone()
    for layer in other.layers:
        first = layer.weight if isinstance(layer, torch.nn.Linear) else layer[0].weight
        for start in (7, first.shape[1] // 2 + 7):  # of x, and of what x gathers
            first[:, start + renamed] = first[:, start : start + 3].clone()
    last = other.layers[-1]
    last.weight[renamed], last.bias[renamed] = last.weight.clone(), last.bias.clone()
    scores = method.answer(encoder, head, task)
    again = method.answer(encoder, other, Task(task.support, renamed[task.class_ids], task.query))
    torch.testing.assert_close(again[:, renamed], scores, atol=1e-5, rtol=1e-4)


def test_the_head_has_the_published_size() -> None:
    n_parameters = sum(p.numel() for p in GNN().build_head(encoder_of_width(512), 5).parameters())
    assert round(n_parameters / 1e6, 2) == 0.40


@pytest.mark.parametrize("grouping", ["single", "random"])
@torch.no_grad()
def test_parts_of_the_graphs_change_nothing(grouping, monkeypatch) -> None:
    method, encoder, task = GNN(grouping=grouping), make_small_encoder(), make_episode().task
    head = head_of(method)
    whole = method.answer(encoder, head, task)
    monkeypatch.setattr(gnn, "PAIRS_AT_ONCE", 1)
    torch.testing.assert_close(method.answer(encoder, head, task), whole)
    # In training the statistics are of all graphs at once, whatever the memory.
    head.train()
    before = int(head.layers[0][1].num_batches_tracked)
    method.answer(encoder, head, task)
    assert int(head.layers[0][1].num_batches_tracked) == before + 1


@torch.no_grad()
def test_statistics_of_the_task_undo_what_a_new_domain_adds_to_all_features() -> None:
    """Another mean of the features shifts what `embed` gives, which its own norm takes away."""
    task, head = make_episode().task, head_of(GNN())
    features = torch.randn(len(task.images()), WIDTH, generator=torch.Generator().manual_seed(1))
    scores = {
        (kind, shift): GNN(batch_norm=kind).answer_by(features + shift, head, task)
        for kind in ("batch", "running")
        for shift in (0.0, 3.0)
    }
    torch.testing.assert_close(scores["batch", 3.0], scores["batch", 0.0], atol=1e-3, rtol=1e-3)
    assert not torch.allclose(scores["running", 3.0], scores["running", 0.0], atol=1e-2)
    assert not torch.allclose(scores["batch", 0.0], scores["running", 0.0], atol=1e-2)


@torch.no_grad()
def test_random_groups_hold_as_many_queries_as_classes(monkeypatch) -> None:
    """Ten queries of three classes: four graphs, the last filled up, every query answered once."""
    method, encoder = GNN(grouping="random"), make_small_encoder()
    episode = make_episode(n_query=4).task
    task = Task(episode.support, episode.class_ids, episode.query[:10])
    head, seen = head_of(method), []
    head.register_forward_hook(lambda _head, inputs, _output: seen.append(inputs[0]))
    scores = method.answer(encoder, head, task)
    (groups,) = seen
    assert groups.shape[:2] == (4, 3)
    assert len(groups.flatten(0, 1).unique(dim=0)) == 10
    # The answer of a query is its node's, in the group where it stands first.
    nodes = head.embed(encoder.encode(task.query))
    flat = head(groups, seen_support(head, encoder, task)).flatten(0, 1)
    for query, node in enumerate(nodes):
        place = int((groups.flatten(0, 1)[:, :128] - node).abs().sum(1).argmin())
        torch.testing.assert_close(scores[query], flat[place], atol=1e-4, rtol=1e-4)


def seen_support(head, encoder, task):
    support = head.embed(encoder.encode(task.support))
    return torch.cat([support, F.one_hot(task.class_ids, 3).to(support)], 1)


def test_another_number_of_classes_is_refused() -> None:
    with pytest.raises(TaskError, match="trained for 3 classes, the task has 2"):
        GNN().answer(make_small_encoder(), head_of(), make_episode(n_way=2).task)
