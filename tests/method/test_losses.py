import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from appl.core.distances import class_probs, squared_distances
from appl.method.losses import (
    cohesion_loss,
    cross_entropy_loss,
    select_confident,
    self_training_loss,
    separation_loss,
)

PROTOTYPES = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 2.0]])
DISTANCES = squared_distances(torch.tensor([[0.0, 1.0], [3.0, 3.0], [1.0, 2.0]]), PROTOTYPES)
CLASS_IDS = torch.tensor([0, 1, 2])

pytestmark = pytest.mark.golden


def test_cross_entropy_by_hand():
    assert cross_entropy_loss(DISTANCES, CLASS_IDS, "sum").item() == pytest.approx(0.71231565)
    assert cross_entropy_loss(DISTANCES, CLASS_IDS, "mean").item() == pytest.approx(0.23743855)


def test_separation_by_hand():
    assert separation_loss(PROTOTYPES, "unordered").item() == pytest.approx(1 / 42)
    assert separation_loss(PROTOTYPES, "ordered").item() == pytest.approx(1 / 84)


def test_equal_prototypes_give_a_finite_separation_loss_and_gradient():
    prototypes = torch.zeros(3, 2, requires_grad=True)
    loss = separation_loss(prototypes, "unordered")
    loss.backward()
    assert loss.isfinite() and prototypes.grad.isfinite().all()


def test_cohesion_by_hand():
    assert cohesion_loss(DISTANCES, CLASS_IDS, "sum").item() == pytest.approx(3)
    assert cohesion_loss(DISTANCES, CLASS_IDS, "mean").item() == pytest.approx(1)


def test_the_joint_losses_of_paper_and_release_by_hand():
    def joint(ce, pairs, lambda_dis):
        return (
            cross_entropy_loss(DISTANCES, CLASS_IDS, ce)
            + lambda_dis * separation_loss(PROTOTYPES, pairs)
            + 0.001 * cohesion_loss(DISTANCES, CLASS_IDS, "sum")
        ).item()

    assert joint("sum", "unordered", 0.1) == pytest.approx(0.71769661)
    assert joint("mean", "ordered", 1.0) == pytest.approx(0.25234331)


def test_five_classes_pass_the_threshold_at_a_gap_of_log_eight_thirds():
    def passes(gap):
        probs = class_probs(torch.tensor([[0.0, gap, gap, gap, gap]]))
        return bool(select_confident(probs, 0.4))

    assert not passes(math.log(8 / 3) - 1e-4)
    assert passes(math.log(8 / 3) + 1e-4)


def test_the_threshold_is_strict():
    probs = torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    assert select_confident(probs, 0.75).tolist() == [False, False]
    assert select_confident(probs, 0.5).tolist() == [True, False]


def self_training(distances, probs, threshold=0.4, pseudo_labels="soft", reduction="sum"):
    return self_training_loss(
        distances, probs, threshold, pseudo_labels=pseudo_labels, reduction=reduction
    )


def test_self_training_sums_the_confident_queries_only():
    probs = torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.4, 0.3], [0.2, 0.2, 0.6]])
    log_p = torch.log_softmax(-DISTANCES, 1)
    first, third = -(probs[0] * log_p[0]).sum(), -(probs[2] * log_p[2]).sum()
    total = (first + third).item()
    assert self_training(DISTANCES, probs).item() == pytest.approx(total)
    mean = self_training(DISTANCES, probs, reduction="mean_selected").item()
    assert mean == pytest.approx(total / 2)
    mean = self_training(DISTANCES, probs, reduction="mean_all").item()
    assert mean == pytest.approx(total / 3)
    hard = self_training(DISTANCES, probs, pseudo_labels="hard").item()
    assert hard == pytest.approx((-log_p[0, 0] - log_p[2, 2]).item())


@pytest.mark.parametrize("reduction", ["sum", "mean_selected", "mean_all"])
def test_an_empty_selection_is_zero_with_a_zero_gradient(reduction):
    distances = DISTANCES.clone().requires_grad_()
    loss = self_training(distances, torch.full((3, 3), 1 / 3), 0.4, reduction=reduction)
    loss.backward()
    assert loss.item() == 0
    assert (distances.grad == 0).all()


@given(st.integers(0, 1000))
def test_own_soft_labels_detached_give_a_zero_gradient(seed):
    """Without WMA a query's soft label is its own prediction: −Σ P log P pulls nowhere."""
    generator = torch.Generator().manual_seed(seed)
    distances = (5 * torch.rand(6, 4, generator=generator)).requires_grad_()
    self_training(distances, class_probs(distances).detach(), 0.0).backward()
    assert distances.grad.abs().max() < 1e-6
    hard = distances.detach().clone().requires_grad_()
    self_training(hard, class_probs(hard).detach(), 0.0, pseudo_labels="hard").backward()
    assert hard.grad.abs().max() > 1e-3
