import os
import subprocess
import sys

import pytest
import torch

from appl.errors import SettingsError
from appl.training.distributed import ALONE, Processes, device_of_process, joined_processes

SCRIPT = """
import time
from pathlib import Path

import torch
from torch import nn
from appl.training.distributed import joined_processes

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()
inputs, class_ids = torch.randn(8, 6).double(), torch.arange(8) % 3


def gradients(rows):
    model.zero_grad()
    nn.functional.cross_entropy(model(inputs[rows]), class_ids[rows]).backward()
    return [p.grad.clone() for p in model.parameters()]


with joined_processes(torch.device("cpu")) as processes:
    assert processes.n_processes == 2
    whole = gradients(slice(None))
    mine = gradients(slice(processes.rank, None, 2))
    assert not torch.allclose(mine[0], whole[0])
    processes.average(mine)
    for a, b in zip(mine, whole):
        torch.testing.assert_close(a, b)

    made = Path(__file__).with_name("made")
    with processes.first_goes_ahead():
        if processes.is_first:
            time.sleep(0.5)
            made.touch()
        assert made.exists()
    processes.check_equal(model)
    with torch.no_grad():
        model[0].weight[0, 0] += processes.rank * 1e-12
    try:
        processes.check_equal(model)
    except RuntimeError as error:
        print(processes.rank, error, flush=True)
"""


def test_one_process_needs_no_group(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined_processes(torch.device("cpu")) as processes:
        assert processes is ALONE and processes.is_first
        assert not torch.distributed.is_initialized()
        value = torch.tensor([3.0])
        processes.average([value])
        processes.wait()
        processes.check_equal(torch.nn.Linear(1, 1))
        assert value.item() == 3


def test_a_number_that_cannot_be_shared_out_is_refused():
    Processes(0, 2).check_divides("n_tasks", 100)
    with pytest.raises(SettingsError, match="n_tasks = 100 cannot be shared out among 3 processes"):
        Processes(0, 3).check_divides("n_tasks", 100)


def test_every_process_has_its_own_cuda_device(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device_of_process("auto") == device_of_process("cuda") == "cuda:1"
    assert device_of_process("cpu") == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of_process("auto") == "auto"


@pytest.mark.slow
def test_two_processes_average_to_the_whole_batch_and_notice_a_difference(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    shown = subprocess.run(
        [*command, "--nproc-per-node", "2", str(tmp_path / "script.py")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("the weights of 2 processes are not the same") == 2
