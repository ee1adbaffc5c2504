import torch

from appl.encoders import Encoder
from appl.rivals.fine_tune import FineTune
from appl.rivals.transductive_fine_tune import TransductiveFineTune
from tests.conftest import make_episode

PCN = torch.nn.Identity()


def test_it_undoes_a_change_of_brightness_and_contrast(small_encoder: Encoder) -> None:
    """Batch norms right behind a convolution: the queries' own statistics take out scale and shift.

    The pixels' margins are padded with zeros, so that the shift is undone only about.
    """
    episode = make_episode(n_query=20)
    task = episode.task
    dark = type(task)(task.support, task.class_ids, 0.35 * task.query + 0.1)
    settings = dict(n_epochs=20, head_rate=0.1)

    def accuracy(kind, of) -> float:
        return episode.accuracy(kind(**settings).solve(small_encoder, PCN, of).scores)

    assert accuracy(FineTune, task) > 0.9
    assert accuracy(FineTune, dark) < 0.8
    assert accuracy(TransductiveFineTune, dark) > 0.9


def test_without_an_epoch_it_is_the_head_on_features_by_batch_statistics(
    small_encoder: Encoder,
) -> None:
    task = make_episode().task
    scores = TransductiveFineTune(n_epochs=0).solve(small_encoder, PCN, task).scores
    norms = [m for m in small_encoder.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.train().momentum = 1.0
    pixels = small_encoder.normalise(task.query)
    small_encoder(pixels)  # remembers the statistics of the queries
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.eval().momentum = momentum
        # Remembered variances are those of a sample, batches are normalised by the plain one.
        n_values = len(pixels) * (36 if norm.num_features == 4 else 9)
        norm.running_var.mul_((n_values - 1) / n_values)
    expected = FineTune(n_epochs=0).solve(small_encoder, PCN, task).scores
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=1e-5)
