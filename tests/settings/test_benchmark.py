import re
from pathlib import Path

import pytest

from appl.errors import SettingsError
from appl.settings.benchmark import PROTOCOL_PRESETS, BenchSettings
from appl.settings.files import structure_settings

BASE = {"targets": {"cub": "CUB"}, "rows": [{"method": "tim"}]}
DOCS = Path(__file__).parents[2] / "docs" / "benchmark.md"


def bench(**values):
    return structure_settings(BenchSettings, BASE | values)


def test_a_protocol_is_its_values():
    guo = bench(preset="guo")
    assert guo == bench(image_px=224, margin=1.15, n_episodes=600, protocol={"n_query": 15})
    assert (guo.protocol.n_way, guo.protocol.n_shot) == (5, 5)
    released = bench(preset="released")
    assert (released.image_px, released.protocol.n_query, released.n_episodes) == (84, 5, 600)
    cpu = bench(preset="cpu")
    assert (cpu.image_px, cpu.protocol.n_query, cpu.n_episodes, cpu.margin) == (84, 15, 60, 1.0)


def test_given_values_override_a_protocol():
    settings = bench(preset="guo", image_px=84, protocol={"n_shot": 20, "n_query": 10})
    assert settings == bench(image_px=84, margin=1.15, protocol={"n_shot": 20, "n_query": 10})


def test_a_wrong_protocol_names_the_right_ones():
    with pytest.raises(SettingsError, match=r"no preset is called 'gou'; did you mean 'guo'\?"):
        bench(preset="gou")


def test_the_docs_have_the_values():
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| ([\d.]+) \| (\d+) \| (\d+) \| (\d+) \|",
                      DOCS.read_text(encoding="utf-8"), re.MULTILINE)  # fmt: skip
    shown = {
        name: {
            "image_px": int(px),
            "margin": float(margin),
            "n_episodes": int(n_episodes),
            "protocol": {"n_way": int(n_way), "n_query": int(n_query)},
        }
        for name, px, margin, n_episodes, n_way, n_query in rows
    }
    assert shown == PROTOCOL_PRESETS


def test_most_episodes_are_those_of_the_longest_row():
    rows = [{"method": "tim"}, {"method": "appl", "n_episodes": 7}]
    assert bench(n_episodes=5, rows=rows).most_episodes == 7
    assert bench(n_episodes=9, rows=rows[1:]).most_episodes == 7
    assert bench(n_episodes=9, rows=rows[1:], sensitivity={"preset": "robust"}).most_episodes == 9
