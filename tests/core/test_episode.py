import pytest
import torch

from appl.core.episode import Episode, Task
from appl.errors import TaskError

IMAGES = torch.zeros(4, 3, 8, 8)


@pytest.mark.parametrize(
    ("support", "class_ids", "query", "message"),
    [
        (IMAGES, [0, 1, 1], IMAGES, "4 support images have 3 labels"),
        (IMAGES[:0], [], IMAGES, "no support image"),
        (IMAGES, [0, 0, 0, 0], IMAGES, "one class"),
        (IMAGES, [0, 0, 2, 2], IMAGES, "class 1 of the task has no support"),
        (IMAGES, [0, 0, 1, 1], IMAGES[:0], "no query image"),
    ],
)
def test_a_task_that_cannot_be_solved_says_why(support, class_ids, query, message):
    with pytest.raises(TaskError, match=message):
        Task(support, torch.tensor(class_ids, dtype=torch.int64), query)


def test_accuracy_counts_right_answers():
    task = Task(IMAGES, torch.tensor([0, 0, 1, 1]), IMAGES)
    episode = Episode(task, torch.tensor([0, 1, 1, 0]))
    scores = torch.tensor([[1.0, 0], [1, 0], [0, 1], [1, 0]])
    assert episode.accuracy(scores) == 0.75
    with pytest.raises(TaskError, match="4 query images have 3 answers"):
        Episode(task, torch.tensor([0, 1, 1]))
