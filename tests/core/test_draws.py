import torch

from appl.core.draws import content_draws, generator_draws


def test_content_draws_follow_the_image_and_not_its_place():
    images = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    order = torch.tensor([3, 1, 4, 0, 2])
    plain = torch.stack(list(content_draws(images, 4, seed=0)), 1)
    shuffled = torch.stack(list(content_draws(images[order], 4, seed=0)), 1)
    assert torch.equal(shuffled, plain[order])
    assert plain.shape == (5, 4) and len(plain.unique()) == 20
    other = torch.stack(list(content_draws(images, 4, seed=1)), 1)
    assert not torch.equal(other, plain)


def test_uint8_and_float_images_draw_alike():
    images = torch.randint(256, (3, 3, 8, 8), generator=torch.Generator().manual_seed(0))
    whole = images.to(torch.uint8)
    for a, b in zip(
        content_draws(whole, 3, 0), content_draws(whole.float() / 255, 3, 0), strict=True
    ):
        assert torch.equal(a, b)


def test_draws_are_even_between_zero_and_one():
    column = next(generator_draws(10_000, torch.Generator().manual_seed(0)))
    assert column.min() >= 0 and column.max() < 1
    assert abs(column.mean() - 0.5) < 0.02
