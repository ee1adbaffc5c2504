"""The paper's sensitivity plots: α0, ε, λ_coh and λ_dis, each changed alone, as rows like others.

A value that the preset has already is no row of its own: it is the base row, run once.
"""

from dataclasses import dataclass
from typing import Any

from appl.settings.adaptation import AdaptSettings
from appl.settings.benchmark import BenchSettings, RowSettings


@dataclass(frozen=True)
class Knob:
    """A setting that is changed, and the paper's symbol for it."""

    name: str
    symbol: str

    def value(self, settings: AdaptSettings) -> float:
        """Read it from settings."""
        return float(settings.wma.alpha if self.name == "alpha" else getattr(settings, self.name))

    def change(self, value: float) -> dict[str, Any]:
        """Return the change of a preset that sets it."""
        return {"wma": {"alpha": value}} if self.name == "alpha" else {self.name: value}


KNOBS = (
    Knob("alpha", "α₀"),
    Knob("threshold", "ε"),
    Knob("lambda_coh", "λ_coh"),
    Knob("lambda_dis", "λ_dis"),
)


def base_title(settings: BenchSettings) -> str:
    """Return the title of the row that nothing is changed in."""
    return f"APPL {settings.sensitivity.preset}"


def sensitivity_rows(settings: BenchSettings) -> tuple[RowSettings, ...]:
    """Return the rows that the ranges ask for: the base first, then setting by setting."""
    preset = settings.sensitivity.preset
    if not preset:
        return ()
    base = AdaptSettings.preset(preset)
    rows = [RowSettings("appl", base_title(settings), settings={"preset": preset})]
    for knob in KNOBS:
        for value in _values(settings, knob):
            if value != knob.value(base):
                changed = {"preset": preset, "changes": knob.change(value)}
                rows.append(RowSettings("appl", _title(knob, value), settings=changed))
    return tuple(rows)


def swept_titles(settings: BenchSettings, knob: Knob) -> dict[float, str]:
    """Return the title of the row that stands for each value, lowest first, the base's own too."""
    own = knob.value(AdaptSettings.preset(settings.sensitivity.preset))
    titles = {value: _title(knob, value) for value in _values(settings, knob)}
    titles[own] = base_title(settings)
    return dict(sorted(titles.items()))


def _values(settings: BenchSettings, knob: Knob) -> list[float]:
    return sorted(set(getattr(settings.sensitivity, knob.name)))


def _title(knob: Knob, value: float) -> str:
    return f"{knob.symbol} = {value:g}"
