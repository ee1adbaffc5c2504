from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from appl.core.rectification import rectified_means
from appl.rivals.laplacian_shot import LaplacianShot
from tests.rivals.test_every_method import blobs


def test_no_strength_is_the_nearest_rectified_prototype() -> None:
    support, class_ids, query, _ = blobs(spread=0.3)
    z, q = F.normalize(support, dim=1), F.normalize(query, dim=1)
    for rectifies in (True, False):
        method = LaplacianShot(features="unit", strength=0.0, rectifies=rectifies)
        prototypes = torch.stack([z[class_ids == n].mean(0) for n in range(4)])
        prototypes = rectified_means(z, class_ids, q) if rectifies else prototypes
        expected = torch.log_softmax(-torch.cdist(q, prototypes).square(), 1)
        scores = method.scores(support, class_ids, query)
        torch.testing.assert_close(scores, expected, atol=1e-4, rtol=1e-4)


def test_the_energy_falls_at_every_sweep() -> None:
    _, _, query, _ = blobs(spread=0.3)
    query = F.normalize(query, dim=1)
    costs = 4 * torch.rand(len(query), 4, generator=torch.Generator().manual_seed(0))
    values = []
    for n_sweeps in range(10):
        method = LaplacianShot(n_sweeps=n_sweeps, strength=0.7)
        weights = method.neighbours(query)
        values.append(float(method.energy(method.relax(costs, weights), costs, weights)))
    assert all(after <= before + 1e-5 for before, after in pairwise(values))
    assert values[-1] < values[0] - 0.1


def test_an_uncertain_query_in_a_chain_goes_with_its_neighbours() -> None:
    """Three queries in a row, two classes: the middle one leans to 1, its neighbours are sure of 0.

    With u = P(class 0) a sweep is u ← σ(b + λΣ(2u_p − 1)), b the difference of the costs.
    """
    costs = torch.tensor([[0.0, 3.0], [0.2, 0.0], [0.0, 3.0]])
    chain = torch.tensor([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])
    method = LaplacianShot(strength=1.0, n_sweeps=2)

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    end, middle = sigmoid(3.0), sigmoid(-0.2)
    assert middle < 0.5
    for _ in range(2):
        end, middle = sigmoid(3 + (2 * middle - 1)), sigmoid(-0.2 + 2 * (2 * end - 1))
    found = method.relax(costs, chain).exp()
    np.testing.assert_allclose(found[:, 0], [end, middle, end], atol=1e-6)
    assert found[1, 0] > 0.5


def test_the_graph_of_four_points_by_hand() -> None:
    points = torch.tensor([[0.0], [1.0], [2.5], [7.0]])
    raw = LaplacianShot(n_neighbours=1, graph="raw").neighbours(points)
    assert raw.tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
    symmetric = LaplacianShot(n_neighbours=1).neighbours(points)
    assert torch.equal(symmetric, (raw + raw.mT) / 2)


@pytest.mark.parametrize("n_query", [1, 2])
def test_fewer_queries_than_neighbours(n_query: int) -> None:
    support, class_ids, query, _ = blobs()
    scores = LaplacianShot(n_neighbours=5).scores(support, class_ids, query[:n_query])
    assert scores.shape == (n_query, 4) and scores.isfinite().all()


def test_the_energy_by_hand() -> None:
    """Two neighbours, one sure of class 0, one undecided: −ln 2 + costs − λ/2·2·½."""
    costs = torch.tensor([[0.3, 5.0], [1.0, 2.0]])
    log_labels = torch.tensor([[1.0, 1e-30], [0.5, 0.5]]).log()
    energy = LaplacianShot(strength=3.0).energy(log_labels, costs, torch.tensor([[0.0, 1], [1, 0]]))
    assert float(energy) == pytest.approx(-np.log(2) + 0.3 + 1.5 - 1.5, abs=1e-6)


def test_it_stops_when_nothing_changes() -> None:
    energies = []

    class Counting(LaplacianShot):
        def energy(self, *parts):
            energies.append(float(super().energy(*parts)))
            return super().energy(*parts)

    support, class_ids, query, _ = blobs(spread=0.3)
    scores = Counting(n_sweeps=200).scores(support, class_ids, query)
    assert 3 <= len(energies) < 100
    enough = LaplacianShot(n_sweeps=len(energies)).scores(support, class_ids, query)
    assert torch.equal(scores, enough)
