"""Domains drawn by a program: classes without end that no encoder has been trained on.

Photographs in disguise are still photographs. What is learnt over tasks also has to meet tasks in
which classes differ by the course of a line, the grain of a surface or a single picture, so these
are drawn here: five kinds of domains, every image a pure function of kind, class and number.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter
from torch import Tensor

from appl.core.seeds import seed_of

SIDE = 96
Random = np.random.Generator
Pixels = NDArray[np.uint8]


def _random(*what: object) -> Random:
    return np.random.default_rng(seed_of("drawn", *what))


def _moved(points: NDArray[np.float64], random: Random, strength: float) -> NDArray[np.float64]:
    """Turn, stretch, slant and shift points (n, 2) around the middle, as hands and cameras do."""
    angle, slant = random.normal(0, 0.12 * strength), random.normal(0, 0.15 * strength)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    size = np.exp(random.normal(0, 0.12 * strength, 2))
    matrix = turn @ np.array([[size[0], slant], [0, size[1]]])
    return np.asarray(points @ matrix.T + random.normal(0, 0.05 * strength, 2))


def _on_canvas(points: NDArray[np.float64]) -> list[tuple[float, float]]:
    return [(SIDE * (0.5 + 0.42 * x), SIDE * (0.5 + 0.42 * y)) for x, y in points]


def _pixels(values: NDArray[np.float64]) -> Pixels:
    return np.asarray(np.clip(values, 0, 255).astype(np.uint8))


def _colours(random: Random, contrast: float) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return a ground and an ink that stand out from each other."""
    ground = random.uniform(0, 255, 3)
    ink = random.uniform(0, 255, 3)
    while abs(ground.mean() - ink.mean()) < contrast:
        ground, ink = random.uniform(0, 255, 3), random.uniform(0, 255, 3)
    return tuple(map(int, ground)), tuple(map(int, ink))


def strokes(class_id: int, number: int) -> Pixels:
    """Draw a sign of one to four curved strokes in an unsteady hand: a letter of some alphabet."""
    shape, hand = _random("strokes", class_id), _random("strokes", class_id, number)
    image = Image.new("RGB", (SIDE, SIDE), "white")
    draw = ImageDraw.Draw(image)
    width = int(hand.integers(3, 8))
    for _ in range(int(shape.integers(1, 5))):
        knots = shape.uniform(-0.9, 0.9, (int(shape.integers(2, 5)), 2))
        knots = _moved(knots + hand.normal(0, 0.07, knots.shape), hand, 0.5)
        draw.line(_on_canvas(_curve(knots)), fill="black", width=width, joint="curve")
    return np.asarray(image)


def _curve(knots: NDArray[np.float64], n: int = 24) -> NDArray[np.float64]:
    """Return points of the Bézier curve with these knots."""
    points, t = knots[None].repeat(n, 0), np.linspace(0, 1, n)[:, None, None]
    while points.shape[1] > 1:
        points = (1 - t) * points[:, :-1] + t * points[:, 1:]
    return np.asarray(points[:, 0])


def silhouettes(class_id: int, number: int) -> Pixels:
    """Fill an outline that is its class's own, in any colour, size and turn, before a noise."""
    shape, view = _random("silhouettes", class_id), _random("silhouettes", class_id, number)
    angles = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    radius = 0.6 + sum(
        shape.normal(0, 0.3 / k) * np.cos(k * angles + shape.uniform(0, 6.3)) for k in range(1, 7)
    )
    outline = np.stack([radius * np.cos(angles), radius * np.sin(angles)], 1)
    outline = _moved(outline + view.normal(0, 0.01, outline.shape), view, 1.5)
    ground, ink = _colours(view, 40)
    image = Image.new("RGB", (SIDE, SIDE), ground)
    ImageDraw.Draw(image).polygon(_on_canvas(outline), fill=ink)
    noise = view.normal(0, view.uniform(2, 20), (SIDE, SIDE, 3))
    blurred = np.asarray(image.filter(ImageFilter.GaussianBlur(view.uniform(0, 1.5))), np.float64)
    return _pixels(blurred + noise)


