import math

import pytest
import torch
from torch import nn

from appl.core.distances import class_means
from appl.core.information import information_scores
from appl.rivals.information_fine_tune import InformationFineTune, mutual_information
from tests.conftest import make_episode, make_small_encoder


def test_information_by_hand() -> None:
    certain = torch.eye(4) * 100
    assert mutual_information(certain).item() == pytest.approx(math.log(4), abs=1e-5)
    assert mutual_information(torch.zeros(6, 4)).item() == pytest.approx(0, abs=1e-6)
    one_class = torch.zeros(6, 4)
    one_class[:, 2] = 100
    assert mutual_information(one_class).item() == pytest.approx(0, abs=1e-5)


def test_without_steps_it_is_the_nearest_mean_of_unit_features() -> None:
    encoder, task = make_small_encoder(), make_episode(noise=0.3).task
    found = InformationFineTune(n_steps=0).solve(encoder, nn.Identity(), task).scores
    support, query = (
        nn.functional.normalize(encoder.encode(part)) for part in (task.support, task.query)
    )
    expected = information_scores(query, class_means(support, task.class_ids, 3), 15.0)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("batch_norm", ["keep", "follow"])
def test_steps_gain_information_and_use_all_classes(batch_norm: str) -> None:
    encoder, episode = make_small_encoder(), make_episode(noise=0.3, n_query=8)
    method = InformationFineTune(rate=5e-3, batch_norm=batch_norm)
    solution = method.solve(encoder, nn.Identity(), episode.task)
    before, after = solution.record["information"]
    assert after > before + 0.1
    assert len(solution.scores.argmax(1).unique()) == 3
