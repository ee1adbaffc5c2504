from functools import partial

import numpy as np
import pytest
import torch

from appl.core.distances import class_means
from appl.datasets.packed import PackedImages
from appl.errors import DataError
from appl.images.store import ImageArray
from appl.training.validation import check_validation_classes, validate
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
    options = dict(n_episodes=20, n_images=100)
    different = images([0, 60, 120, 180, 240], [20, 25, 30, 20, 40])
    assert validate(make_small_encoder(), different, CLASSES[:5], MEANS, **options) == (100, 0)
    equal = images([90] * 5, [20] * 5)
    accuracy, _ = validate(make_small_encoder(), equal, CLASSES[:5], MEANS, **options)
    assert accuracy == pytest.approx(20)  # all go to the same class


def test_the_prototypes_are_those_that_are_given(source):
    def turned_round(support, class_ids):
        return MEANS(support, class_ids).roll(1, 0)

    options = dict(n_episodes=10, n_images=20)
    right, _ = validate(make_small_encoder(), source, VALIDATION, MEANS, **options)
    wrong, _ = validate(make_small_encoder(), source, VALIDATION, turned_round, **options)
    assert right > 50 and wrong < 20


def test_validation_uses_remembered_statistics_and_changes_nothing(source):
    encoder = make_small_encoder().train()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    validate(encoder, source, VALIDATION, MEANS, n_episodes=2, n_images=20)
    assert all(torch.equal(before[name], value) for name, value in encoder.state_dict().items())


def test_too_little_to_validate_on_is_said_before_training(source):
    with pytest.raises(DataError, match="4 validation classes are too few"):
        check_validation_classes(source, CLASSES[:4])
    few = images([1, 2, 3, 4, 5], [20, 20, 19, 20, 20])
    with pytest.raises(DataError, match="'c2' has 19 images; episodes need 20"):
        check_validation_classes(few, CLASSES[:5])
