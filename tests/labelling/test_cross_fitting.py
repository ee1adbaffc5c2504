from types import SimpleNamespace

import pytest
import torch

from appl.core.episode import Task
from appl.labelling.cross_fitting import cross_fitted
from appl.transduction.placing import Described
from tests.labelling.test_left_out import nearest_mean


def make_task(shots, n_query=12):
    ids = torch.repeat_interleave(torch.arange(len(shots)), torch.tensor(shots))
    # An image is its own number, so that a test can see which one is where.
    support = torch.arange(len(ids)).float().view(-1, 1, 1, 1).expand(-1, 3, 1, 1)
    query = 100 + torch.arange(n_query).float().view(-1, 1, 1, 1).expand(-1, 3, 1, 1)
    return Task(support, ids, query)


def vectors_of(images):
    return images[:, :, 0, 0]


@pytest.mark.parametrize("shots", [[4, 5, 1], [12, 3, 2]])
def test_no_example_is_judged_by_an_encoder_that_knew_its_label(shots):
    task = make_task(shots)
    n = sum(shots)
    labelled, judged = [], []

    def adapt_task(reduced):
        labelled.append(set(reduced.support[:, 0, 0, 0].tolist()))
        everything = labelled[-1] | set(reduced.query[:, 0, 0, 0].tolist())
        assert everything >= set(range(n)) and len(reduced.query) + len(labelled[-1]) == n + 6
        return SimpleNamespace(known=labelled[-1])

    def describe_task(adaptation, whole):
        describe_task.known = adaptation.known
        return [Described(vectors_of(whole.support), 1 + vectors_of(whole.query))]

    def refit(kinds, class_ids):
        out = set(range(n)) - set(kinds[0].support[:, 0].tolist())
        if kinds[0].query[0, 0] == 101:  # the adapted encoder's features, not the frozen one's
            judged.append(out)
            assert not out & describe_task.known
        return nearest_mean(kinds, class_ids)

    frozen = [Described(vectors_of(task.support), vectors_of(task.query))]
    found = cross_fitted(task, 6, frozen, adapt_task, describe_task, refit)
    spared = [row for row in range(n) if shots != [4, 5, 1] or row < 9]
    assert found.left_out.rows.tolist() == spared  # the only example of its class is never out
    assert found.adapted.rows.tolist() == found.frozen.rows.tolist() == spared
    assert len(labelled) == 5 and {row for out in judged for row in out} == set(spared)
    assert found.left_out.class_ids.tolist() == task.class_ids[spared].tolist()


def test_the_frozen_encoder_is_asked_with_as_many_labels():
    task = make_task([5, 5])
    sizes = []

    def refit(kinds, class_ids):
        sizes.append(len(class_ids))
        return nearest_mean(kinds, class_ids)

    frozen = [Described(vectors_of(task.support), vectors_of(task.query))]
    cross_fitted(task, 6, frozen, lambda reduced: reduced, lambda _, whole: frozen, refit)
    assert sizes == [8] * 15  # five folds: all others, the known ones, the frozen encoder's


def test_with_single_examples_there_is_nothing_to_judge():
    found = cross_fitted(make_task([1, 1]), 6, [], None, None, nearest_mean).left_out
    assert len(found) == 0 and found.scores.shape == (0, 2)
