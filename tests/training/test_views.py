import pytest
import torch

from appl.errors import SettingsError
from appl.settings import MetaTrainSettings
from appl.settings.files import with_changes
from appl.training.episodes import draw_task
from appl.training.meta import train_meta
from appl.training.views import encode_views, views_of
from tests.conftest import make_small_encoder
from tests.training.conftest import TRAIN, VALIDATION, start_from
from tests.training.test_meta import SMALL, settings_of

FROZEN = dict(inner_steps=0, batch_norm="running", outer_rate=1e-3)


def test_a_view_is_a_function_of_image_and_number(source):
    index, view = torch.tensor([3, 40, 3, 40]), torch.tensor([0, 0, 1, 0])
    made = views_of(source, index, view)
    assert torch.equal(made[1], made[3])
    assert not torch.equal(made[0], made[2]) and not torch.equal(made[0], made[1])
    alone = views_of(source, index[2:3], view[2:3])
    torch.testing.assert_close(alone[0], made[2])


@pytest.mark.parametrize("views", [dict(n_views=3), dict(augment=False)], ids=["views", "plain"])
@pytest.mark.parametrize("preset", ["paper", "released", "robust"])
def test_training_on_features_equals_training_on_images(source, tmp_path, preset, views):
    """The fast path: the same tasks, losses and weights as when every task encodes its images."""
    settings = settings_of(preset, **FROZEN, **views)
    assert settings.learns_from_features
    fast = train_meta(start_from(), source, TRAIN, VALIDATION, settings, tmp_path / "fast")

    slow_start, epochs = start_from(), []
    from appl.training.meta import APPLTrainer, _first_pcn

    trainer = APPLTrainer(slow_start.encoder, _first_pcn(slow_start, settings), settings)
    for epoch in range(1, settings.n_epochs + 1):
        trainer.start_epoch()
        records = []
        for index in range(settings.n_tasks):
            episode = draw_task(source, TRAIN, settings, epoch, index)
            assert episode.task.support.dim() == 4
            records.append(trainer.learn(episode))
        losses = [record.loss for record in records]
        epochs.append(sum(losses) / len(losses))
    assert [e.tasks.loss for e in fast.history[1:]] == pytest.approx(epochs, rel=1e-4)
    torch.testing.assert_close(
        fast.trainer.pcn.linear.weight, trainer.pcn.linear.weight, rtol=1e-3, atol=2e-5
    )


def test_features_are_made_once_and_one_view_at_a_time(source, tmp_path):
    encoder = make_small_encoder().eval()
    told = []
    made = encode_views(
        encoder, "a", source, TRAIN, 2, tmp_path, lambda done, total: told.append((done, total))
    )
    n_images = 20 * len(TRAIN)
    assert told[-1] == (2 * n_images, 2 * n_images)
    index, view = torch.tensor([0, 25, 59]), torch.tensor([1, 0, 1])
    expected = encoder.encode(views_of(source, index, view))
    torch.testing.assert_close(made.of(index, view), expected)

    kept = sorted(tmp_path.glob("*.npy"))
    assert len(kept) == 2
    kept[1].unlink()
    told.clear()
    encode_views(
        encoder, "a", source, TRAIN, 2, tmp_path, lambda done, total: told.append((done, total))
    )
    assert [done for done, _ in told] == [2 * n_images]  # the second view alone
    assert sorted(tmp_path.glob("*.npy")) == kept


def test_only_where_the_encoder_stays_are_features_enough():
    fixed = with_changes(MetaTrainSettings(), **FROZEN, n_views=2)
    assert fixed.learns_from_features
    for change in (
        dict(inner_steps=1),
        dict(batch_norm="joint"),
        dict(trains="both"),
        dict(n_views=0),
    ):
        assert not with_changes(fixed, **change).learns_from_features
    with pytest.raises(SettingsError, match="n_views = 2 are augmented views"):
        with_changes(fixed, augment=False)


def test_validation_and_checkpoint_come_every_few_epochs(source, tmp_path):
    settings = settings_of("paper", **FROZEN, augment=False, n_epochs=5, validate_every=2)
    whole = train_meta(start_from(), source, TRAIN, VALIDATION, settings, tmp_path / "whole")
    assert [e.epoch for e in whole.history] == [0, 2, 4, 5]

    class Killed(Exception):
        pass

    def kill(done, _total, _record):
        if done == 3 * SMALL["n_tasks"] + 1:  # in the fourth epoch
            raise Killed

    place = (source, TRAIN, VALIDATION, settings, tmp_path / "parts")
    with pytest.raises(Killed):
        train_meta(start_from(), *place, on_task=kill)
    resumed = train_meta(start_from(), *place)
    assert resumed.history == whole.history
    assert torch.equal(resumed.trainer.pcn.linear.weight, whole.trainer.pcn.linear.weight)
