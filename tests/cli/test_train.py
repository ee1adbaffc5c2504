"""The commands as a person starts them, kills them and starts them again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from appl.settings import MetaTrainSettings, load_settings
from appl.weights.checkpoint import read_checkpoint
from appl.weights.file import load_weights
from tests.cli.commands import run as run_here
from tests.training.conftest import assert_same_state

N_EPOCHS = 4
# Every part of the trainer's state has a say: kept θ, anchors of both networks, batch norms.
META = (
    f"n_epochs = {N_EPOCHS}\nn_tasks = 2\nn_way = 3\nn_query = 4\nimage_px = 32\n"
    'inner_rate = 1e-3\nencoder_between_tasks = "kept"\nbatch_norm = "joint"\ntrains = "both"\n'
    'weight_decay = 1.0\nmodel_selection = "last"\nn_validation_episodes = 3\n'
    "n_validation_images = 20\n"
)
PRETRAIN = (
    f"n_epochs = {N_EPOCHS}\nbatch_size = 30\ncrop_px = 32\nn_validation_episodes = 3\n"
    "n_validation_images = 20\npeak_rate = 0.05\n"
)
ONE_PROCESS = [sys.executable, "-m", "appl"]
TWO_PROCESSES = [
    *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
    *("-m", "appl"),
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    root = tmp_path_factory.mktemp("train")
    draw = np.random.default_rng(0)
    for i in range(8):
        folder = root / "tree" / f"c{i}"
        folder.mkdir(parents=True)
        pattern = draw.integers(0, 200, (4, 4, 3))
        for j in range(20):
            small = (pattern + draw.integers(0, 56, (4, 4, 3))).astype(np.uint8)
            Image.fromarray(small).resize((36, 36), Image.Resampling.NEAREST).save(
                folder / f"{j:02d}.png"
            )
    names = {"train": [f"c{i}" for i in range(3)], "validation": [f"c{i}" for i in range(3, 8)]}
    (root / "split.json").write_text(json.dumps(names))
    (root / "pretrain.toml").write_text(PRETRAIN)
    (root / "meta.toml").write_text(META)
    return root


def arguments(tree, command, out, *more):
    options = ["--size-px", "36"] if command == "pretrain" else []
    return [
        *("train", command, str(tree / "tree"), "--out", str(tree / out)),
        *("--split", str(tree / "split.json"), "--cache", str(tree / "cache")),
        *("--settings", str(tree / f"{command}.toml"), *options, *more),
    ]


def start(program, arguments):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return subprocess.Popen([*program, *arguments], env=environment, **pipes)


def run(arguments, program=ONE_PROCESS):
    if program is ONE_PROCESS:
        return run_here(*arguments)
    process = start(program, arguments)
    stdout, stderr = process.communicate(timeout=600)
    return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)


def run_killed_once(folder, arguments, program=ONE_PROCESS):
    """Kill -9 the process (or one of the two) after the first checkpoint, then run again."""
    process = start(program, arguments)
    while not (folder / "last.pt").exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    victim = process.pid
    if program is not ONE_PROCESS:
        victim = int(Path(f"/proc/{victim}/task/{victim}/children").read_text().split()[-1])
    os.kill(victim, signal.SIGKILL)
    process.communicate(timeout=600)
    assert process.returncode != 0
    n_epochs_done = read_checkpoint(folder / "last.pt")["history"][-1]["epoch"]
    assert n_epochs_done < N_EPOCHS
    finished = run(arguments, program)
    assert finished.returncode == 0, finished.stderr
    assert f"epoch {n_epochs_done}:" not in finished.stdout
    assert f"epoch {N_EPOCHS}:" in finished.stdout


def assert_same_run(one, other):
    first, second = read_checkpoint(one / "last.pt"), read_checkpoint(other / "last.pt")
    for part in ("encoder", "class_head", "turn_head", "pcn"):
        if part in first:
            assert_same_state(first[part], second[part])
    saved = [load_weights(folder / "weights.safetensors") for folder in (one, other)]
    assert_same_state(saved[0].encoder.state_dict(), saved[1].encoder.state_dict())
    assert_same_state(saved[0].pcn.state_dict(), saved[1].pcn.state_dict())


@pytest.fixture(scope="module")
def pretrained(tree):
    shown = run(arguments(tree, "pretrain", "pretrained"))
    assert shown.returncode == 0, shown.stderr
    return tree / "pretrained", shown.stdout


@pytest.fixture(scope="module")
def meta_trained(tree, pretrained):
    weights = pretrained[0] / "weights.safetensors"
    shown = run(arguments(tree, "meta", "meta", "--from", str(weights)))
    assert shown.returncode == 0, shown.stderr
    return tree / "meta", shown.stdout


@pytest.mark.slow
def test_pretraining_leaves_weights_and_a_second_call_has_nothing_left(tree, pretrained):
    folder, stdout = pretrained
    assert f"epoch {N_EPOCHS}: loss" in stdout and "of the time loading" in stdout
    found = load_weights(folder / "weights.safetensors")
    assert found.encoder.meta.input_px == 36 and found.encoder.meta.source == "tree"
    best = read_checkpoint(folder / "best.pt")
    weight = best["encoder"]["stages.0.0.weight"]
    assert torch.equal(found.encoder.stages[0][0].weight, weight.half().float())
    assert found.provenance["history"] == best["history"]
    second = run(arguments(tree, "pretrain", "pretrained"))
    assert second.returncode == 0 and "epoch" not in second.stdout


@pytest.mark.slow
def test_meta_training_starts_from_the_weights_and_exports_what_the_settings_select(
    pretrained, meta_trained
):
    folder, stdout = meta_trained
    assert "before the first task: validation" in stdout
    assert f"epoch {N_EPOCHS}: loss" in stdout and "from last.pt" in stdout
    settings = load_settings(MetaTrainSettings, folder / "settings.toml")
    # The preset robust, changed by the file.
    assert settings.decay_form == "initial" and settings.trains == "both"
    found = load_weights(folder / "weights.safetensors")
    last = read_checkpoint(folder / "last.pt")
    assert torch.equal(found.pcn.linear.weight, last["pcn"]["linear.weight"].half().float())
    assert found.encoder.meta.input_px == 32
    before = found.provenance["started_from"]["provenance"]
    assert before["training"] == "pretrain" and len(before["history"]) >= 1


@pytest.mark.slow
def test_a_pretraining_that_was_killed_is_the_same_to_the_bit(tree, pretrained):
    run_killed_once(tree / "killed", arguments(tree, "pretrain", "killed"))
    assert_same_run(pretrained[0], tree / "killed")


@pytest.mark.slow
def test_a_meta_training_that_was_killed_is_the_same_to_the_bit(tree, pretrained, meta_trained):
    weights = pretrained[0] / "weights.safetensors"
    command = arguments(tree, "meta", "killed-meta", "--from", str(weights))
    run_killed_once(tree / "killed-meta", command)
    assert_same_run(meta_trained[0], tree / "killed-meta")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds the processes below /proc")
@pytest.mark.parametrize("name", ["pretrain", "meta"])
def test_two_processes_train_together_and_go_on_after_one_was_killed(tree, pretrained, name):
    """That both end with the same weights is checked by the command itself."""
    more = ["--from", str(pretrained[0] / "best.pt")]
    whole = run(arguments(tree, name, f"two-{name}", *more), TWO_PROCESSES)
    assert whole.returncode == 0, whole.stderr
    assert whole.stdout.count(f"epoch {N_EPOCHS}:") == 1  # only the first talks
    command = arguments(tree, name, f"two-{name}-killed", *more)
    run_killed_once(tree / f"two-{name}-killed", command, TWO_PROCESSES)
    assert_same_run(tree / f"two-{name}", tree / f"two-{name}-killed")
    assert read_checkpoint(tree / f"two-{name}" / "last.pt")["n_processes"] == 2


def test_mistakes_are_one_line(tree, tmp_path):
    def message(*command):
        shown = run(command)
        assert shown.returncode == 2
        (line,) = shown.stderr.strip().splitlines()
        return line

    def pretrain(*more):
        return message(*arguments(tree, "pretrain", "none", *more))

    broken, partial = tmp_path / "broken.json", tmp_path / "partial.json"
    broken.write_text("{")
    partial.write_text(json.dumps({"train": ["c0"]}))
    assert "is no JSON file" in pretrain("--split", str(broken))
    assert "has no validation classes" in pretrain("--split", str(partial))
    assert "no weights file" in pretrain("--from", str(tmp_path / "absent.pt"))
    # Without a split the tree must be miniImageNet.
    assert "no layout that we know" in message(
        "train", "pretrain", str(tree / "tree"), "--out", "x"
    )
    meta = arguments(tree, "meta", "none", "--from", str(broken))
    assert "not a whole safetensors file" in message(*meta)
    assert "did you mean 'robust'?" in message(*meta, "--preset", "robusd")
    (tmp_path / "odd.toml").write_text("n_wey = 3")
    assert "did you mean 'n_way'?" in message(*meta, "--settings", str(tmp_path / "odd.toml"))


@pytest.mark.slow
def test_the_command_line_goes_before_the_file_and_the_file_before_the_preset(tree, pretrained):
    command = arguments(tree, "meta", "paper", "--from", str(pretrained[0] / "last.pt"))
    shown = run([*command, "--preset", "paper", "--n-epochs", "0"])
    assert shown.returncode == 0, shown.stderr
    settings = load_settings(MetaTrainSettings, tree / "paper" / "settings.toml")
    assert settings.pcn_initialisation == "random"  # the preset
    assert settings.n_tasks == 2  # the file
    assert settings.n_epochs == 0
    shown = run(arguments(tree, "pretrain", "pretrained", "--encoder", "efficientnet_lite0"))
    assert shown.returncode == 2 and "with the encoder resnet10" in shown.stderr
    more = ["--from", str(pretrained[0] / "best.pt"), "--encoder", "efficientnet_lite0"]
    shown = run(arguments(tree, "pretrain", "other", *more))
    assert shown.returncode == 2 and "holds resnet10, not efficientnet_lite0" in shown.stderr


def test_the_transductive_network_learns_on_test_classes_and_goes_on(tree, tmp_path):
    split = {"train": ["c0"], "validation": ["c0", "c1", "c2", "c3", "c4"], "test": ["c5", "c6"]}
    (tmp_path / "split.json").write_text(json.dumps(split))
    (tmp_path / "tpcn.toml").write_text(
        "n_steps = 3\nn_tasks = 1\nn_layers = 1\nmost_ways = 2\nmost_shots = 5\nn_images = 20\n"
        "drawn_classes = 6\n"
        "drawn_images = 20\nimage_px = 36\nn_validation_tasks = 2\nvalidate_every = 1\n"
    )
    given = [
        *(
            "train",
            "meta",
            str(tree / "tree"),
            "--from",
            "resnet10",
            "--out",
            str(tmp_path / "out"),
        ),
        *("--method", "transductive_pcn", "--settings", str(tmp_path / "tpcn.toml")),
    ]
    first = run([*given, "--split", str(tmp_path / "split.json")])
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("learnt minus fixed rule") == 3
    network = (tmp_path / "out" / "network.safetensors").read_bytes()
    again = run([*given, "--split", str(tmp_path / "split.json")])
    assert "learnt minus fixed rule" not in again.stdout
    assert (tmp_path / "out" / "network.safetensors").read_bytes() == network
    without = run([*given, "--split", str(tree / "split.json")])
    assert without.returncode == 2 and "no test classes" in without.stderr
