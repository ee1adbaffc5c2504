import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import Ridge

from appl.errors import SettingsError
from appl.rivals._simplex_qp import svm_dual
from appl.rivals.meta_opt import MetaOpt, Scale
from tests.conftest import WIDTH, encoder_of_width, make_episode, make_small_encoder


@torch.no_grad()
def encoded(task):
    encoder = make_small_encoder()
    return encoder, encoder.encode(task.support).double(), encoder.encode(task.query).double()


@torch.no_grad()
def test_the_ridge_head_is_scikit_learns_ridge_regression() -> None:
    task = make_episode(noise=0.3).task
    encoder, support, query = encoded(task)
    labels = F.one_hot(task.class_ids, 3).numpy()
    machine = Ridge(alpha=2.0, fit_intercept=False).fit(support.numpy(), labels)
    scores = MetaOpt(head="ridge", features="raw", penalty=2.0).answer(encoder, Scale(), task)
    np.testing.assert_allclose(scores.numpy(), machine.predict(query.numpy()), atol=1e-5)


@torch.no_grad()
def test_scores_are_those_of_the_dual_times_gamma() -> None:
    task = make_episode(noise=0.3).task
    encoder, support, query = encoded(task)
    z, q = (5 * x / x.norm(dim=1, keepdim=True) for x in (support, query))
    alpha = svm_dual(z @ z.mT + 2 * torch.eye(15), task.class_ids, 3, 0.2)
    head = Scale()
    head.gamma.fill_(3.0)
    scores = MetaOpt(length=5.0, smoothing=2.0, bound=0.2).answer(encoder, head, task)
    torch.testing.assert_close(scores, (3 * q @ z.mT @ alpha).float(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("head", ["svm", "ridge"])
@torch.no_grad()
def test_classes_that_can_be_told_apart_are(head: str) -> None:
    """Asked for its own supports, a linear machine on separable features errs nowhere."""
    episode = make_episode(noise=0.02)
    task = type(episode.task)(episode.task.support, episode.task.class_ids, episode.task.support)
    scores = MetaOpt(head=head, bound=10.0, penalty=0.1).answer(make_small_encoder(), Scale(), task)
    assert torch.equal(scores.argmax(1), task.class_ids)


def test_unit_features_forget_their_length() -> None:
    """A brighter domain, with features twice as long, gets the same answers."""
    task = make_episode(noise=0.3).task
    encoder, _, _ = encoded(task)
    scores = MetaOpt().answer(encoder, Scale(), task)
    raw = MetaOpt(features="raw").answer(encoder, Scale(), task)
    with torch.no_grad():
        encoder.stages[1][1].weight *= 2
        encoder.stages[1][1].bias *= 2
    torch.testing.assert_close(MetaOpt().answer(encoder, Scale(), task), scores)
    assert not torch.allclose(MetaOpt(features="raw").answer(encoder, Scale(), task), raw)


def test_a_kernel_that_may_be_singular_is_refused() -> None:
    with pytest.raises(SettingsError, match="smoothing"):
        MetaOpt(smoothing=0.0)


def test_gamma_is_all_the_head_has() -> None:
    (gamma,) = MetaOpt().build_head(encoder_of_width(WIDTH), 5).parameters()
    assert gamma.shape == () and gamma.item() == 1.0
