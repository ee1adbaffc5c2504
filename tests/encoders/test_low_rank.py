"""Low-rank updates: nothing at the start, what they add is of their rank, merged they stay."""

import torch
from torch import nn

from appl.encoders import ENCODERS
from appl.encoders.low_rank import add_low_rank, merge_low_rank
from tests.token_encoder import make_token_encoder


def small_stages():
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(6, 8), nn.ReLU()), nn.Sequential(nn.Linear(8, 5))]


def test_an_encoder_starts_as_it_was():
    encoder = ENCODERS.get("resnet10").build().eval()
    pixels = torch.randn(2, 3, 64, 64)
    before = encoder(pixels)
    moving = add_low_rank(list(encoder.stages), 2, attention_only=False, seed=0)
    assert moving
    torch.testing.assert_close(encoder(pixels), before)


def test_the_change_has_the_rank_that_was_asked_for_and_stays_when_merged():
    stages = small_stages()
    rows = torch.randn(40, 6)
    before = [part[0].weight.detach().clone() for part in stages]
    moving = add_low_rank(stages, 2, attention_only=False, seed=0)
    adam = torch.optim.Adam(moving, lr=0.05)
    for _ in range(30):
        adam.zero_grad()
        nn.Sequential(*stages)(rows).square().mean().backward()
        adam.step()
    moved = nn.Sequential(*stages)(rows).detach()
    whole = nn.Sequential(*stages)
    merge_low_rank(whole)
    assert not any("parametrizations" in name for name, _ in whole.named_parameters())
    torch.testing.assert_close(whole(rows), moved)
    for part, old in zip(stages, before, strict=True):
        change = part[0].weight.detach() - old
        assert torch.linalg.matrix_rank(change, atol=1e-5) == 2


def test_updates_are_drawn_by_their_seed():
    first, again, other = (
        add_low_rank(small_stages(), 2, attention_only=False, seed=seed) for seed in (0, 0, 1)
    )
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_attention_only_leaves_the_rest_of_a_transformer():
    encoder = ENCODERS.get("dinov2_vits14").build()
    stage = encoder.stages[1]
    moving = add_low_rank([stage], 2, attention_only=True, seed=0)
    changed = {name.split(".parametrizations")[0] for name, p in stage.named_parameters() if
               any(p is one for one in moving)}  # fmt: skip
    assert changed == {"attention.qkv", "attention.proj"}


def test_a_network_without_attention_has_nothing_to_move_there():
    encoder = make_token_encoder()
    assert add_low_rank(list(encoder.stages), 2, attention_only=True, seed=0) == []