def surfaces(class_id: int, number: int) -> Pixels:
    """Make a surface: noise whose grain and direction are its class's own, in any colours."""
    kind, part = _random("surfaces", class_id), _random("surfaces", class_id, number)
    frequency = np.stack(np.meshgrid(np.fft.fftfreq(SIDE), np.fft.fftfreq(SIDE)), -1)
    turn = kind.uniform(0, np.pi) + part.normal(0, 0.1)
    axis = np.array([np.cos(turn), np.sin(turn)])
    along, across = frequency @ axis, frequency @ np.array([-axis[1], axis[0]])
    centre, spread = kind.uniform(0, 0.25), kind.uniform(0.02, 0.15)
    flatness = kind.uniform(0.3, 3)
    distance = (np.abs(along) - centre) ** 2 + (flatness * across) ** 2
    power = np.exp(-distance / (2 * spread**2)) + kind.uniform(0, 0.05)
    field = np.fft.ifft2(np.fft.fft2(part.normal(size=(SIDE, SIDE))) * power).real
    field = np.tanh(kind.uniform(0.5, 3) * field / field.std())
    low, high = (np.array(colour) for colour in _colours(part, 30))
    pixels = low + (high - low) * (field[..., None] + 1) / 2
    return _pixels(pixels + part.normal(0, 6, pixels.shape))


def scatters(class_id: int, number: int) -> Pixels:
    """Scatter small bodies as under a microscope: how many, how large and how round they are."""
    kind, view = _random("scatters", class_id), _random("scatters", class_id, number)
    ground, ink = _colours(view, 50)
    image = Image.new("RGB", (SIDE, SIDE), ground)
    draw = ImageDraw.Draw(image)
    size, length = kind.uniform(2, 12), kind.uniform(1, 3)
    hollow = bool(kind.random() < 0.4)
    for _ in range(int(view.poisson(kind.uniform(2, 25))) + 1):
        x, y = view.uniform(0, SIDE, 2)
        a = size * np.exp(view.normal(0, 0.25))
        box = (x - a, y - a / length, x + a, y + a / length)
        if view.random() < 0.5:
            box = (x - a / length, y - a, x + a / length, y + a)
        draw.ellipse(box, outline=ink, width=2, fill=None if hollow else ink)
    blurred = np.asarray(image.filter(ImageFilter.GaussianBlur(view.uniform(0, 1.2))), np.float64)
    return _pixels(blurred + view.normal(0, 8, blurred.shape))


def scenes(class_id: int, number: int) -> Pixels:
    """Show a part of one large invented picture: another place, turn and light, in grey."""
    view = _random("scenes", class_id, number)
    side = 2 * SIDE
    picture = Image.fromarray(_picture(class_id, side)).rotate(view.uniform(-30, 30))
    part = view.uniform(0.35, 0.6) * side
    x, y = view.uniform(0.15 * side, 0.85 * side - part, 2)
    seen = picture.crop((int(x), int(y), int(x + part), int(y + part))).resize((SIDE, SIDE))
    grey = np.asarray(seen, np.float64).mean(2, keepdims=True)
    return _pixels(grey * np.exp(view.normal(0, 0.2, 3)))


def _picture(class_id: int, side: int) -> Pixels:
    kind = _random("scenes", class_id)
    image = Image.new("RGB", (side, side), tuple(map(int, kind.uniform(0, 255, 3))))
    draw = ImageDraw.Draw(image)
    for _ in range(30):
        colour = tuple(map(int, kind.uniform(0, 255, 3)))
        x, y = kind.uniform(0, side, 2)
        a, b = kind.uniform(4, side / 4, 2)
        if kind.random() < 0.5:
            draw.ellipse((x - a, y - b, x + a, y + b), fill=colour)
        else:
            corners = [(x + kind.normal(0, a), y + kind.normal(0, b)) for _ in range(4)]
            draw.polygon(corners, fill=colour)
    return np.asarray(image.filter(ImageFilter.GaussianBlur(1)))


DRAWN: dict[str, Callable[[int, int], Pixels]] = {
    "strokes": strokes,
    "silhouettes": silhouettes,
    "surfaces": surfaces,
    "scatters": scatters,
    "scenes": scenes,
}


def drawn_images(kind: str, class_ids: Tensor, numbers: Tensor) -> Tensor:
    """Return images of one kind of domain as uint8 (n, 3, SIDE, SIDE)."""
    draw = DRAWN[kind]
    pairs = zip(class_ids.tolist(), numbers.tolist(), strict=True)
    pixels = np.stack([draw(class_id, number) for class_id, number in pairs])
    return torch.from_numpy(pixels).permute(0, 3, 1, 2)
