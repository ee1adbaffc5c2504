import torch
import torch.nn.functional as F

from appl.core.draws import generator_draws
from appl.core.images import central_crop, colour_jitter, luma, random_resized_crop, turn


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def draws(n, seed=0):
    return generator_draws(n, generator(seed))


def test_a_crop_of_the_whole_image_is_the_image():
    images = torch.rand(4, 3, 16, 16, generator=generator())
    whole = random_resized_crop(images, 16, draws(4), scale=(1, 1), ratio=(1, 1), mirror=False)
    torch.testing.assert_close(whole, images)


def test_half_of_the_whole_crops_are_mirrored():
    images = torch.rand(200, 3, 8, 8, generator=generator())
    crops = random_resized_crop(images, 8, draws(200), scale=(1, 1), ratio=(1, 1))
    plain = (crops - images).abs().amax((1, 2, 3)) < 1e-5
    mirrored = (crops - images.flip(3)).abs().amax((1, 2, 3)) < 1e-5
    assert (plain ^ mirrored).all()
    assert 70 <= mirrored.sum() <= 130


def test_a_crop_of_a_ramp_keeps_its_slope_and_stays_inside():
    ramp = torch.linspace(0, 1, 64).expand(1, 3, 64, 64)
    for seed in range(20):
        crop = random_resized_crop(ramp, 32, draws(1, seed), scale=(0.2, 0.5), mirror=False)
        columns = crop[0, 0, 16]
        assert (columns.diff() > 0).all()
        assert 0 <= columns[0] < columns[-1] <= 1


def test_central_crop_of_a_quarter_is_the_enlarged_middle():
    images = torch.rand(2, 3, 16, 16, generator=generator())
    middle = images[:, :, 4:12, 4:12]
    expected = F.interpolate(middle, size=16, mode="bilinear", align_corners=False)
    crop = central_crop(images, 0.25)
    # Away from the edge, where the enlarged middle cannot see beyond itself.
    torch.testing.assert_close(crop[:, :, 2:-2, 2:-2], expected[:, :, 2:-2, 2:-2])


def test_no_jitter_is_no_change_and_grey_stays_grey():
    images = torch.rand(3, 3, 8, 8, generator=generator())
    torch.testing.assert_close(colour_jitter(images, 0.0, draws(3)), images)
    grey = luma(images).expand(3, 3, 8, 8)
    jittered = colour_jitter(grey, 0.5, draws(3))
    torch.testing.assert_close(jittered[:, 0], jittered[:, 2])
    assert not torch.allclose(jittered, grey)
    assert jittered.min() >= 0 and jittered.max() <= 1


def test_turn_turns_each_image_by_its_own_quarters():
    images = torch.rand(4, 3, 5, 5, generator=generator())
    turned = turn(images, torch.tensor([0, 1, 2, 3]))
    for k in range(4):
        assert torch.equal(turned[k], torch.rot90(images[k], k, (1, 2)))
