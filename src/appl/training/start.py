"""Where a training starts, and what it leaves: checkpoints and weights files, read alike."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from appl._version import __version__
from appl.encoders import ENCODERS, Encoder, WeightsSource
from appl.errors import WeightsError
from appl.method.pcn import PCN
from appl.training.checkpoint import PROVENANCE, read_checkpoint
from appl.training.heads import Head, build_head
from appl.training.weights import load_weights, save_weights

UNRECORDED = WeightsSource("appl", "unknown", "as the source's images", "not recorded")


@dataclass(frozen=True)
class Start:
    """Weights to start from; `pcn` is None where the file holds an encoder only."""

    encoder: Encoder
    pcn: PCN | None
    provenance: dict[str, Any]
    sha256: str
    head: Head | None = None  # of a meta-trained rival

    @property
    def record(self) -> dict[str, Any]:
        """What later checkpoints and weights say about their start."""
        return {"sha256": self.sha256, "provenance": self.provenance}


def load_start(path: Path) -> Start:
    """Read a weights file (.safetensors), or a checkpoint (best.pt, last.pt) of either training."""
    try:
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise WeightsError(f"no weights file at {path}: {error.strerror}") from error
    with path.open("rb") as file:
        is_checkpoint = file.read(2) == b"PK"  # torch's files are zip archives
    if not is_checkpoint:
        found = load_weights(path)
        return Start(found.encoder, found.pcn, found.provenance, sha256, found.head)
    saved = read_checkpoint(path)
    # The first version trained ResNet10 only, and wrote down neither name nor size nor source.
    encoder = ENCODERS.get(saved.get("encoder_name", "resnet10"))()
    _load(path, encoder, saved["encoder"])
    weights = saved.get("weights_source")
    encoder.meta = replace(
        encoder.meta,
        input_px=saved.get("input_px", encoder.meta.input_px),
        weights=WeightsSource(**weights) if weights else UNRECORDED,
    )
    pcn = None
    if "pcn" in saved:
        pcn = PCN(encoder.meta.width, saved["settings"]["prototypes"]["n_slots"])
        _load(path, pcn, saved["pcn"])
        pcn.eval()
    head = None
    if "head" in saved:
        chosen = saved["settings"]
        head = build_head(
            chosen["method"], chosen["method_settings"], chosen["n_way"], encoder.meta.width
        )
        _load(path, head.module, saved["head"])
        head.module.eval()
    provenance = {key: saved[key] for key in PROVENANCE if key in saved}
    return Start(encoder.eval(), pcn, provenance, sha256, head)


def export_weights(checkpoint: Path, path: Path, source: WeightsSource | None = None) -> None:
    """Write a checkpoint's encoder, PCN and head as a weights file; no PCN: the class mean.

    `source` is for a checkpoint that does not say itself what it was trained on.
    """
    found = load_start(checkpoint)
    pcn = found.pcn or PCN(found.encoder.meta.width)
    provenance = {**found.provenance, "checkpoint": checkpoint.name}
    recorded = found.encoder.meta.weights or UNRECORDED
    if recorded is UNRECORDED and source is not None:
        recorded = source
    save_weights(path, found.encoder, pcn, recorded, provenance, found.head)


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


def _load(path: Path, module: nn.Module, state: dict[str, Any]) -> None:
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise WeightsError(f"{path} does not fit: {reason}") from error
