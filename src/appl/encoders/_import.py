"""Weights files that are not ours: tensors under the names of the field, timm or a hub.

Read from safetensors, or from torch files whatever their name (`399.tar`) with `weights_only=True`:
no code in the file runs. An encoder's entry says how the names become ours.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from appl.core.blank import Blank
from appl.encoders._encoder import Encoder
from appl.encoders._meta import WeightsSource
from appl.encoders._registry import ENCODERS
from appl.errors import WeightsError

# A checkpoint of a training holds the weights under one of these.
_WRAPPERS = ("state", "model_state", "state_dict", "model", "teacher")


def bring(name: str, path: Path) -> Encoder:
    """Build the encoder called `name` with the weights of a file that was brought along."""
    entry = ENCODERS.get(name)
    if entry.convert is None:
        raise WeightsError(f"{name} takes no files of others; give a .safetensors file of ours")
    state = read_state(path)
    try:
        ours = entry.convert(state)
    except WeightsError as error:
        raise WeightsError(f"{path}: {error}") from error
    with Blank():
        encoder = entry.build()
    load_checked(encoder, ours, path, name)
    known = entry.published or entry.meta.weights
    source = WeightsSource(
        name=path.name,
        version="as given",
        licence=known.licence if known else "not recorded",
        trained_on=known.trained_on if known else "not recorded",
        sha256=file_digest(path),
    )
    encoder.meta = replace(encoder.meta, weights=source)
    return encoder.eval()


def import_resnet10(path: Path) -> Encoder:
    """Build a ResNet10 with the weights of a checkpoint in the field's names."""
    return bring("resnet10", path)


def load_checked(encoder: Encoder, ours: dict[str, Tensor], path: Path, name: str) -> None:
    """Load tensors, or say in one line which one is missing or has another shape."""
    expected = encoder.state_dict()
    # Files older than torch 0.4.1 do not count batches; the count has no effect on features.
    for key in expected:
        if key.endswith("num_batches_tracked"):
            ours.setdefault(key, torch.tensor(0))
    missing = [key for key in expected if key not in ours]
    if missing:
        raise WeightsError(f"{path} is no whole {name}: {missing[0]!r} is missing")
    for key, value in ours.items():
        if key not in expected:
            raise WeightsError(f"{path} is no {name}: it has {key!r} besides")
        if value.shape != expected[key].shape:
            raise WeightsError(
                f"{path}: {key!r} has shape {tuple(value.shape)}, "
                f"{name} needs {tuple(expected[key].shape)}"
            )
    encoder.load_state_dict(ours)


def read_state(path: Path) -> Mapping[str, Tensor]:
    """Read the tensors of a file by their names."""
    if not path.is_file():
        raise WeightsError(f"no weights file at {path}")
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except (SafetensorError, OSError) as error:
            raise WeightsError(f"{path} is not a whole safetensors file: {error}") from error
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the unpickler fails in many ways on a file that is not its own
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "unreadable"
        raise WeightsError(f"{path} holds more than tensors or is damaged: {reason}") from error
    for key in _WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
            break
    if not isinstance(content, Mapping) or not all(isinstance(name, str) for name in content):
        raise WeightsError(f"{path} holds no tensors by name (a state dict)")
    found: dict[str, Any] = dict(content)
    for name, value in found.items():
        if not isinstance(value, Tensor):
            raise WeightsError(f"{path}: {name!r} is a {type(value).__name__}, not a tensor")
    return found


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
