import torch
import torch.nn.functional as F

from appl.rivals import lrp_can
from appl.rivals._relevance import start_relevance
from appl.rivals.can import CAN
from appl.rivals.lrp_can import LRPCAN
from tests.conftest import make_episode, make_small_encoder


def prepare():
    encoder, episode, method = make_small_encoder(), make_episode(noise=0.3), LRPCAN()
    torch.manual_seed(0)
    head = method.build_head(encoder, 3).eval()
    return method, encoder, head, episode


@torch.no_grad()
def test_relevance_is_conserved_from_scores_to_channels_to_positions() -> None:
    method, encoder, head, episode = prepare()
    maps, pairs, _ = method.attended(encoder, head, episode)
    of_channels, of_positions = method.relevance(maps, pairs, 1e-9)
    start = start_relevance(method.scores_of(pairs))
    torch.testing.assert_close(of_channels.sum(2), start, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(of_positions.sum(3), of_channels, atol=1e-4, rtol=1e-3)
    assert of_positions.shape == (12, 3, 6, 9)


@torch.no_grad()
def test_a_channel_has_the_share_of_its_product() -> None:
    method, encoder, head, episode = prepare()
    maps, pairs, _ = method.attended(encoder, head, episode)
    of_channels, _ = method.relevance(maps, pairs, 1e-9)
    q, p = (F.normalize(side[4, 1], dim=0) for side in (pairs.queries, pairs.classes))
    share = q * p / (q @ p)
    torch.testing.assert_close(of_channels[4, 1] / of_channels[4, 1].sum(), share)


def test_without_relevance_it_is_its_host(monkeypatch) -> None:
    method, encoder, head, episode = prepare()
    host = CAN().training_loss(encoder, head, episode).loss
    assert not torch.allclose(method.training_loss(encoder, head, episode).loss, host, rtol=1e-3)
    monkeypatch.setattr(lrp_can, "start_relevance", torch.zeros_like)
    torch.testing.assert_close(method.training_loss(encoder, head, episode).loss, host)


@torch.no_grad()
def test_a_test_is_the_hosts() -> None:
    _, encoder, head, episode = prepare()
    for inference in ("inductive", "transductive"):
        pair = [
            kind(inference=inference).answer(encoder, head, episode.task) for kind in (CAN, LRPCAN)
        ]
        assert torch.equal(*pair)
