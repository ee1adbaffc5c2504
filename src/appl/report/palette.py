"""The colours of pages, charts and files, and which of them a class or a row is given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Shades:
    """A colour on a light page, on a dark one, and on paper where it differs from the light one."""

    light: str
    dark: str
    paper: str = ""


_PAGE = {
    "bg": Shades("#f4f6f8", "#11151a", "#ffffff"),
    "card": Shades("#ffffff", "#1a2027", "#ffffff"),
    "ink": Shades("#1a222c", "#e9edf2", "#000000"),
    "soft": Shades("#525d69", "#aab4bf", "#404040"),
    "line": Shades("#d8dee5", "#333d48", "#b0b0b0"),
    "grid": Shades("#e3e7ec", "#2a323c"),
    "accent": Shades("#0a5796", "#7fbdf5"),
    "shade": Shades("#eef1f4", "#232b34", "#f0f0f0"),
    "warn-bg": Shades("#fff6e3", "#2d2415", "#ffffff"),
    "warn": Shades("#8f5200", "#f3bf6b", "#6b3d00"),
}
_DECISIONS = {
    "accept": Shades("#0a5f9e", "#58a6ea"),
    "review": Shades("#c26a00", "#f0a13c"),
    "none-of-these": Shades("#5d6873", "#98a4b0"),
    "unreadable": Shades("#a3215c", "#f27eb0"),
}
# Found by search: at least 22 apart in CIELAB with any colour blindness, 3:1 on the card.
_CLASSES = {
    "k0": Shades("#5955ff", "#738bdd"),
    "k1": Shades("#a44d0f", "#be5c05"),
    "k2": Shades("#077979", "#4ac791"),
    "k3": Shades("#ff4fac", "#b96f9e"),
    "k4": Shades("#0999ff", "#b2d9ff"),
    "k5": Shades("#c18b05", "#eece05"),
    "k6": Shades("#3a2ca0", "#8f57f7"),
    "k7": Shades("#603512", "#d41b48"),
    "k8": Shades("#899558", "#b0c060"),
    "k9": Shades("#404139", "#feffed"),
}
_REST = {
    "other": Shades("#a9b1ba", "#5c6670"),
    "outside": Shades("#5d6873", "#98a4b0"),
}
N_COLOURS = len(_CLASSES)
MARKS = (*_DECISIONS, *_CLASSES, *_REST)  # what marks, bars and legends are painted with
PALETTE: Mapping[str, Shades] = _PAGE | _DECISIONS | _CLASSES | _REST
LIGHT: Mapping[str, str] = {name: shades.light for name, shades in PALETTE.items()}


def colour_names(titles: Sequence[str]) -> dict[str, str]:
    """Give everything in a legend the name of a colour, the first again after the tenth."""
    return {title: f"k{i % N_COLOURS}" for i, title in enumerate(titles)}


def colour_slots(class_names: Sequence[str], counts: Mapping[str, int]) -> dict[str, int]:
    """Give a colour to every class, or to the largest ones where there are more than colours."""
    largest = sorted(class_names, key=lambda name: -counts.get(name, 0))[:N_COLOURS]
    kept = set(largest)
    return {name: i for i, name in enumerate(name for name in class_names if name in kept)}
