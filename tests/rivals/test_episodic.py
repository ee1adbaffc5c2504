import pytest
import torch

from appl.core.episode import Task
from appl.errors import TaskError
from appl.rivals._episodic import check_n_way, query_cross_entropy, task_maps, task_vectors
from tests.conftest import make_episode, make_small_encoder


@pytest.mark.parametrize("encode", [task_vectors, task_maps])
def test_a_batch_norm_in_training_sees_the_episode_once_and_whole(encode) -> None:
    task = make_episode(shots=[1, 2, 3], noise=0.3).task
    encoder, other = make_small_encoder().train(), make_small_encoder().train()
    support, query = encode(encoder, task)
    assert (len(support), len(query)) == (6, 12)
    expected = other.run(other.normalise(torch.cat([task.support, task.query])))
    expected = expected if encode is task_maps else expected.mean((2, 3))
    torch.testing.assert_close(torch.cat([support, query]), expected)
    assert int(encoder.stages[0][1].num_batches_tracked) == 1


def test_cross_entropy_by_hand() -> None:
    scores = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    e = torch.e
    expected = (torch.log(torch.tensor((1 + e) / e)) + torch.log(torch.tensor(1 + e**2))) / 2
    assert query_cross_entropy(scores, torch.tensor([1, 1])).item() == pytest.approx(
        expected.item(), rel=1e-5
    )


def test_the_number_of_classes_must_be_the_heads() -> None:
    task = Task(torch.rand(2, 3, 12, 12), torch.tensor([0, 1]), torch.rand(1, 3, 12, 12))
    check_n_way(2, task)
    with pytest.raises(TaskError, match="train one for 2"):
        check_n_way(5, task)
