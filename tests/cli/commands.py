"""Commands as a user gives them, run in this process: a new one takes seconds to load PyTorch.

What is about processes (kills, several of them, what is imported) starts real ones in its test.
"""

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

import torch

from appl.cli.app import main


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `appl …` and return what it printed and its exit code."""
    stdout, stderr = io.StringIO(), io.StringIO()
    code: object = 0
    state = torch.get_rng_state()
    with (
        patch.object(sys, "argv", ["appl", *arguments]),
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        finally:
            torch.set_rng_state(state)
    assert isinstance(code, int)
    return subprocess.CompletedProcess(arguments, code, stdout.getvalue(), stderr.getvalue())
