from types import SimpleNamespace

import torch

from appl.core.episode import Task
from appl.labelling.cross_fitting import cross_fitted
from appl.method.answer import Described
from tests.labelling.test_left_out import nearest_mean


def make_task(shots, n_query=12):
    ids = torch.repeat_interleave(torch.arange(len(shots)), torch.tensor(shots))
    # An image is its own number, so that a test can see which one is where.
    support = torch.arange(len(ids)).float().view(-1, 1, 1, 1).expand(-1, 3, 1, 1)
    query = 100 + torch.arange(n_query).float().view(-1, 1, 1, 1).expand(-1, 3, 1, 1)
    return Task(support, ids, query)


def test_no_example_is_judged_by_an_encoder_that_knew_its_label():
    task = make_task([4, 5, 1])
    labelled, judged = [], []

    def adapt_task(reduced):
        labelled.append(set(reduced.support[:, 0, 0, 0].tolist()))
        everything = labelled[-1] | set(reduced.query[:, 0, 0, 0].tolist())
        assert everything >= set(range(10)) and len(reduced.query) + len(labelled[-1]) == 16
        return SimpleNamespace(known=labelled[-1])

    def describe_task(adaptation, whole):
        def refit(kinds, class_ids):
            out = set(range(10)) - set(kinds[0].support[:, 0].tolist())
            judged.append(out)
            assert not out & adaptation.known
            assert len(kinds[0].support) == 10 - len(out)  # all others speak: K − 1 shots
            return nearest_mean(kinds, class_ids)

        describe_task.refit = refit
        vectors = torch.cat([whole.support, whole.query])[:, :, 0, 0]
        return [Described(vectors[:10], vectors[10:])]

    found = cross_fitted(task, 6, adapt_task, describe_task, lambda k, i: describe_task.refit(k, i))
    assert len(labelled) == 2
    assert found.rows.tolist() == list(range(9))  # the only example of its class is never out
    assert sorted(row for out in judged for row in out) == list(range(9))
    assert found.class_ids.tolist() == [0] * 4 + [1] * 5


def test_with_single_examples_there_is_nothing_to_judge():
    found = cross_fitted(make_task([1, 1]), 6, None, None, nearest_mean)
    assert len(found) == 0 and found.scores.shape == (0, 2)
