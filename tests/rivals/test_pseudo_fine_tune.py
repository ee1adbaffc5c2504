import pytest
import torch
from torch import nn

from appl.core.distances import class_means
from appl.core.seeds import generator_for
from appl.rivals.pseudo_fine_tune import PseudoFineTune, changed
from tests.conftest import make_episode, make_small_encoder


@torch.no_grad()
def test_without_steps_it_is_the_nearest_class_mean() -> None:
    encoder, task = make_small_encoder(), make_episode(noise=0.3, shots=[1, 3, 5]).task
    found = PseudoFineTune(n_steps=0).solve(encoder, nn.Identity(), task).scores
    means = class_means(encoder.encode(task.support), task.class_ids, 3)
    expected = -torch.cdist(encoder.encode(task.query), means).square()
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_steps_lower_the_loss_and_help() -> None:
    encoder, episode = make_small_encoder(), make_episode(noise=0.3)
    solution = PseudoFineTune(n_steps=60, n_copies=2, rate=0.01).solve(
        encoder, nn.Identity(), episode.task
    )
    assert solution.record["loss"][-1] < 0.7 * solution.record["loss"][0]
    untrained = PseudoFineTune(n_steps=0).solve(encoder, nn.Identity(), episode.task)
    assert episode.accuracy(solution.scores) >= episode.accuracy(untrained.scores)


def test_each_change_has_its_chance() -> None:
    """On images by which a change can be told: which kinds of values, and where they stand."""
    n, rows = 4000, torch.linspace(0.2, 0.6, 8)
    image = torch.stack([rows.expand(8, 8), rows.expand(8, 8) + 0.2, rows.expand(8, 8) + 0.35])
    images = image.expand(n, 3, 8, 8)
    found = changed(images, generator_for("changes"))
    # What is erased is grey: the channels differ everywhere else.
    is_whole = (found.amax(1) - found.amin(1)).amin((1, 2)) > 1e-4
    is_clear = (found.amax((1, 2, 3)) - 0.95).abs() < 1e-5  # no gamma
    assert is_clear.float().mean().item() == pytest.approx(0.7, abs=0.03)
    assert is_whole.float().mean().item() == pytest.approx(0.5, abs=0.1)
    clean = found[is_clear & is_whole]
    order = clean.mean((2, 3)).argsort(1)
    in_order = (order == torch.arange(3)).all(1)
    # A shuffle happens to three in ten, and leaves one of six as it was.
    assert in_order.float().mean().item() == pytest.approx(1 - 0.3 * 5 / 6, abs=0.04)
    # Columns rise as they did unless mirrored or turned; rows do after odd turns.
    along_columns = (clean.diff(dim=3).abs() > 1e-4).all((1, 2, 3))
    assert along_columns.float().mean().item() == pytest.approx(1 - 0.5 * 2 / 3, abs=0.04)
    assert changed(images[:5], generator_for(1)).shape == (5, 3, 8, 8)
