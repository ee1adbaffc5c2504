import pytest
import torch
import torch.nn.functional as F

from appl.training.distillation import Teacher
from tests.conftest import make_small_encoder


@pytest.fixture
def taught():
    encoder = make_small_encoder()
    torch.manual_seed(0)
    return encoder, Teacher(encoder, 3), torch.rand(6, 3, 32, 32), torch.tensor([0, 1, 2, 0, 1, 2])


def test_a_student_that_answers_like_its_teacher_has_nothing_to_learn_from_it(taught):
    _, teacher, pixels, class_ids = taught
    scores = teacher.head(teacher.features(pixels)).detach()
    _, distance = teacher.losses(pixels, class_ids, scores, 4.0)
    assert distance.item() == pytest.approx(0, abs=1e-6)


@pytest.mark.golden
def test_the_distance_is_the_divergence_of_softened_probabilities(taught):
    _, teacher, pixels, class_ids = taught
    scores = torch.randn(6, 3)
    t = F.softmax(teacher.head(teacher.features(pixels)) / 4, 1)
    s = F.softmax(scores / 4, 1)
    by_hand = 16 * (t * (t / s).log()).sum(1).mean()
    _, distance = teacher.losses(pixels, class_ids, scores, 4.0)
    assert distance.item() == pytest.approx(by_hand.item(), rel=1e-5)


def test_only_the_head_of_the_teacher_learns_and_only_from_the_true_classes(taught):
    encoder, teacher, pixels, class_ids = taught
    scores = torch.randn(6, 3, requires_grad=True)
    head_loss, distance = teacher.losses(pixels, class_ids, scores, 4.0)
    distance.backward()
    assert scores.grad is not None and teacher.head.weight.grad is None
    head_loss.backward()
    assert teacher.head.weight.grad is not None
    assert [name for name, _ in teacher.named_parameters()] == ["head.weight", "head.bias"]
    before = teacher.features(pixels)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(1.0)
    assert torch.equal(teacher.features(pixels), before)  # the student's steps do not reach it
