"""Numbers and names for a reader: counts with their noun, shares that do not overstate."""

import re
from pathlib import PurePath

from markupsafe import Markup, escape

DECISION_WORDS = {
    "accept": "accepted",
    "review": "to review",
    "none-of-these": "none of these",
    "unreadable": "unreadable",
}


NAME_LETTERS = 17  # of a file, below a picture


def counted(n: int, word: str, many: str = "") -> str:
    """Return "1 image", "2,000 images"."""
    return f"{n:,} {word if n == 1 else many or word + 's'}"


def percent(share: float | None) -> str:
    """Return a share as whole percents; never 0% or 100% of what is only nearly so."""
    if share is None:
        return "–"
    if share >= 0.995:
        return ">99%"
    if share < 0.005:
        return "<1%"
    return f"{share:.0%}"


def file_name(path: str) -> str:
    """Return the last part of a path."""
    return PurePath(path).name or path


def short(text: str, n_letters: int = 60) -> str:
    """Return a text without its middle where it is long: both ends tell files apart."""
    if len(text) <= n_letters:
        return text
    half = (n_letters - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def breakable(text: str) -> Markup:
    """Return a name, escaped, that may be broken after its own separators."""
    parts = re.split(r"(?<=[_/.\\\-])(?=\w)", text)
    return Markup("<wbr>").join(escape(part) for part in parts)


def listed(parts: list[str]) -> str:
    """Return "a, b and c"."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def sentence(text: str) -> str:
    """Return a remark with a capital and a full stop."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
