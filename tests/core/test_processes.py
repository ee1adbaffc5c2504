import os
import signal
import subprocess
import sys
import time

PROGRAM = """
import multiprocessing, os, time
from concurrent.futures import ProcessPoolExecutor
from appl.core.processes import end_with_parent

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, end_with_parent) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        time.sleep(600)
"""


def test_a_worker_ends_when_its_parent_is_killed(tmp_path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    assert _is_alive(worker)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    for _ in range(300):
        if not _is_alive(worker):
            return
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    raise AssertionError("the worker lived on")


def _is_alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be collected does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
