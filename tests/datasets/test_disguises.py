"""Disguises change what is seen by hand-worked rules and keep the images' form."""

import pytest
import torch

from appl.datasets.disguises import DISGUISES, black_and_white, coarse, edges, other_colours

IMAGES = torch.randint(0, 256, (3, 3, 42, 42), generator=torch.Generator().manual_seed(0)).byte()


@pytest.mark.parametrize("name", DISGUISES)
def test_form_and_range_stay(name):
    changed = DISGUISES[name](IMAGES)
    assert changed.shape == IMAGES.shape and changed.dtype == torch.uint8
    assert torch.equal(changed, IMAGES) == (name == "plain")


def test_coarse_images_hold_the_means_of_their_parts():
    steps = torch.zeros(1, 3, 42, 42, dtype=torch.uint8)
    steps[..., 22:] = 200
    seen = coarse(steps)
    assert int(seen[0, 0, 10, 5]) == 0 and int(seen[0, 0, 10, 37]) == 200
    noise = coarse(IMAGES).float().std((2, 3))
    assert (noise < IMAGES.float().std((2, 3))).all()


def test_edges_are_where_brightness_changes():
    steps = torch.zeros(1, 3, 12, 12, dtype=torch.uint8)
    steps[..., 6:] = 90
    seen = edges(steps)[0, 0]
    assert seen[:, 5:7].eq(90).all() and seen[:, :4].eq(0).all() and seen[:, 8:].eq(0).all()


@pytest.mark.golden
def test_other_colours_by_hand():
    image = torch.tensor([0, 128, 255], dtype=torch.uint8).view(1, 3, 1, 1)
    assert other_colours(image).flatten().tolist() == [255, 0, 91]  # 255·(128/255)^1.5 = 90.7


def test_half_of_a_black_and_white_image_is_white():
    share = (black_and_white(IMAGES) == 255).float().mean((1, 2, 3))
    torch.testing.assert_close(share, torch.full((3,), 0.5), atol=0.02, rtol=0)
    assert set(black_and_white(IMAGES).unique().tolist()) == {0, 255}
