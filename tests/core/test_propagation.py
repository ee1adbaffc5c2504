import pytest
import torch
from sklearn.datasets import make_moons
from sklearn.semi_supervised import LabelSpreading

from appl.core.propagation import neighbour_graph, propagate


def task(seed=0, n_query=30):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(3, 4, generator=generator) * 2
    class_ids = torch.arange(3).repeat_interleave(4)
    support = centres[class_ids] + torch.randn(12, 4, generator=generator)
    query = centres.repeat(n_query // 3, 1) + torch.randn(n_query, 4, generator=generator)
    return support, class_ids, query


def test_the_solve_equals_the_iteration_that_it_stands_for():
    support, class_ids, query = task()
    points = torch.cat([support, query]).double()
    weights = neighbour_graph(points, 10)
    degree = weights.sum(1)
    spread = weights / torch.sqrt(degree[:, None] * degree)
    start = torch.zeros(len(points), 3, dtype=torch.float64)
    start[torch.arange(12), class_ids] = 1 / 4
    labels = start.clone()
    for _ in range(500):
        labels = 0.8 * spread @ labels + 0.2 * start
    expected = labels[12:] / labels[12:].sum(1, keepdim=True)
    ours = propagate(support, class_ids, query, 3)
    torch.testing.assert_close(ours.double(), expected, rtol=1e-5, atol=1e-6)


def test_equals_scikit_learns_label_spreading_on_the_same_graph():
    support, class_ids, query = task(seed=4)
    points = torch.cat([support, query]).double()

    def kernel(x, y):
        return neighbour_graph(torch.from_numpy(x), 10).numpy()

    labels = torch.cat([class_ids, torch.full((len(query),), -1)])
    peer = LabelSpreading(kernel=kernel, alpha=0.8, max_iter=2000, tol=1e-12)
    peer.fit(points.numpy(), labels.numpy())
    expected = torch.from_numpy(peer.label_distributions_[12:])
    ours = propagate(support, class_ids, query, 3)
    torch.testing.assert_close(ours.double(), expected, rtol=1e-4, atol=1e-5)


def test_two_moons_from_one_label_each():
    points, moon = make_moons(200, noise=0.04, random_state=0)
    points, moon = torch.from_numpy(points), torch.from_numpy(moon)
    first = [int((moon == m).nonzero()[0]) for m in (0, 1)]
    rest = [i for i in range(200) if i not in first]
    probs = propagate(points[first], torch.tensor([0, 1]), points[rest], 2, alpha=0.99)
    assert (probs.argmax(1) == moon[rest]).all()


def test_permuting_the_queries_permutes_the_answers():
    support, class_ids, query = task(seed=1)
    order = torch.randperm(len(query), generator=torch.Generator().manual_seed(5))
    plain = propagate(support, class_ids, query, 3)
    torch.testing.assert_close(propagate(support, class_ids, query[order], 3), plain[order])


def test_a_query_that_no_label_reaches_gets_equal_probabilities():
    near = torch.arange(12.0)[:, None] / 100
    far = 1e6 + torch.arange(12.0)[:, None] / 100
    support = torch.cat([near[:1], near[1:2]])
    probs = propagate(support, torch.tensor([0, 1]), torch.cat([near[2:], far]), 2, n_neighbours=3)
    torch.testing.assert_close(probs[-12:], torch.full((12, 2), 0.5))
    assert not torch.allclose(probs[0], torch.tensor([0.5, 0.5]), atol=1e-3)


@pytest.mark.parametrize("n_copies", [1, 6])
def test_more_supports_of_a_class_do_not_pull_the_middle(n_copies):
    support = torch.cat([torch.tensor([[-1.0]]).repeat(n_copies, 1), torch.tensor([[1.0]])])
    class_ids = torch.tensor([0] * n_copies + [1])
    probs = propagate(support, class_ids, torch.tensor([[0.0]]), 2, n_neighbours=20)
    assert 0.35 < probs[0, 0] < 0.65
