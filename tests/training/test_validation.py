from functools import partial

import numpy as np
import pytest
import torch

from appl.core.distances import class_means, squared_distances
from appl.datasets.episodes import draw_episode
from appl.datasets.packed import PackedImages
from appl.errors import DataError
from appl.images.store import ImageArray
from appl.training.validation import ValidationEpisodes, check_validation_classes
from tests.conftest import make_small_encoder
from tests.training.conftest import CLASSES, VALIDATION

MEANS = partial(class_means, n_way=5)


def images(levels, counts):
    """Classes of one grey level each."""
    grey = np.repeat(np.array(levels), counts).astype(np.uint8)
    pixels = np.broadcast_to(grey[:, None, None, None], (len(grey), 12, 12, 3))
    ids = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    return PackedImages(ImageArray(pixels), ids, tuple(CLASSES[: len(counts)]), "x")


def test_classes_that_differ_are_told_apart_and_equal_ones_are_guessed():
    different = images([0, 60, 120, 180, 240], [20, 25, 30, 20, 40])
    episodes = ValidationEpisodes(different, CLASSES[:5], 20, 100)
    assert episodes.prototype_accuracy(make_small_encoder(), MEANS) == (100, 0)
    equal = images([90] * 5, [20] * 5)
    episodes = ValidationEpisodes(equal, CLASSES[:5], 20, 100)
    accuracy, _ = episodes.prototype_accuracy(make_small_encoder(), MEANS)
    assert accuracy == pytest.approx(20)  # all go to the same class


def test_the_prototypes_are_those_that_are_given(source):
    def turned_round(support, class_ids):
        return MEANS(support, class_ids).roll(1, 0)

    episodes = ValidationEpisodes(source, VALIDATION, 10, 20)
    right, _ = episodes.prototype_accuracy(make_small_encoder(), MEANS)
    wrong, _ = episodes.prototype_accuracy(make_small_encoder(), turned_round)
    assert right > 50 and wrong < 20


def test_validation_uses_remembered_statistics_and_changes_nothing(source):
    encoder = make_small_encoder().train()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    ValidationEpisodes(source, VALIDATION, 2, 20).prototype_accuracy(encoder, MEANS)
    assert all(torch.equal(before[name], value) for name, value in encoder.state_dict().items())


def test_a_method_that_sees_images_is_asked_on_the_same_episodes(source):
    """Nearest class means by hand, on the images, give the number of the shared features."""
    encoder = make_small_encoder()
    seen = []

    def answer(task):
        seen.append(task)
        support, query = encoder.encode(task.support), encoder.encode(task.query)
        return -squared_distances(query, MEANS(support, task.class_ids))

    episodes = ValidationEpisodes(source, VALIDATION, 10, 20)
    found, half_width = episodes.accuracy(answer)
    expected = episodes.prototype_accuracy(encoder, MEANS)
    assert (found, half_width) == pytest.approx(expected)
    assert 50 < found < 100 and half_width > 0
    assert [(t.n_way, t.n_support, t.n_query) for t in seen] == [(5, 25, 75)] * 10
    # The sampler is that of the benchmark, whose episodes are known by their number.
    for index, task in enumerate(seen):
        drawn = draw_episode(source, VALIDATION, n_way=5, n_shot=5, n_query=15, index=index)
        assert torch.equal(task.images(), drawn.load(source).task.images())


def test_a_head_of_other_tasks_gets_other_episodes(source):
    episodes = ValidationEpisodes(source, VALIDATION, 3, 20, n_way=3, n_shot=2)
    shapes = []

    def answer(task):
        shapes.append((task.n_way, task.n_support, task.n_query))
        return torch.eye(3)[[0] * 45]  # the first class, which a third of the queries are of

    assert episodes.accuracy(answer) == (pytest.approx(100 / 3), 0)
    assert shapes == [(3, 6, 45)] * 3


def test_mean_and_half_width_by_hand(source):
    """Episodes that are right in 75, 15 and 0 of 75 answers: 100, 20 and 0 per cent."""
    episodes = ValidationEpisodes(source, VALIDATION, 3, 20)
    truth = [draw.query_class_ids for draw in episodes.draws()]
    answers = iter([truth[0], torch.zeros_like(truth[1]), (truth[2] + 1) % 5])
    mean, half_width = episodes.accuracy(
        lambda _task: torch.nn.functional.one_hot(next(answers), 5).float()
    )
    assert mean == pytest.approx(40)
    assert half_width == pytest.approx(1.96 * ((60**2 + 20**2 + 40**2) / 3) ** 0.5 / 3**0.5)


def test_a_large_class_is_thinned_evenly():
    """21 of 81 images: every fourth from the first to the last."""
    data = images([0, 60, 120, 180, 240], [81] * 5)
    drawn = ValidationEpisodes(data, CLASSES[:5], 60, 21).draws()
    used = torch.cat([torch.cat([draw.support, draw.query]) for draw in drawn]).unique()
    assert used.tolist() == [81 * i + 4 * j for i in range(5) for j in range(21)]


def test_too_little_to_validate_on_is_said_before_training(source):
    with pytest.raises(DataError, match="4 validation classes are too few"):
        check_validation_classes(source, CLASSES[:4])
    few = images([1, 2, 3, 4, 5], [20, 20, 19, 20, 20])
    with pytest.raises(DataError, match="'c2' has 19 images; episodes need 20"):
        check_validation_classes(few, CLASSES[:5])
