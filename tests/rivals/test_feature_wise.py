import pytest
import torch
from torch import nn

from appl.core.seeds import generator_for
from appl.encoders import ENCODERS
from appl.encoders.resnet10 import BasicBlock
from appl.errors import SettingsError
from appl.rivals._feature_wise import feature_wise_transformation, noise_sites
from tests.conftest import make_small_encoder
from tests.token_encoder import make_token_encoder


@pytest.fixture(scope="module")
def resnet10():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ENCODERS.get("resnet10")()


@pytest.fixture(scope="module")
def pixels(resnet10):
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    return resnet10.normalise(images)


def test_seven_sites_in_resnet10(resnet10) -> None:
    sites = noise_sites(resnet10)
    assert [norm.num_features for norm in sites] == [64, 128, 128, 256, 256, 512, 512]
    expected = [block.norm2 for block in resnet10.stages[1:]]
    expected += [block.shortcut[1] for block in resnet10.stages[2:]]
    assert {id(norm) for norm in sites} == {id(norm) for norm in expected}


@torch.no_grad()
def test_evaluation_is_the_same_to_the_bit(resnet10, pixels) -> None:
    plain = resnet10.eval()(pixels)
    with feature_wise_transformation(resnet10, generator_for(0)):
        assert torch.equal(resnet10(pixels), plain)
        resnet10.train()
        assert not torch.allclose(resnet10(pixels), plain, atol=1e-2)


@torch.no_grad()
def test_nothing_is_left_after_the_episode_even_if_it_fails(resnet10, pixels) -> None:
    resnet10.train()
    plain = resnet10(pixels)
    with pytest.raises(ZeroDivisionError), feature_wise_transformation(resnet10, generator_for(0)):
        raise ZeroDivisionError
    assert torch.equal(resnet10(pixels), plain)


def test_the_published_distribution(resnet10) -> None:
    """Over ten thousand channels; the values of an unscaled softplus would be .85 and .97."""
    generator, draws = generator_for("noise"), []
    for _ in range(10):
        with feature_wise_transformation(resnet10, generator) as episode:
            draws += episode
    gamma, beta = (torch.cat(parts) for parts in zip(*draws, strict=True))
    assert len(gamma) == 10 * 1856
    assert gamma.mean().item() == pytest.approx(1, abs=0.01)
    assert gamma.std().item() == pytest.approx(0.3, abs=0.01)
    assert beta.mean().item() == pytest.approx(0, abs=0.015)
    assert beta.std().item() == pytest.approx(0.5, abs=0.01)
    assert abs(torch.corrcoef(torch.stack([gamma, beta]))[0, 1]) < 0.03


@torch.no_grad()
def test_one_draw_serves_support_and_query(resnet10, pixels) -> None:
    """The same images as supports and queries, in one batch and in two, stay the same."""
    resnet10.train()
    with feature_wise_transformation(resnet10, generator_for(0)):
        support, query = resnet10(torch.cat([pixels, pixels])).chunk(2)
        torch.testing.assert_close(support, query)
        torch.testing.assert_close(resnet10(pixels), support, atol=1e-4, rtol=1e-4)
    with feature_wise_transformation(resnet10, generator_for(1)):
        assert not torch.allclose(resnet10(pixels), support, atol=1e-2)


@torch.no_grad()
def test_a_block_by_hand(resnet10) -> None:
    """After the second norm and the shortcut's, before the sum; not after the first norm."""
    block = resnet10.train().stages[2]
    assert isinstance(block, BasicBlock)
    x = torch.rand(2, 64, 8, 8)
    with feature_wise_transformation(resnet10, generator_for(0)) as draws:
        found = block(x)
    (gamma, beta), (side_gamma, side_beta) = (
        (g.view(1, -1, 1, 1), b.view(1, -1, 1, 1)) for g, b in draws[1:3]
    )
    y = block.norm2(block.conv2(block.norm1(block.conv1(x)).relu()))
    side = block.shortcut(x)
    expected = (gamma * y + beta + side_gamma * side + side_beta).relu()
    torch.testing.assert_close(found, expected)


def test_blocks_of_another_kind_end_in_the_last_norm_of_their_stage() -> None:
    encoder = make_small_encoder().train()
    assert noise_sites(encoder) == [stage[1] for stage in encoder.stages]
    pixels = torch.rand(4, 3, 12, 12)
    plain = encoder(pixels)
    with feature_wise_transformation(encoder, generator_for(0)):
        assert not torch.allclose(encoder(pixels), plain, atol=1e-2)


def test_an_encoder_without_batch_norms_is_refused() -> None:
    with (
        pytest.raises(SettingsError, match="test_tokens has no batch norms of maps"),
        feature_wise_transformation(make_token_encoder(), generator_for(0)),
    ):
        pass


def test_gradients_pass(resnet10, pixels) -> None:
    resnet10.train()
    with feature_wise_transformation(resnet10, generator_for(0)):
        resnet10(pixels).square().sum().backward()
    stem = resnet10.stages[0][0]
    assert isinstance(stem, nn.Conv2d) and stem.weight.grad.abs().sum() > 0
    resnet10.zero_grad()
