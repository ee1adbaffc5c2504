from pathlib import Path

import pytest
import torch
from PIL import Image

from appl.core.compute import Compute
from appl.core.episode import Episode
from appl.labelling.demo import load_demo_episode, run_demo
from appl.report.figures import draw_adaptation
from appl.settings import AdaptSettings
from appl.settings.files import with_changes
from tests.conftest import make_small_encoder


@pytest.fixture(scope="module")
def episode(tmp_path_factory) -> Episode:
    return load_demo_episode(tmp_path_factory.mktemp("demo"), 32, seed=1)


def test_the_task_is_ten_digits_five_examples_and_forty_scans_each(episode):
    assert episode.task.n_way == 10
    assert episode.task.class_ids.bincount().tolist() == [5] * 10
    assert episode.query_class_ids.bincount().tolist() == [40] * 10


def test_another_seed_in_the_same_folder_does_not_mix(tmp_path: Path):
    for seed in (0, 1, 0):
        task = load_demo_episode(tmp_path, 32, seed).task
        assert (task.n_support, task.n_query) == (50, 400)


def test_both_methods_are_measured_and_drawn(episode, tmp_path: Path):
    settings = with_changes(AdaptSettings.preset("robust"), n_iterations=3)
    seen = []
    result = run_demo(
        make_small_encoder(), episode, settings, Compute(torch.device("cpu"), None), seen.append
    )
    assert len(seen) == len(result.label_accuracies) == 3
    assert 0.1 < result.protonet_accuracy < 1 and 0.1 < result.appl_accuracy < 1
    path = tmp_path / "curve.png"
    draw_adaptation(
        path, seen, result.label_accuracies, result.protonet_accuracy, result.appl_accuracy
    )
    assert Image.open(path).size == (1650, 510)
