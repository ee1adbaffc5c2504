"""The colours of the classes: seen on the card, and told apart with any colour blindness."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import appl.report
from appl.report.charts import N_COLOURS

STYLE = (Path(appl.report.__file__).parent / "templates" / "report.css").read_text()
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
    text = STYLE.split("@media")[1 if scheme == "dark" else 0]
    found = re.findall(r"--([\w-]+): #(\w{6})", text)
    values = {name: np.frombuffer(bytes.fromhex(code), np.uint8) / 255 for name, code in found}
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
