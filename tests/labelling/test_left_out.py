import pytest
import torch

from appl.core.distances import class_means
from appl.labelling.left_out import leave_out, turns_of
from appl.method.classifier import PrototypeRule
from appl.settings.solving import InformationSettings
from appl.transduction.answer import InformationRule
from appl.transduction.placing import Described


def nearest_mean(kinds, class_ids):
    means = class_means(kinds[0].support, class_ids, int(class_ids.max()) + 1)
    return PrototypeRule(means, 1.0)


def blobs(shots, spread=0.1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.repeat_interleave(torch.arange(len(shots)), torch.tensor(shots))
    centres = torch.eye(len(shots), 6)
    draw = lambda ids: (centres[ids] + spread * torch.randn(len(ids), 6, generator=generator)).abs()  # noqa: E731
    pile_ids = torch.arange(len(shots)).repeat(6)
    return [Described(draw(ids), draw(pile_ids))], ids


def test_every_example_is_left_out_once_one_of_a_class_at_a_time():
    ids = torch.tensor([0, 0, 0, 1, 1, 2])
    assert turns_of(ids).tolist() == [0, 1, 2, 0, 1, -1]


@pytest.mark.golden
def test_scores_are_those_of_a_rule_made_without_the_example():
    kinds, ids = blobs([3, 3, 2])
    found = leave_out(kinds, ids, nearest_mean)
    assert found.rows.tolist() == list(range(8))
    support = kinds[0].support
    # The second example of each class is left out together: rows 1, 4, 7.
    kept = [row for row in range(8) if row not in (1, 4, 7)]
    means = class_means(support[kept], ids[kept], 3)
    by_hand = -(support[4] - means).square().sum(1)
    assert torch.allclose(found.scores[4], by_hand, atol=1e-5)
    pile = torch.cdist(kinds[0].query, means).square().amin(1).median()
    assert found.to_class[4].item() == pytest.approx((-by_hand.max() / pile).item(), rel=1e-3)
    roots = [x.sign() * x.abs().sqrt() for x in (support, kinds[0].query)]
    units, seen = (x / x.norm(dim=1, keepdim=True) for x in roots)
    by_hand = (units[4] - units[kept]).square().sum(1).min()
    pile = torch.cdist(seen, units[kept]).square().amin(1).median()
    assert found.to_example[4].item() == pytest.approx((by_hand / pile).item(), rel=1e-2)


def test_a_left_out_example_joins_the_pile():
    seen = []

    def refit(kinds, class_ids):
        seen.append((len(kinds[0].support), len(kinds[0].query)))
        return nearest_mean(kinds, class_ids)

    kinds, ids = blobs([3, 3])
    leave_out(kinds, ids, refit)
    assert seen == [(4, 14)] * 3


def test_single_examples_have_none_to_spare():
    kinds, ids = blobs([1, 1, 1])
    found = leave_out(kinds, ids, nearest_mean)
    assert len(found) == 0 and found.scores.shape == (0, 3) and found.accuracy == 0


def test_a_wrong_example_is_seen_by_the_rule_of_robust():
    kinds, ids = blobs([6, 6, 6])
    support = kinds[0].support
    support[0] = support[6:12].mean(0)  # an example of class 1 among those of class 0
    found = leave_out(kinds, ids, lambda k, i: InformationRule.fit(k, i, InformationSettings()))
    judged = found.scores.argmax(1)
    assert judged[0] == 1
    assert (judged[1:] == ids[1:]).sum() >= 15  # it misleads a neighbour or two, no more
