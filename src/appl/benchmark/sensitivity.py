"""The paper's sensitivity plots: α0, ε, λ_coh and λ_dis, each changed alone, as rows like others.

A value that the preset has already is no row of its own: it is the base row, run once.
"""

from dataclasses import dataclass
from typing import Any

from appl.settings.benchmark import BenchSettings, RowSettings
from appl.settings.solving import SolveSettings


@dataclass(frozen=True)
class Knob:
    """A setting that is changed, its place among the settings, and the paper's symbol for it."""

    name: str
    place: tuple[str, ...]
    symbol: str

    def value(self, settings: SolveSettings) -> float:
        """Read it from settings."""
        found: Any = settings
        for part in self.place:
            found = getattr(found, part)
        return float(found)

    def change(self, value: float) -> dict[str, Any]:
        """Return the change of a preset that sets it."""
        changed: Any = value
        for part in reversed(self.place):
            changed = {part: changed}
        return dict(changed)


KNOBS = (
    Knob("alpha", ("adaptation", "pseudo_labels", "wma", "alpha"), "α₀"),
    Knob("threshold", ("adaptation", "pseudo_labels", "threshold"), "ε"),
    Knob("lambda_coh", ("adaptation", "objective", "lambda_coh"), "λ_coh"),
    Knob("lambda_dis", ("adaptation", "objective", "lambda_dis"), "λ_dis"),
)


def base_title(settings: BenchSettings) -> str:
    """Return the title of the row that nothing is changed in."""
    return f"APPL {settings.sensitivity.preset}"


def sensitivity_rows(settings: BenchSettings) -> tuple[RowSettings, ...]:
    """Return the rows that the ranges ask for: the base first, then setting by setting."""
    preset = settings.sensitivity.preset
    if not preset:
        return ()
    base = SolveSettings.preset(preset)
    rows = [RowSettings("appl", base_title(settings), settings={"preset": preset})]
    for knob in KNOBS:
        for value in _values(settings, knob):
            if value != knob.value(base):
                changed = {"preset": preset, "changes": knob.change(value)}
                rows.append(RowSettings("appl", _title(knob, value), settings=changed))
    return tuple(rows)


def swept_titles(settings: BenchSettings, knob: Knob) -> dict[float, str]:
    """Return the title of the row that stands for each value, lowest first, the base's own too."""
    own = knob.value(SolveSettings.preset(settings.sensitivity.preset))
    titles = {value: _title(knob, value) for value in _values(settings, knob)}
    titles[own] = base_title(settings)
    return dict(sorted(titles.items()))


def _values(settings: BenchSettings, knob: Knob) -> list[float]:
    return sorted(set(getattr(settings.sensitivity, knob.name)))


def _title(knob: Knob, value: float) -> str:
    return f"{knob.symbol} = {value:g}"
