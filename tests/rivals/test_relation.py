import pytest
import torch
import torch.nn.functional as F
from torch import nn

from appl.errors import SettingsError
from appl.rivals.relation import Relation
from tests.conftest import encoder_of_width, make_episode, make_small_encoder, small_meta


def head_of(width: int, **settings):
    torch.manual_seed(0)
    return Relation(**settings).build_head(encoder_of_width(width), 3)


@torch.no_grad()
def test_it_is_the_published_network_on_a_map_of_7() -> None:
    """Pairs put together as [class; query], blocks with a plain 2×2 pooling: 7 → 3 → 1."""
    head = head_of(4)
    classes, query = torch.randn(3, 4, 7, 7), torch.randn(5, 4, 7, 7)
    pairs = torch.stack([torch.cat([p, q]) for q in query for p in classes])
    for conv, norm, side in ((head.conv1, head.norm1, 3), (head.conv2, head.norm2, 1)):
        pairs = conv(pairs)
        mean, variance = pairs.mean((0, 2, 3)), pairs.var((0, 2, 3), correction=0)
        pairs = (pairs - mean.view(1, -1, 1, 1)) / (variance + norm.eps).sqrt().view(1, -1, 1, 1)
        pairs = nn.MaxPool2d(2)(pairs.relu())
        assert pairs.shape[2:] == (side, side)
    expected = head.score(pairs.flatten(1)).view(5, 3)
    torch.testing.assert_close(head(classes, query), expected, atol=1e-5, rtol=1e-4)


def test_the_head_has_the_published_size() -> None:
    n_parameters = sum(
        p.numel() for p in Relation().build_head(encoder_of_width(512), 5).parameters()
    )
    assert round(n_parameters / 1e6, 2) == 7.09


@pytest.mark.parametrize("sides", [(1, 1), (2, 3), (3, 3), (9, 8)])
@torch.no_grad()
def test_maps_of_any_size_can_be_compared(sides) -> None:
    scores = head_of(4)(torch.randn(3, 4, *sides), torch.randn(5, 4, *sides))
    assert scores.shape == (5, 3) and scores.isfinite().all()
    assert scores.std() > 0


@torch.no_grad()
def test_class_and_query_do_not_change_places() -> None:
    head = head_of(4, batch_norm="running").eval()
    one, other = torch.randn(1, 4, 3, 3), torch.randn(1, 4, 3, 3)
    assert not torch.allclose(head(one, other), head(other, one), atol=0, rtol=1e-3)


@torch.no_grad()
def test_a_class_is_the_mean_of_its_maps() -> None:
    """A support twice is a support once; two are their mean."""

    class FirstPosition(nn.Module):
        def forward(self, classes, query):
            return classes[:, 0, 0, 0].expand(len(query), -1)

    encoder, task = make_small_encoder(), make_episode(shots=[1, 2, 3]).task
    maps = encoder.encode(task.support, stop=2)[:, 0, 0, 0]
    scores = Relation().answer(encoder, FirstPosition(), task)
    expected = torch.stack([maps[task.class_ids == c].mean() for c in range(3)])
    torch.testing.assert_close(scores[0], expected)


def test_both_losses_by_hand() -> None:
    scores, ids = torch.tensor([[0.0, 2.0], [1.0, -1.0]]), torch.tensor([1, 0])
    s = torch.sigmoid(scores)
    squares = [s[0, 0] ** 2, (s[0, 1] - 1) ** 2, (s[1, 0] - 1) ** 2, s[1, 1] ** 2]
    assert Relation().loss(scores, ids).item() == pytest.approx(sum(squares).item() / 4)
    expected = -F.log_softmax(scores, 1)[[0, 1], [1, 0]].mean()
    assert Relation(loss_form="cross_entropy").loss(scores, ids) == pytest.approx(expected.item())


def test_an_encoder_without_maps_is_refused() -> None:
    from appl.encoders import from_module

    vectors = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    encoder = from_module(
        vectors, small_meta(width=3, stages=("whole",), max_frozen_stages=0, texture_stage=None)
    )
    with pytest.raises(SettingsError, match="gives vectors"):
        Relation().answer(encoder, head_of(3), make_episode().task)
