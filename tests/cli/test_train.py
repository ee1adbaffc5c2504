import json

import numpy as np
import pytest
from PIL import Image

from tests.cli.test_app import run


@pytest.fixture
def tree(tmp_path):
    draw = np.random.default_rng(0)
    for i in range(8):
        folder = tmp_path / "tree" / f"c{i}"
        folder.mkdir(parents=True)
        pattern = draw.integers(0, 200, (4, 4, 3))
        for j in range(20):
            small = (pattern + draw.integers(0, 56, (4, 4, 3))).astype(np.uint8)
            Image.fromarray(small).resize((36, 36), Image.Resampling.NEAREST).save(
                folder / f"{j:02d}.png"
            )
    names = {"train": [f"c{i}" for i in range(3)], "validation": [f"c{i}" for i in range(3, 8)]}
    (tmp_path / "split.json").write_text(json.dumps(names))
    (tmp_path / "quick.toml").write_text(
        "n_epochs = 2\nbatch_size = 30\ncrop_px = 32\nn_validation_episodes = 3\n"
        "n_validation_images = 20\npeak_rate = 0.05\n"
    )
    return tmp_path


def pretrain(tree, *more):
    return run(
        "train",
        "pretrain",
        str(tree / "tree"),
        *("--out", str(tree / "run"), "--split", str(tree / "split.json")),
        *("--settings", str(tree / "quick.toml"), "--size-px", "36"),
        *more,
    )


@pytest.mark.slow
def test_a_class_folder_tree_is_trained_on_and_a_second_call_has_nothing_left(tree):
    first = pretrain(tree)
    assert first.returncode == 0, first.stderr
    assert "epoch 2: loss" in first.stdout and "5-way 5-shot" in first.stdout
    assert (tree / "run" / "best.pt").exists() and (tree / "run" / "last.pt").exists()
    second = pretrain(tree)
    assert second.returncode == 0 and "epoch" not in second.stdout


def test_mistakes_are_one_line(tree):
    (tree / "split.json").write_text("{")
    shown = pretrain(tree)
    assert shown.returncode == 2 and "is no JSON file" in shown.stderr
    (tree / "split.json").write_text(json.dumps({"train": ["c0"]}))
    shown = pretrain(tree)
    assert shown.returncode == 2 and "has no validation classes" in shown.stderr
    shown = run("train", "pretrain", str(tree / "tree"), "--out", str(tree / "run"))
    assert shown.returncode == 2 and "no layout that we know" in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1
