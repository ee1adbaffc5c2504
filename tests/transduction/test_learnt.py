"""The learnt answer of a task: the shipped network, the class prior that is held, any image."""

import pytest
import torch

from appl.core.methods import METHODS
from appl.settings.solving import AnswerSettings, InformationSettings
from appl.transduction.answer import fit_rule, held_evenness, hold_class_prior, weigh_together
from appl.transduction.learnt import NETWORKS, LearntRule, network_card, shipped_network
from appl.transduction.placing import Described
from tests.transduction.test_answer import CLASS_IDS, kinds

ANSWER = AnswerSettings(rule="learnt", teacher="learnt")


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_ships_with_its_card(name):
    network, card = shipped_network(name), network_card(name)
    assert not network.training and not any(p.requires_grad for p in network.parameters())
    assert "test classes" in card["trained_on"] and card["history"][-1]["step"] >= 1000
    # It has learnt something: it is no longer the fixed rule.
    assert (network.steps[:, :, 1:].abs() > 0.01).float().mean() > 0.5


def test_labels_of_the_pile_are_its_scores():
    task = kinds(1.0, 0.5)
    rule = fit_rule(task, CLASS_IDS, "learnt", ANSWER)
    assert isinstance(rule, LearntRule)
    h = weigh_together("learnt", task, CLASS_IDS, ANSWER)
    scores = rule.scores(rule.place([kind.query for kind in task]))
    torch.testing.assert_close(-h, torch.log_softmax(scores, 1))


def test_distances_are_those_that_scores_are_made_of():
    task = kinds(1.0)
    rule = fit_rule(task, CLASS_IDS, "learnt", ANSWER)
    placed = rule.place([task[0].query])
    torch.testing.assert_close(placed.norm(dim=1), torch.ones(9))
    expected = -rule.found.temperature / 2 * rule.distances(placed) + rule.found.biases
    torch.testing.assert_close(rule.scores(placed), expected)


def test_an_image_that_comes_later_is_judged_by_itself():
    task = kinds(1.0)
    rule = fit_rule(task, CLASS_IDS, "learnt", ANSWER)
    later = [task[0].query[:1]]
    torch.testing.assert_close(
        rule.scores(rule.place(later)), rule.scores(rule.place([task[0].query]))[:1]
    )


def test_a_class_prior_that_is_held_reaches_the_network():
    assert held_evenness(InformationSettings()) is None
    for weight, expected in ((0.03, 0.0), (1.0, 1.0), (0.515, 0.5), (3.0, 1.0)):
        held = InformationSettings(marginal_weight=weight, least_marginal_weight=weight)
        assert held_evenness(held) == pytest.approx(expected)
    task = kinds(1.0)
    information = hold_class_prior(task, CLASS_IDS, InformationSettings())
    held_answer = AnswerSettings(rule="learnt", information=information)
    first = fit_rule(task, CLASS_IDS, "learnt", held_answer)
    again = LearntRule.fit(task, CLASS_IDS, "tpcn-1", held_evenness(information))
    for a, b in zip(first.found, again.found, strict=True):
        torch.testing.assert_close(a, b)


def test_the_row_is_the_rule_on_features():
    task = kinds(1.0)[0]
    row = METHODS.get("transductive_pcn")()
    expected = -weigh_together("learnt", [Described(task.support, task.query)], CLASS_IDS, ANSWER)
    torch.testing.assert_close(row.scores(task.support, CLASS_IDS, task.query), expected)
