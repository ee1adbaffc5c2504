"""The README's Python runs, its commands exist, and its numbers are the stored ones."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_python_example_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("tensor([") and "finished" in printed


def test_documented_commands_are_the_commands():
    from appl.cli.app import app

    commands = {command.name for command in app.registered_commands}
    commands |= {group.name for group in app.registered_groups}
    documented = set(re.findall(r"`appl (\w+)", README))
    assert documented == commands


def test_linked_files_exist():
    for target in re.findall(r"\]\((?!http)([^)]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_speed_ratios_are_the_stored_ones():
    stored = json.loads((ROOT / "benchmarks/results/adapt_speed.json").read_text())
    assert f"{stored['robust_speedup']:.0f} times less time than a plain loop" in " ".join(
        README.split()
    )
    assert f"{stored['same_iterations_speedup']:.2f} times less (one thread" in " ".join(
        README.split()
    )


def test_make_targets_that_the_readme_names_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
