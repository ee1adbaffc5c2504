"""The network sees inner products only, starts as the fixed rule, scores any image by itself."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from appl.core.information import (
    information_scores,
    information_weights,
    marginal_weight_for,
)
from appl.transduction.network import (
    FACTS,
    STEP,
    Found,
    TransductivePCN,
    principal_axes,
    task_facts,
)

SETTINGS = {
    "n_iterations": 40,
    "temperature": 15.0,
    "support_weight": 3.0,
    "conditional_weight": 0.1,
}


def make_task(
    seed: int = 0, n_shots: tuple[int, ...] = (3, 3, 3), n_query: int = 30, width: int = 20
) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(len(n_shots), width, generator=generator)
    class_ids = torch.arange(len(n_shots)).repeat_interleave(torch.tensor(n_shots))
    truth = torch.randint(len(n_shots), (n_query,), generator=generator)
    noise = torch.randn(len(class_ids) + n_query, width, generator=generator)
    vectors = F.normalize(centres[torch.cat([class_ids, truth])] + 1.2 * noise, dim=1)
    return vectors[: len(class_ids)], class_ids, vectors[len(class_ids) :]


def trained_network(seed: int = 0) -> TransductivePCN:
    """A network with numbers of its own, as if it had learnt something."""
    network = TransductivePCN(3)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return network.requires_grad_(False)


@pytest.mark.parametrize("n_shots", [(3, 3, 3), (1, 1), (1, 4, 2, 7)])
@torch.no_grad()
def test_untrained_it_is_the_fixed_rule(n_shots):
    support, class_ids, query = make_task(1, n_shots)
    found = TransductivePCN().forward(support, class_ids, query)
    weight = marginal_weight_for(
        support,
        class_ids,
        query,
        marginal_weight=1.0,
        least_marginal_weight=0.03,
        uneven_at=0.035,
        **SETTINGS,
    )
    weights = information_weights(support, class_ids, query, marginal_weight=weight, **SETTINGS)
    expected = torch.softmax(information_scores(query, weights), 1)
    torch.testing.assert_close(torch.softmax(found.scores(query), 1), expected, atol=0.05, rtol=0)


@pytest.mark.parametrize("width", [20, 60])  # fewer and more dimensions than images
def test_turning_all_vectors_changes_nothing(width):
    support, class_ids, query = make_task(2, width=width)
    turn = torch.linalg.qr(torch.randn(width, width, generator=torch.Generator().manual_seed(3))).Q
    network = trained_network()
    once = network(support, class_ids, query).scores(query)
    turned = network(support @ turn, class_ids, query @ turn).scores(query @ turn)
    torch.testing.assert_close(once, turned, atol=2e-3, rtol=1e-3)


def test_renamed_classes_and_shuffled_queries_follow():
    support, class_ids, query = make_task(4, (3, 3, 3))
    network = trained_network()
    expected = network(support, class_ids, query).scores(query)
    order = torch.randperm(len(query), generator=torch.Generator().manual_seed(0))
    shuffled = network(support, class_ids, query[order]).scores(query[order])
    torch.testing.assert_close(shuffled, expected[order], atol=1e-3, rtol=1e-3)
    new = torch.tensor([2, 0, 1])
    renamed = network(support, new[class_ids], query).scores(query)
    torch.testing.assert_close(renamed[:, new], expected, atol=1e-3, rtol=1e-3)


def test_tasks_solved_together_are_tasks_solved_one_by_one():
    tasks = [make_task(seed, (2, 2, 2)) for seed in (5, 6, 7)]
    support, class_ids, query = (torch.stack(parts) for parts in zip(*tasks, strict=True))
    network = trained_network()
    together = network(support, class_ids, query).scores(query)
    for number, (one_support, one_ids, one_query) in enumerate(tasks):
        alone = network(one_support, one_ids, one_query).scores(one_query)
        torch.testing.assert_close(together[number], alone, atol=1e-3, rtol=1e-3)


def test_an_image_is_scored_by_itself():
    support, class_ids, query = make_task(8)
    found = trained_network()(support, class_ids, query)
    together = found.scores(query)
    alone = torch.cat([found.scores(image[None]) for image in query])
    torch.testing.assert_close(alone, together, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_given_evenness_takes_the_place_of_the_estimate():
    support, class_ids, query = make_task(9)
    query = query[:12]
    network = TransductivePCN()
    shares = []
    for evenness in (0.0, 1.0):
        found = network.forward(support, class_ids, query, evenness)
        assert isinstance(found, Found)
        shares.append(torch.softmax(found.scores(query), 1).mean(0))
    uneven, even = (float((share - 1 / 3).abs().max()) for share in shares)
    assert even < uneven


@pytest.mark.parametrize("width", [4, 40])
def test_axes_keep_all_inner_products(width):
    vectors = torch.randn(2, 9, width, generator=torch.Generator().manual_seed(0))
    axes, variances = principal_axes(vectors)
    seen = vectors @ axes
    torch.testing.assert_close(seen @ seen.mT, vectors @ vectors.mT, atol=1e-4, rtol=1e-4)
    assert variances.amax(-1).tolist() == [1, 1] and (variances > 0).all()


def test_dropped_dimensions_and_copies_of_one_image_have_axes_too():
    generator = torch.Generator().manual_seed(0)
    few = torch.zeros(525, 512)
    few[:, :60] = torch.randn(525, 60, generator=generator)
    copies = torch.ones(30, 20)
    for vectors in (few, copies, torch.zeros(10, 8)):
        axes, variances = principal_axes(vectors)
        seen = vectors @ axes
        assert axes.isfinite().all() and variances.isfinite().all()
        torch.testing.assert_close(seen @ seen.mT, vectors @ vectors.mT, atol=1e-3, rtol=1e-4)


def test_facts_of_a_task_worked_out_by_hand():
    # Two classes on orthogonal axes, one support of the first among the second's.
    support = torch.tensor([[1.0, 0], [1, 0], [0, 1], [0, 1], [0, 1]])
    class_ids = torch.tensor([0, 0, 0, 1, 1])
    query = torch.tensor([[1.0, 0], [0, 1], [0, 1], [0, 1]])
    facts, evenness = task_facts(support, class_ids, query, torch.tensor([1.0, 0.5]))
    found = dict(zip(FACTS, facts.tolist(), strict=True))
    assert found["one"] == 1 and found["single"] == 0
    assert found["shots"] == pytest.approx(-0.6931, abs=1e-3)  # log(2.5 / 5)
    assert found["ways"] == pytest.approx(-0.9163, abs=1e-3)  # log(2 / 5)
    # Class means (2/3, 1/3) and (0, 1): 2/9 + 2/9 + 8/9 over five supports.
    assert found["within"] == pytest.approx(2 * (12 / 9) / 5 - 1, abs=1e-4)
    assert found["between"] == pytest.approx(2 * 8 / 9 - 1, abs=1e-4)
    # Left out, the first two stay nearer to (1/2, 1/2) than to (0, 1); the third does not.
    assert found["left_out"] == pytest.approx(2 * 4 / 5 - 1, abs=1e-4)
    assert 0 < float(evenness) < 1
    assert found["axes"] == pytest.approx(torch.tensor(1.5**2 / 1.25).log().item() / 2 - 1)


def test_a_class_of_one_example_has_none_to_leave_out():
    support, class_ids, query = make_task(10, (1, 1, 1))
    facts, _ = task_facts(support, class_ids, query, torch.ones(5))
    found = dict(zip(FACTS, facts.tolist(), strict=True))
    assert (found["single"], found["left_out"], found["margin"]) == (1, 0, 0)


def test_its_numbers_are_few_and_start_as_the_fixed_rules():
    network = TransductivePCN()
    assert sum(p.numel() for p in network.parameters()) < 5000
    temperature = network.steps[:, list(STEP).index("temperature"), 0].exp()
    torch.testing.assert_close(temperature, torch.full((8,), 15.0))
