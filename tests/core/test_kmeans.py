import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from appl.core.kmeans import cluster


def run(points, n_clusters, start="plus_plus", seed=0, n_rounds=20):
    generator = torch.Generator().manual_seed(seed)
    return cluster(points, n_clusters, start=start, n_rounds=n_rounds, generator=generator)


def test_from_the_same_start_it_ends_where_scikit_learn_ends():
    points = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    points += 3 * torch.randn(5, 4, generator=torch.Generator().manual_seed(1)).repeat(12, 1)
    ours = run(points, 5, start="first", n_rounds=100)
    theirs = KMeans(5, init=points[:5].numpy(), n_init=1, max_iter=100, tol=0).fit(points.numpy())
    assert ours.tolist() == theirs.labels_.tolist()


@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(5, 30),
    distinct=st.integers(1, 30),
    start=st.sampled_from(["first", "plus_plus"]),
    seed=st.integers(0, 1000),
)
def test_no_cluster_is_ever_empty(n, distinct, start, seed):
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(min(n, distinct), 3, generator=generator).repeat(n, 1)[:n]
    assert sorted(set(run(points, 5, start, seed).tolist())) == [0, 1, 2, 3, 4]


def test_ties_go_to_the_lowest_index():
    points = torch.tensor([[0.0], [2.0], [1.0]])
    assert run(points, 2, start="first", n_rounds=1).tolist() == [0, 1, 0]


def test_same_seed_same_clusters():
    points = torch.rand(50, 8, generator=torch.Generator().manual_seed(3))
    assert torch.equal(run(points, 5, seed=7), run(points, 5, seed=7))


def test_too_few_points_are_refused():
    with pytest.raises(ValueError, match="3 points cannot fill 5 clusters"):
        run(torch.zeros(3, 2), 5)
