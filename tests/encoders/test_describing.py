"""From images to the vectors that an answer is made from."""

import pytest
import torch
import torch.nn.functional as F

from appl.core.compute import Compute
from appl.encoders import Describer
from appl.encoders.describing import describe_maps, resized
from tests.conftest import WIDTH, make_small_encoder
from tests.token_encoder import make_token_encoder


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.rand(7, 3, 24, 24, generator=torch.Generator().manual_seed(0))


def vectors(encoder, images) -> list[torch.Tensor]:
    with torch.no_grad():
        return encoder.describe(encoder.normalise(images))


def assert_kinds(found, expected) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_encoders_side_by_side_give_what_each_gives_alone_at_its_size(images):
    first, second = make_small_encoder(), make_token_encoder()
    both = Describer((first, second), (12, 16), texture_weight=0.25)
    found = both.in_parts(images)
    small, large = (
        F.interpolate(images, [px, px], mode="bilinear", antialias=True) for px in (12, 16)
    )
    assert_kinds(found, [*vectors(first, small), *vectors(second, large)])
    assert [kind.shape for kind in found] == [(7, WIDTH), (7, 4), (7, 8), (7, 8)]
    assert both.weights == (1.0, 0.25, 1.0, 0.25)
    assert both.image_px == 16
    alone = [
        Describer((encoder,), (px,), texture_weight=0.25).in_parts(images)
        for encoder, px in ((first, 12), (second, 16))
    ]
    assert_kinds(found, [*alone[0], *alone[1]])
    # The order of the encoders is that of the vectors, and their sizes go with them.
    turned = Describer((second, first), (16, 12), texture_weight=0.25).in_parts(images)
    assert_kinds(turned, [*found[2:], *found[:2]])
    assert not torch.allclose(vectors(first, large)[0], found[0], rtol=1e-2)


def test_texture_counts_for_the_encoders_that_have_it(images):
    first, second = make_small_encoder(texture_stage=None), make_small_encoder()
    both = Describer((first, second), (0, 0), texture_weight=0.5)
    assert both.weights == (1.0, 1.0, 0.5)
    assert_kinds(both.in_parts(images), [*vectors(first, images), *vectors(second, images)])
    plain = Describer((first, second), (0, 0))
    assert plain.weights == (1.0, 1.0)
    features = [vectors(first, images)[0], vectors(second, images)[0]]
    assert_kinds(plain.in_parts(images), features)


@pytest.mark.parametrize("texture_weight", [0.0, 0.5])
def test_mirrored_is_the_mean_of_an_image_and_its_mirror_image(images, texture_weight):
    encoder = make_small_encoder()
    found = Describer((encoder,), (0,), True, texture_weight).in_parts(images)
    plain = Describer((encoder,), (0,), False, texture_weight)
    seen, mirrored = plain.in_parts(images), plain.in_parts(images.flip(3))
    assert_kinds(found, [(a + b) / 2 for a, b in zip(seen, mirrored, strict=True)])
    assert len(found) == (2 if texture_weight else 1)
    assert not torch.allclose(seen[0], mirrored[0], rtol=1e-2)


@pytest.mark.parametrize("parts", [1, 3, 100, [2, 5]])
def test_parts_give_what_one_call_gives(images, parts):
    encoders = (make_small_encoder(), make_token_encoder())
    describer = Describer(encoders, (12, 16), mirrored=True, texture_weight=0.5)
    whole = describer(images)
    assert any(kind.requires_grad for kind in whole)
    found = describer.in_parts(images, parts)
    assert not any(kind.requires_grad for kind in found)
    assert_kinds(found, [kind.detach() for kind in whole])


def test_uint8_and_float_pixels_are_described_alike(images):
    whole = (images * 255).round().to(torch.uint8)
    for px in (0, 12):
        describer = Describer((make_small_encoder(),), (px,), mirrored=True, texture_weight=0.5)
        assert_kinds(describer.in_parts(whole), describer.in_parts(whole.float() / 255))


def test_an_image_of_the_right_size_is_not_touched(images):
    assert resized(images, 0) is images and resized(images, 24) is images
    assert resized(images, 48).shape == (7, 3, 48, 48)
    assert resized(images[:, :, :20], 20).shape == (7, 3, 20, 20)
    flat = torch.full((1, 3, 30, 20), 0.25)
    torch.testing.assert_close(resized(flat, 8), torch.full((1, 3, 8, 8), 0.25))


@pytest.mark.parametrize("with_texture", [True, False])
def test_cached_maps_give_what_the_images_give(images, with_texture):
    encoder = make_token_encoder()
    views = [encoder.encode(view, 1) for view in (images, images.flip(3))]
    found = describe_maps(encoder, views, 1, with_texture=with_texture)
    weight = 0.5 if with_texture else 0.0
    assert_kinds(found, Describer((encoder,), (0,), True, weight).in_parts(images))


def test_all_encoders_take_on_a_precision(images):
    encoders = (make_small_encoder(), make_small_encoder(seed=1))
    describer = Describer(encoders, (0, 0))
    exact = describer.in_parts(images)
    assert describer.place(Compute(torch.device("cpu"), torch.bfloat16)) is describer
    rounded = describer.in_parts(images)
    for one, other in zip(exact, rounded, strict=True):
        assert not torch.equal(one, other) and torch.allclose(one, other, atol=0.1)


def test_as_many_sizes_as_encoders(images):
    with pytest.raises(ValueError, match="shorter"):
        Describer((make_small_encoder(), make_small_encoder()), (12,))(images)
