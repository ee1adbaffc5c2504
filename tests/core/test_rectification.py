import numpy as np
import torch

from appl.core.distances import class_means
from appl.core.rectification import rectified_means
from tests.rivals.test_every_method import blobs


def test_a_constant_added_to_all_queries_changes_nothing() -> None:
    support, class_ids, query, _ = blobs(spread=0.3)
    moved = rectified_means(support, class_ids, query + torch.linspace(-2, 3, 16))
    torch.testing.assert_close(moved, rectified_means(support, class_ids, query))


def test_a_class_that_no_query_takes_keeps_its_mean() -> None:
    # The first two classes lie left and right, the third above. Shifted onto the supports, one
    # query lies on the right and one on the left.
    support = torch.tensor([[1.0, 0.1], [1.0, 0.3], [-1.0, 0.1], [-1.0, 0.3], [0.0, 1.0], [0.2, 2]])
    class_ids = torch.tensor([0, 0, 1, 1, 2, 2])
    means = class_means(support, class_ids, 3)
    query = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    rectified = rectified_means(support, class_ids, query)
    assert torch.equal(rectified[2], means[2])
    assert not torch.isclose(rectified[:2], means[:2]).all(1).any()


def test_one_shot_whose_queries_are_copies_keeps_its_direction() -> None:
    support, class_ids, _, _ = blobs(n_shot=1)
    rectified = rectified_means(support, class_ids, support)
    torch.testing.assert_close(rectified, support)


def test_by_loops() -> None:
    """Unequal shots, and a support that looks like another class but keeps its own."""
    support, class_ids, query, _ = blobs(spread=0.3)
    class_ids[10] = 3  # an image of class 2
    support, class_ids = support[3:], class_ids[3:]
    shots = [support[class_ids == n].double().numpy() for n in range(4)]
    means = [shot.mean(0) for shot in shots]
    shift = np.mean(means, 0) - query.double().numpy().mean(0)

    def cosines(x):
        return np.array([x @ m / np.linalg.norm(x) / np.linalg.norm(m) for m in means])

    members = [[(x, n) for x in shot] for n, shot in enumerate(shots)]
    assert any(cosines(x).argmax() != n for pairs in members for x, n in pairs)
    for x in query.double().numpy() + shift:
        n = cosines(x).argmax()
        members[n].append((x, n))
    expected = []
    for pairs in members:
        weights = [np.exp(10 * cosines(x))[n] / np.exp(10 * cosines(x)).sum() for x, n in pairs]
        expected.append(np.average([x for x, _ in pairs], axis=0, weights=weights))
    np.testing.assert_allclose(rectified_means(support, class_ids, query), expected, atol=1e-5)
