"""Checkpoints of a training: torch files of tensors and plain values, whole or not there."""

import io
import os
import pickle
from pathlib import Path
from typing import Any

import torch

from appl.core.files import write_atomically
from appl.errors import WeightsError

# Keys that go into the header of exported weights.
PROVENANCE = (
    "training", "settings", "history", "head_history", "images", "started_from", "n_processes",
)  # fmt: skip


def write_checkpoint(path: Path, content: dict[str, Any], *copies: Path) -> None:
    """Write tensors and plain values, all or nothing; then the same under other names.

    A copy is a second name of the same file where the file system has such, which takes no time.
    """
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_atomically(path, buffer.getvalue())
    for copy in copies:
        linked = copy.with_name(f".{copy.name}.{os.getpid()}")
        try:
            linked.hardlink_to(path)
        except OSError:
            write_atomically(copy, buffer.getvalue())
        else:
            linked.replace(copy)


def read_checkpoint(
    path: Path, needs: frozenset[str] = frozenset({"settings", "encoder", "history"})
) -> dict[str, Any]:
    """Read what `write_checkpoint` wrote, onto the processor; it must hold all that is needed."""
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise WeightsError(f"no checkpoint at {path}") from error
    except (RuntimeError, OSError, EOFError, pickle.UnpicklingError) as error:
        raise WeightsError(
            f"{path} is not a whole checkpoint of `appl train`; remove it or give another"
        ) from error
    if not isinstance(saved, dict) or not needs <= set(saved):
        raise WeightsError(f"{path} is not a checkpoint of `appl train`; give best.pt or last.pt")
    return saved
