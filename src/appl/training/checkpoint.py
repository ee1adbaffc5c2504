"""Where a checkpoint comes from: a training goes on only from one of its own.

The origin says which training wrote it, with which settings, on which images and from which
weights. Keys that an older version did not write are taken to agree.
"""

import hashlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from appl._version import __version__
from appl.datasets.packed import PackedImages
from appl.encoders import Encoder, WeightsSource
from appl.errors import WeightsError
from appl.settings.files import structure_settings
from appl.weights.loading import UNRECORDED


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


def _sha256(content: dict[str, Any]) -> str | None:
    started_from = content["started_from"]
    return None if started_from is None else str(started_from["sha256"])


def trained_on(encoder: Encoder, source_name: str, image_px: int) -> None:
    """Write into the encoder's record on which source, and at which size, it is now trained."""
    before = encoder.meta.weights
    names = before.trained_on.split(", then ") if before else []
    # "miniImageNet, 64 training classes" is the source miniimagenet already.
    known = [name for name in names if name.casefold().startswith(source_name.casefold())]
    source_name = known[0] if known else source_name
    licences = before.licence.split(", then ") if before else []
    weights = WeightsSource(
        "appl",
        __version__,
        ", then ".join(dict.fromkeys([*licences, UNRECORDED.licence])),
        ", then ".join(dict.fromkeys([*names, source_name])),
    )
    encoder.meta = replace(encoder.meta, input_px=image_px, weights=weights)
