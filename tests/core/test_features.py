import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from appl.core.features import Centring, centre_and_normalise, directions, likeliest_scale


def task(seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    support = torch.rand(6, 8, generator=generator)
    query = torch.rand(20, 8, generator=generator)
    return support, torch.tensor([0, 0, 0, 0, 1, 1]), query


def test_by_hand() -> None:
    support = torch.tensor([[4.0, 0.0], [16.0, 0.0], [0.0, 1.0]])
    query = torch.tensor([[1.0, 1.0], [9.0, 9.0]])
    # Roots: supports (2, 0), (4, 0), (0, 1); class means (3, 0), (0, 1), their mean (1.5, .5).
    # Queries (1, 1), (3, 3), mean (2, 2). The centre is (1.75, 1.25).
    found, found_query = centre_and_normalise(support, torch.tensor([0, 0, 1]), query)
    expected = torch.tensor([[0.25, -1.25], [2.25, -1.25], [-1.75, -0.25]])
    torch.testing.assert_close(found, expected / expected.norm(dim=1, keepdim=True))
    expected = torch.tensor([[-0.75, -0.25], [1.25, 1.75]])
    torch.testing.assert_close(found_query, expected / expected.norm(dim=1, keepdim=True))


def test_a_larger_pile_of_the_same_kind_changes_nothing() -> None:
    support, class_ids, query = task()
    small = centre_and_normalise(support, class_ids, query)
    large = centre_and_normalise(support, class_ids, query.repeat(7, 1))
    torch.testing.assert_close(large[0], small[0])
    torch.testing.assert_close(large[1][:20], small[1])


def test_more_examples_of_one_class_do_not_move_the_centre() -> None:
    support, class_ids, query = task()
    twice = torch.cat([support, support[4:]])
    more = centre_and_normalise(twice, torch.cat([class_ids, class_ids[4:]]), query)
    torch.testing.assert_close(more[1], centre_and_normalise(support, class_ids, query)[1])


def test_negative_features_keep_their_values() -> None:
    support, class_ids, query = task()
    support[0, 0] = -0.5
    found, _ = centre_and_normalise(support, class_ids, query)
    centre = (support[:4].mean(0) / 2 + support[4:].mean(0) / 2 + query.mean(0)) / 2
    plain = support - centre
    torch.testing.assert_close(found, plain / plain.norm(dim=1, keepdim=True))
    assert found.norm(dim=1).tolist() == pytest.approx([1.0] * 6)


def test_a_later_image_is_placed_like_one_of_the_pile() -> None:
    support, class_ids, query = task()
    centring = Centring.of(support, class_ids, query)
    torch.testing.assert_close(
        centring(query[3:4])[0], centre_and_normalise(support, class_ids, query)[1][3]
    )
    below_zero = query[3:4].clone()
    below_zero[0, 0] = -0.5
    assert centring(below_zero).isfinite().all()


def test_the_likeliest_scale_by_a_general_minimiser() -> None:
    generator = torch.Generator().manual_seed(3)
    distances = torch.rand(30, 4, generator=generator, dtype=torch.float64) * 5
    class_ids = torch.randint(4, (30,), generator=generator)
    distances[torch.arange(30), class_ids] *= 0.5
    doubt = 1 / 32

    def cost(log_scale: float) -> float:
        log_probs = torch.log_softmax(-np.exp(log_scale) * distances, 1)
        own = log_probs[torch.arange(30), class_ids].mean()
        return -float((1 - doubt) * own + doubt * log_probs.mean())

    best = minimize_scalar(cost, bounds=(-8, 8), method="bounded").x
    assert np.log(likeliest_scale(distances, class_ids)) == pytest.approx(best, abs=0.07)


def test_classes_that_cannot_be_told_apart_get_a_small_scale_and_clear_ones_a_large() -> None:
    class_ids = torch.arange(5).repeat_interleave(5)
    same = 1 + 0.1 * torch.rand(25, 5, generator=torch.Generator().manual_seed(0))
    probs = torch.softmax(-likeliest_scale(same, class_ids) * same, 1)
    assert probs.amax() < 0.45
    clear = torch.where(torch.nn.functional.one_hot(class_ids).bool(), 1.0, 2.0)
    probs = torch.softmax(-likeliest_scale(clear, class_ids) * clear, 1)
    # All 25 right: (1 − δ) + δ/5 with δ = 1/27.
    assert probs.amax() == pytest.approx(1 - 0.8 / 27, abs=0.005)


def test_directions_know_neither_length_nor_task():
    features = torch.tensor([[4.0, 9.0, 0.0], [0.0, 0.25, 1.0], [-4.0, 1.0, 0.0]])
    found = directions(features)
    assert found[0].tolist() == pytest.approx([2 / 13**0.5, 3 / 13**0.5, 0])
    assert found[2].tolist() == pytest.approx([-2 / 5**0.5, 1 / 5**0.5, 0])
    assert torch.allclose(directions(7 * features), found)
    assert torch.allclose(directions(features[1:2]), found[1:2])
