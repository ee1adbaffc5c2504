"""Drawn domains: pure functions whose classes can be told apart by what they are made of."""

import numpy as np
import pytest
import torch

from appl.datasets.drawn import DRAWN, SIDE, drawn_images, silhouettes, strokes, surfaces


@pytest.mark.parametrize("kind", DRAWN)
def test_an_image_is_a_function_of_class_and_number(kind):
    draw = DRAWN[kind]
    image = draw(3, 7)
    assert image.shape == (SIDE, SIDE, 3) and image.dtype == np.uint8
    assert np.array_equal(image, draw(3, 7))
    assert not np.array_equal(image, draw(3, 8)) and not np.array_equal(image, draw(4, 7))


def test_images_come_as_a_batch_in_the_order_asked_for():
    images = drawn_images("strokes", torch.tensor([2, 0]), torch.tensor([1, 5]))
    assert images.shape == (2, 3, SIDE, SIDE)
    expected = torch.from_numpy(strokes(0, 5).copy()).permute(2, 0, 1)
    assert torch.equal(images[1], expected)


def shapes_of(class_id: int) -> list[np.ndarray]:
    """Return what is ink and what is ground of some silhouettes, whatever their colours."""
    found = []
    for number in range(12):
        pixels = silhouettes(class_id, number).astype(np.float64)
        corner = pixels[:6, :6].mean((0, 1))
        found.append(np.abs(pixels - corner).mean(2) > 40)
    return found


def test_a_class_of_silhouettes_is_its_outline_in_any_colours():
    first, second = shapes_of(1), shapes_of(2)
    alike = np.mean([(a & b).sum() / (a | b).sum() for a in first[:6] for b in first[6:]])
    apart = np.mean([(a & b).sum() / (a | b).sum() for a in first for b in second])
    assert alike > apart + 0.05
    colours = {tuple(silhouettes(1, n)[0, 0] // 64) for n in range(12)}
    assert len(colours) > 4


def test_a_class_of_surfaces_is_its_grain():
    def spectrum(class_id: int, number: int) -> np.ndarray:
        grey = surfaces(class_id, number).astype(np.float64).mean(2)
        power = np.abs(np.fft.fft2(grey - grey.mean()))
        return power / np.linalg.norm(power)

    own = [spectrum(5, n) for n in range(8)]
    other = [spectrum(6, n) for n in range(8)]
    alike = np.mean([(a * b).sum() for a in own[:4] for b in own[4:]])
    assert alike > np.mean([(a * b).sum() for a in own for b in other])
