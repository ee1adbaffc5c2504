"""Finding a preset by name."""

from typing import TypeVar

from appl.errors import SettingsError
from appl.settings.checks import suggest

S = TypeVar("S")

PRESET_NAMES = ("paper", "released", "robust")


def find_preset(presets: dict[str, S], name: str) -> S:
    """Return presets[name], or say what the names are."""
    if name not in presets:
        raise SettingsError(f"no preset is called {name!r}; {suggest(name, list(presets))}")
    return presets[name]
