import torch
from torch import nn

from appl.core.draws import content_draws, generator_draws
from appl.encoders import from_module
from appl.encoders.views import (
    AUGMENTED_AT_ONCE,
    DRAWS_PER_VIEW,
    PROBES,
    ViewCache,
    augment,
    tolerated_augmentations,
)
from tests.conftest import small_meta


class Pixels(nn.Module):
    """An encoder whose features are the pixels: it sees every change."""

    def forward(self, x):
        return nn.functional.adaptive_avg_pool2d(x, 6).flatten(1)


class Colours(nn.Module):
    """An encoder whose features are the mean colours: mirrors and turns leave it cold."""

    def forward(self, x):
        return x.mean((2, 3))


def encoder(module, width):
    return from_module(module, small_meta(width=width, stages=("whole",), max_frozen_stages=0))


def left_and_right(n=10):
    """Two classes that a mirror exchanges: bright on the left, bright on the right."""
    images = torch.rand(2 * n, 3, 12, 12, generator=torch.Generator().manual_seed(0)) * 0.3
    images[:n, :, :, :6] += 0.6
    images[n:, :, :, 6:] += 0.6
    return images, torch.tensor([0] * n + [1] * n)


def test_a_mirror_that_exchanges_classes_is_refused_and_a_harmless_flip_is_not():
    images, class_ids = left_and_right()
    kinds = tolerated_augmentations(encoder(Pixels(), 108), images, class_ids)
    assert "mirror" not in kinds and "quarter_turn" not in kinds
    assert "upside_down" in kinds


def test_what_the_encoder_cannot_see_is_bearable():
    images, class_ids = left_and_right()
    images[:10] *= torch.tensor([1.0, 0.2, 0.2]).view(3, 1, 1)
    kinds = tolerated_augmentations(encoder(Colours(), 3), images, class_ids)
    assert {"mirror", "upside_down", "quarter_turn"} <= set(kinds)


def test_views_keep_to_the_kinds_that_are_allowed():
    images, _ = left_and_right(50)
    draws = generator_draws(100, torch.Generator().manual_seed(0))
    plain = augment(images, [], draws)
    assert (plain[:50, :, :, :5].mean((1, 2, 3)) > plain[:50, :, :, 7:].mean((1, 2, 3))).all()
    mirrored = augment(images, ["mirror"], draws)
    left = mirrored[:50, :, :, :5].mean((1, 2, 3)) > mirrored[:50, :, :, 7:].mean((1, 2, 3))
    assert 10 < left.sum() < 40


def test_the_cache_draws_changed_views_and_keeps_the_clean_one():
    images, _ = left_and_right()
    draws = generator_draws(20, torch.Generator().manual_seed(0))
    cache = ViewCache.fill(images, lambda x: 2 * x, n_views=3, kinds=[], draws=draws)
    assert torch.equal(cache.clean, 2 * images)
    drawn = cache.pick(draws)
    from_view = [(drawn == view).flatten(1).all(1) for view in cache.maps]
    assert not from_view[0].any()
    assert (from_view[1] ^ from_view[2]).all() and from_view[1].any() and from_view[2].any()
    single = ViewCache.fill(images, lambda x: x, n_views=1, kinds=[], draws=draws)
    assert torch.equal(single.pick(draws), images)


def test_one_view_uses_the_draws_that_are_set_aside_for_it():
    images, _ = left_and_right()
    for kinds in ([], list(PROBES)):
        draws = content_draws(images, DRAWS_PER_VIEW, seed=0)
        augment(images, kinds, draws)
        assert next(draws, None) is None


def test_views_made_in_parts_are_those_made_at_once():
    images = torch.rand(
        AUGMENTED_AT_ONCE + 7, 3, 12, 12, generator=torch.Generator().manual_seed(0)
    )
    kinds = list(PROBES)
    draws = content_draws(images, 2 * DRAWS_PER_VIEW, seed=0)
    cache = ViewCache.fill(images, lambda view: view, n_views=3, kinds=kinds, draws=draws)
    again = content_draws(images, 2 * DRAWS_PER_VIEW, seed=0)
    for found in cache.maps[1:]:
        assert torch.equal(found, augment(images, kinds, again))
