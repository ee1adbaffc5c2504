"""The colours of the classes: seen on the card, and told apart with any colour blindness."""

from itertools import combinations

import numpy as np
import pytest

from appl.report.palette import LIGHT, N_COLOURS, PALETTE, colour_names, colour_slots
from appl.report.rendering import TEMPLATES, render_template

# Machado, Oliveira and Fernandes, 2009, severity 1, on linear RGB.
SEEN_BY = {
    "all": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopes": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopes": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopes": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def colours(scheme: str) -> dict[str, np.ndarray]:
    """Return linear RGB by name."""
    codes = {name: getattr(shades, scheme)[1:] for name, shades in PALETTE.items()}
    values = {
        name: np.frombuffer(bytes.fromhex(code), np.uint8) / 255 for name, code in codes.items()
    }
    return {
        name: np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        for name, rgb in values.items()
    }


def lab(linear: np.ndarray) -> np.ndarray:
    xyz = TO_XYZ @ linear.clip(0, 1) / [0.9505, 1, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(a: np.ndarray, b: np.ndarray) -> float:
    low, high = sorted((TO_XYZ[1] @ a, TO_XYZ[1] @ b))
    return float((high + 0.05) / (low + 0.05))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewer", SEEN_BY)
def test_classes_are_told_apart(scheme: str, viewer: str) -> None:
    found = colours(scheme)
    seen = [lab(np.array(SEEN_BY[viewer]) @ found[f"k{i}"]) for i in range(N_COLOURS)]

    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 22


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_and_marks_stand_out(scheme: str) -> None:
    found = colours(scheme)
    marks = [*(f"k{i}" for i in range(N_COLOURS)), "accept", "review", "none-of-these"]

    assert min(contrast(found[name], found["card"]) for name in marks) > 2.95
    for word in ("ink", "soft", "accent"):
        assert min(contrast(found[word], found[under]) for under in ("card", "bg")) > 4.5
    for word in ("ink", "soft", "warn"):
        assert contrast(found[word], found["warn-bg"]) > 4.5


def test_a_page_has_every_colour_in_every_scheme() -> None:
    style = render_template("palette.css")
    light, dark, paper = (part.split("}")[0] for part in style.split(":root {")[1:])
    assert "prefers-color-scheme: dark" in style.split(":root {")[1]
    for name, shades in PALETTE.items():
        assert f"--{name}: {shades.light};" in light
        assert f"--{name}: {shades.dark};" in dark
        assert (f"--{name}: {shades.paper};" in paper) == bool(shades.paper)


def test_style_sheets_use_colours_of_the_palette_only() -> None:
    for name in ("report.css", "benchmark.css", "audit.css"):
        text = (TEMPLATES / name).read_text(encoding="utf-8")
        used = {part.split(")")[0] for part in text.split("var(--")[1:]}
        assert used <= {*PALETTE, "c"}
        assert not any(": #" in line for line in text.splitlines())


def test_what_is_alike_in_light_is_alike_in_the_dark() -> None:
    # A drawing finds the name of a colour by its light value.
    assert len(set(LIGHT.values())) == len({(s.light, s.dark) for s in PALETTE.values()})


def test_the_largest_classes_have_the_colours() -> None:
    names = [f"c{i}" for i in range(14)]
    counts = {name: i for i, name in enumerate(names)}

    assert colour_slots(names, counts) == {f"c{i + 4}": i for i in range(10)}
    assert colour_slots(["b", "a"], {"a": 5}) == {"b": 0, "a": 1}
    assert list(colour_names(names).values()) == [f"k{i % 10}" for i in range(14)]
