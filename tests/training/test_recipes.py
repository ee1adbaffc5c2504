"""The settings that rows of docs/results were, or are to be, trained with."""

import re
from pathlib import Path

import pytest

from appl.core.methods import METHODS
from appl.settings.files import load_settings, structure_settings
from appl.settings.rival_training import RivalTrainSettings
from appl.weights.heads import build_head
from tests.conftest import make_small_encoder

RECIPES = sorted((Path(__file__).parents[2] / "docs" / "results" / "recipes").glob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_one_of_its_method_and_says_its_command(path: Path) -> None:
    settings = load_settings(RivalTrainSettings, path)
    assert settings.method == path.stem
    structure_settings(METHODS.get(settings.method), settings.method_settings)
    text = path.read_text(encoding="utf-8")
    assert f"--method {path.stem} " in text and f"docs/results/recipes/{path.name}" in text
    start = re.search(r"--from (?:rivals/(\w+)/weights\.safetensors|resnet10)", text)
    assert start is not None
    # A head is taken over where there is one of the same shape, and only there.
    assert (settings.head_initialisation == "start") == (start[1] is not None)
    if start[1] is not None:
        own, host = (
            build_head(name, {}, 5, make_small_encoder()).module.state_dict()
            for name in (path.stem, start[1])
        )
        assert {k: v.shape for k, v in own.items()} == {k: v.shape for k, v in host.items()}
