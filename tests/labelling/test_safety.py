import pytest
import torch

from appl.labelling.left_out import LeftOut
from appl.labelling.safety import collapse_reasons, worse_than_frozen
from appl.method.algorithm2 import IterationRecord


def record(iteration, balance=(0.5, 0.3, 0.2), n_label_changes=0):
    return IterationRecord(
        iteration, 0.5, 1.0, 1.0, 1.0, 0.1, 0.1, 0.9, n_label_changes, balance, 1.0,
        torch.zeros(20, dtype=torch.int64),
    )  # fmt: skip


def judged(right):
    """Left-out examples of class 0 of two; `right` says which are judged right."""
    right = torch.tensor(right)
    scores = torch.stack([right.float(), 1 - right.float()], 1)
    n = len(right)
    ids = torch.zeros(n, dtype=torch.int64)
    return LeftOut(torch.arange(n), ids, scores, torch.ones(n), torch.ones(n))


def test_a_calm_adaptation_is_trusted():
    records = [record(i, n_label_changes=10 - i) for i in range(10)]
    assert collapse_reasons(records, "finished", 100) == []
    assert collapse_reasons([], "finished", 100) == []


def test_a_class_that_swallows_the_pile_is_seen():
    records = [record(1), record(2, (0.05, 0.05, 0.9))]
    (reason,) = collapse_reasons(records, "finished", 100)
    assert reason == "one class swallowed the pile: it grew by 70% of all images to 90%"


def test_a_pile_that_was_of_one_class_from_the_start_is_no_collapse():
    assert collapse_reasons([record(1, (1.0, 0, 0)), record(2, (1.0, 0, 0))], "finished", 9) == []


def test_labels_that_keep_changing_are_seen():
    records = [record(i, n_label_changes=20) for i in range(10)]
    assert "labels kept changing: 20% an iteration" in collapse_reasons(records, "finished", 100)[0]


def test_an_early_end_is_said():
    assert collapse_reasons([record(1)], "the loss was not finite at iteration 2", 9) == [
        "the adaptation stopped: the loss was not finite at iteration 2"
    ]


@pytest.mark.parametrize(("n_lost", "is_worse"), [(0, False), (1, False), (4, True)])
def test_left_out_examples_that_fare_worse_are_seen(n_lost, is_worse):
    frozen = judged([True] * 10)
    adapted = judged([False] * n_lost + [True] * (10 - n_lost))
    assert (worse_than_frozen(adapted, frozen) is not None) == is_worse
    assert worse_than_frozen(frozen, adapted) is None


def test_without_examples_to_spare_nothing_is_compared():
    assert worse_than_frozen(judged([]), judged([])) is None
