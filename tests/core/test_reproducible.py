"""The same numbers whatever number of threads the matrix library takes."""

import os
import subprocess
import sys

import pytest
import torch

CODE = """
import appl, hashlib, torch
from appl.core.information import information_weights
draw = torch.Generator().manual_seed(0)
rows = torch.nn.functional.normalize(torch.randn(94, 1280, generator=draw), dim=1)
weights = information_weights(rows[:35], torch.arange(35) // 5, rows[35:], n_iterations=40)
print(hashlib.sha256(weights.numpy().tobytes()).hexdigest())
"""


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="another matrix library")
def test_class_weights_are_the_same_to_the_bit_with_one_thread_and_with_two():
    found = set()
    for n_threads in ("1", "2"):
        variables = {k: v for k, v in os.environ.items() if k != "MKL_CBWR"}
        run = subprocess.run(
            [sys.executable, "-c", CODE],
            env=variables | {"OMP_NUM_THREADS": n_threads},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(run.stdout.strip())
    assert len(found) == 1


def test_a_users_own_choice_stays():
    code = "import os, appl; print(os.environ['MKL_CBWR'], os.environ['MKL_DYNAMIC'])"
    chosen = os.environ | {"MKL_CBWR": "COMPATIBLE", "MKL_DYNAMIC": "TRUE"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=chosen, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "COMPATIBLE TRUE"
