"""Reading the field's ResNet10 checkpoints: `feature.trunk.*` state dicts saved by torch.

They are torch files whatever their name (`399.tar`), `{"epoch": …, "state": {…}}`, sometimes the
bare dict or, very old, `model_state`. Read with `weights_only=True`: no code in the file runs.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from appl.encoders._encoder import Encoder
from appl.encoders.resnet10 import resnet10
from appl.errors import WeightsError

# Heads and feature-wise transformations that belong to a training method, not to the encoder.
_LEFT_OUT = re.compile(r"^(classifier|gnn|fc|relation_module|loss_fn)\.|\.(gamma|beta)$")
_BLOCK_NAMES = {
    "C1": "conv1",
    "BN1": "norm1",
    "C2": "conv2",
    "BN2": "norm2",
    "shortcut": "shortcut.0",
    "BNshortcut": "shortcut.1",
}


def import_resnet10(path: Path) -> Encoder:
    """Build a ResNet10 with the weights of a checkpoint in the field's names."""
    ours: dict[str, Tensor] = {}
    for name, value in _read_state(path).items():
        if _LEFT_OUT.search(name):
            continue
        if not isinstance(value, Tensor):
            raise WeightsError(f"{path}: {name!r} is a {type(value).__name__}, not a tensor")
        ours[_our_name(name, path)] = value
    encoder = resnet10()
    expected = encoder.state_dict()
    # Files older than torch 0.4.1 do not count batches; the count has no effect on features.
    for name in expected:
        if name.endswith("num_batches_tracked"):
            ours.setdefault(name, torch.tensor(0))
    missing = [name for name in expected if name not in ours]
    if missing:
        raise WeightsError(f"{path} is no whole ResNet10: {missing[0]!r} is missing")
    for name, value in ours.items():
        if value.shape != expected[name].shape:
            raise WeightsError(
                f"{path}: {name!r} has shape {tuple(value.shape)}, "
                f"ResNet10 needs {tuple(expected[name].shape)}"
            )
    encoder.load_state_dict(ours)
    return encoder.eval()


def _read_state(path: Path) -> Mapping[str, Any]:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise WeightsError(f"no weights file at {path}") from error
    except Exception as error:  # the unpickler fails in many ways on a file that is not its own
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "unreadable"
        raise WeightsError(f"{path} holds more than tensors or is damaged: {reason}") from error
    for key in ("state", "model_state"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
            break
    if not isinstance(content, Mapping) or not all(isinstance(name, str) for name in content):
        raise WeightsError(f"{path} holds no state dict with names like 'feature.trunk.0.weight'")
    return content


def _our_name(name: str, path: Path) -> str:
    match = re.fullmatch(r"(?:feature\.)?trunk\.(\d+)\.(.+)", name)
    if match:
        index, rest = int(match[1]), match[2]
        if index in (0, 1):
            return f"stages.0.{index}.{rest}"
        layer, _, leaf = rest.partition(".")
        if 4 <= index <= 7 and layer in _BLOCK_NAMES and leaf:
            return f"stages.{index - 3}.{_BLOCK_NAMES[layer]}.{leaf}"
    raise WeightsError(f"{path}: {name!r} belongs to no ResNet10 that we know; not imported")
