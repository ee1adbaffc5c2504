"""What a settings field allows, declared beside it and checked for every group in one place."""

from dataclasses import field, fields
from difflib import get_close_matches
from typing import Any, get_args

from appl.errors import SettingsError


def setting(default: Any, why: str, low: float | None = None, high: float | None = None) -> Any:
    """Declare a field: its default, what it is for, and its closed range if it is a number."""
    return field(default=default, metadata={"why": why, "low": low, "high": high})


def check_ranges(settings: Any) -> None:
    """Check every field of a settings object against its declaration; call from __post_init__."""
    group = type(settings).__name__
    for item in fields(settings):
        value = getattr(settings, item.name)
        choices = get_args(item.type)
        if choices and all(isinstance(choice, str) for choice in choices):
            if value not in choices:
                raise SettingsError(
                    f"{group}: {item.name} = {value!r} is not a choice; "
                    + suggest(str(value), [str(choice) for choice in choices])
                )
            continue
        low, high = item.metadata.get("low"), item.metadata.get("high")
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        # Written so that a NaN fails too.
        if not ((low is None or value >= low) and (high is None or value <= high)):
            upper = "" if high is None else f" and at most {high}"
            raise SettingsError(
                f"{group}: {item.name} = {value!r} is out of range: at least {low}{upper}"
            )


def suggest(word: str, right: list[str]) -> str:
    """Say which right spelling is nearest, or list all of them."""
    near = get_close_matches(word, right, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return "use one of " + ", ".join(sorted(right))
