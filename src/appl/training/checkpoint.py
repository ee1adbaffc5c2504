"""Checkpoints: what a training must know to go on to the bit, and where it comes from.

A checkpoint is a torch file of tensors and plain values. Its origin says which training wrote it,
with which settings, on which images and from which weights; a run goes on only where all of that
is the same. Keys that an older version did not write are taken to agree.
"""

import hashlib
import io
import pickle
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from appl.core.files import write_atomically
from appl.datasets.packed import PackedImages
from appl.encoders import Encoder
from appl.errors import WeightsError
from appl.settings.files import structure_settings

# Keys of the origin that go into the header of exported weights.
PROVENANCE = ("training", "settings", "history", "images", "started_from", "n_processes")


def origin_of(
    training: str,
    encoder: Encoder,
    settings: Any,
    images: str,
    started_from: dict[str, Any] | None,
    n_processes: int,
) -> dict[str, Any]:
    """Describe a training, as part of its checkpoints; `images` is an `images_digest`."""
    weights = encoder.meta.weights
    return {
        "training": training,
        "settings": asdict(settings),
        "images": images,
        "started_from": started_from,
        "n_processes": n_processes,
        "encoder_name": encoder.meta.name,
        "input_px": encoder.meta.input_px,
        "weights_source": asdict(weights) if weights else None,
    }


def images_digest(source: PackedImages, *class_lists: list[str]) -> str:
    """Identify images, their size and which classes are for what."""
    parts = [source.digest, str(source.size_px), *("\0".join(c) for c in class_lists)]
    return hashlib.sha256("\1".join(parts).encode()).hexdigest()


def check_origin(path: Path, saved: dict[str, Any], origin: dict[str, Any], settings: Any) -> None:
    """Refuse to go on from a checkpoint of another training."""
    if saved.get("training", "pretrain") != origin["training"]:
        reason = f"by `appl train {saved.get('training', 'pretrain')}`"
    elif saved.get("encoder_name", origin["encoder_name"]) != origin["encoder_name"]:
        reason = f"with the encoder {saved['encoder_name']}"
    elif structure_settings(type(settings), saved["settings"], str(path)) != settings:
        reason = "with other settings"
    elif saved.get("images", origin["images"]) != origin["images"]:
        reason = "with other images or another split"
    elif "started_from" in saved and _sha256(saved) != _sha256(origin):
        reason = "from other first weights (--from)"
    else:
        return
    raise WeightsError(f"{path} was made {reason}; choose another folder")


def write_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write tensors and plain values, all or nothing."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_atomically(path, buffer.getvalue())


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read what `write_checkpoint` wrote, onto the processor."""
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise WeightsError(f"no checkpoint at {path}") from error
    except (RuntimeError, OSError, EOFError, pickle.UnpicklingError) as error:
        raise WeightsError(
            f"{path} is not a whole checkpoint of `appl train`; remove it or give another"
        ) from error
    if not isinstance(saved, dict) or not {"settings", "encoder", "history"} <= set(saved):
        raise WeightsError(f"{path} is not a checkpoint of `appl train`; give best.pt or last.pt")
    return saved


def _sha256(content: dict[str, Any]) -> str | None:
    started_from = content["started_from"]
    return None if started_from is None else str(started_from["sha256"])
