"""docs/deviations.md says what the presets do; this holds it to that."""

import re
from pathlib import Path

import pytest

from appl.settings import AdaptSettings, MetaTrainSettings
from appl.settings.presets import PRESET_NAMES
from appl.settings.solving import SolveSettings

DOC = Path(__file__).parents[2] / "docs" / "deviations.md"


def rows(heading):
    section = DOC.read_text(encoding="utf-8").split(f"## {heading}")[1].split("\n## ")[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 7 and cells[2].startswith("`"):
            yield cells


@pytest.mark.parametrize(
    ("heading", "group", "least"),
    [
        ("Algorithm 1", MetaTrainSettings, 20),
        ("Algorithm 2", AdaptSettings, 30),
        ("Our answer", SolveSettings, 5),
    ],
)
def test_the_tables_state_the_presets(heading, group, least):
    found = 0
    for cells in rows(heading):
        for name, stated in zip(PRESET_NAMES, cells[3:6], strict=True):
            value = group.preset(name)
            for part in cells[2].strip("`").split("."):
                value = getattr(value, part)
            assert str(value) == stated, f"{cells[2]} of {name}"
        found += 1
    assert found >= least


def test_every_ambiguity_has_its_row():
    numbers = set(re.findall(r"^\| ([AB]\d+) ", DOC.read_text(encoding="utf-8"), re.MULTILINE))
    assert numbers == {f"A{i}" for i in range(1, 24)} | {f"B{i}" for i in range(1, 26)}
