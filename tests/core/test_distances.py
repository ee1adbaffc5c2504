import pytest
import torch
from sklearn.neighbors import NearestCentroid

from appl.core.distances import (
    class_means,
    class_probs,
    left_out_means,
    squared_distances,
    with_own_distance,
)

PROTOTYPES = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 2.0]])
QUERIES = torch.tensor([[0.0, 1.0], [3.0, 3.0], [1.0, 2.0]])


@pytest.mark.golden
def test_squared_distances_by_hand():
    expected = torch.tensor([[1.0, 18, 1], [18, 1, 10], [5, 8, 1]])
    torch.testing.assert_close(squared_distances(QUERIES, PROTOTYPES), expected)


def test_squared_distances_equal_torch_cdist_and_are_never_negative():
    points = torch.randn(40, 16, generator=torch.Generator().manual_seed(0)) * 100
    ours = squared_distances(points, points)
    assert ours.min() >= 0
    expected = torch.cdist(points.double(), points.double()).square().float()
    torch.testing.assert_close(ours, expected, rtol=1e-3, atol=0.5)


@pytest.mark.golden
def test_class_probs_by_hand():
    probs = class_probs(squared_distances(QUERIES, PROTOTYPES))
    expected = torch.tensor(
        [
            [0.49999999, 2.07e-8, 0.49999999],
            [4.14e-8, 0.99987656, 0.00012339],
            [0.01797012, 0.00089468, 0.98113520],
        ]
    )
    torch.testing.assert_close(probs, expected, rtol=2e-3, atol=1e-7)


def test_class_means_equal_scikit_learns_nearest_centroid():
    generator = torch.Generator().manual_seed(1)
    features = torch.rand(23, 5, generator=generator)
    class_ids = torch.tensor([0] * 3 + [1] * 7 + [2] * 1 + [3] * 12)
    centroid = NearestCentroid().fit(features.numpy(), class_ids.numpy())
    means = class_means(features, class_ids, 4)
    expected = torch.tensor(centroid.centroids_).float()
    torch.testing.assert_close(means, expected, rtol=1e-5, atol=1e-6)


def test_left_out_means_by_a_loop():
    features = torch.rand(7, 3, generator=torch.Generator().manual_seed(2))
    class_ids = torch.tensor([0, 1, 0, 0, 1, 2, 0])
    means = left_out_means(features, class_ids)
    for i in range(7):
        others = [j for j in range(7) if j != i and class_ids[j] == class_ids[i]] or [i]
        torch.testing.assert_close(means[i], features[others].mean(0))


def test_with_own_distance_changes_only_the_own_class():
    distances = squared_distances(QUERIES, PROTOTYPES)
    changed = with_own_distance(distances, QUERIES, torch.zeros(3, 2), torch.tensor([1, 0, 2]))
    expected = torch.tensor([[1.0, 1, 1], [18, 1, 10], [5, 8, 5]])
    torch.testing.assert_close(changed, expected)
