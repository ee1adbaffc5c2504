"""The one door to weights: by the name of an encoder, or from a file or folder that holds some.

- `resnet10`: weights that ship, travel in a package or were fetched;
- `dinov2_vits14@FILE`: the network of that name with a file that was brought along;
- `timm:MODEL`, `timm:MODEL@FILE`: a network of timm's, with its weights or those of a file;
- a file or folder: `.safetensors` of ours, a checkpoint of `appl train` (best.pt, last.pt), the
  folder of a run of `appl label`;
- `A+B`: two or more of these side by side, each at its own size.
"""

import hashlib
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from torch import nn

from appl.core.blank import Blank
from appl.encoders import (
    ENCODERS,
    Encoder,
    EncoderSpec,
    WeightsSource,
    bring,
    from_spec,
    from_timm,
)
from appl.errors import UnknownNameError, WeightsError
from appl.method.pcn import PCN
from appl.weights.checkpoint import PROVENANCE, read_checkpoint
from appl.weights.file import Pretrained, class_mean_pcn, load_state, load_weights, save_weights
from appl.weights.heads import build_head
from appl.weights.hub import fetched_encoder

SHIPPED = {"resnet10": "resnet10-miniimagenet.safetensors"}
TIMM = "timm:"
RUN_WEIGHTS = "model/encoder.safetensors"  # in the folder of a run
UNRECORDED = WeightsSource("appl", "unknown", "as the source's images", "not recorded")


def load_pretrained(name: str | Path = "resnet10", own: Encoder | None = None) -> Pretrained:
    """Return encoder and PCN with their preprocessing and provenance.

    `name` is one of the forms above. The encoder of `resnet10` is ours, trained on miniImageNet.
    Where there is no trained PCN, it is a class mean. `own` is the encoder of the file, where that
    was a module of your own.
    """
    text = str(name)
    if "+" in text and not Path(text).exists():
        parts = [load_pretrained(part) for part in text.split("+") if part]
        return replace(parts[0], beside=tuple(part.encoder for part in parts[1:]))
    if text in SHIPPED:
        place = resources.files("appl.weights").joinpath(SHIPPED[text])
        with resources.as_file(place) as path:
            return load_weights(path)
    path = Path(text)
    if text not in ENCODERS.names():
        if path.is_dir():
            return _from_run(path, own)
        if path.is_file():
            return load_file(path, own)
    encoder = _by_name(text)
    return Pretrained(encoder.eval(), class_mean_pcn(encoder), holds_pcn=False)


def _by_name(text: str) -> Encoder:
    """Build an encoder by NAME, NAME@FILE, timm:MODEL or timm:MODEL@FILE."""
    base, _, file = text.partition("@")
    if base.startswith(TIMM):
        return from_timm(base.removeprefix(TIMM), Path(file) if file else None)
    if base not in ENCODERS.names() and Path(base).suffix in (".safetensors", ".pt"):
        raise WeightsError(f"no weights file at {text}")
    entry = ENCODERS.get(base)
    if file:
        return bring(base, Path(file))
    if entry.packaged_weights is not None:
        return entry()
    if entry.hub is not None:
        return fetched_encoder(base)
    raise UnknownNameError(f"{base} has no weights of its own; give {base}@FILE")


def load_file(path: Path, own: Encoder | None = None) -> Pretrained:
    """Read a weights file (.safetensors), or a checkpoint (best.pt, last.pt) of a training."""
    try:
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise WeightsError(f"no weights file at {path}: {error.strerror}") from error
    with path.open("rb") as file:
        is_checkpoint = file.read(2) == b"PK"  # torch's files are zip archives
    found = _from_checkpoint(path) if is_checkpoint else load_weights(path, own)
    return replace(found, sha256=sha256)


def weights_digest(pretrained: Pretrained) -> str:
    """Identify encoder, PCN and heads by their values."""
    digest = hashlib.sha256()
    for module in pretrained.modules:
        for name, value in sorted(module.state_dict().items()):
            digest.update(name.encode())
            digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def export_weights(checkpoint: Path, path: Path, source: WeightsSource | None = None) -> None:
    """Write a checkpoint's encoder, PCN and head as a weights file; no PCN: the class mean.

    `source` is for a checkpoint that does not say itself what it was trained on.
    """
    found = load_file(checkpoint)
    if source is not None and found.encoder.meta.weights in (None, UNRECORDED):
        found.encoder.meta = replace(found.encoder.meta, weights=source)
    provenance = {**found.provenance, "checkpoint": checkpoint.name}
    save_weights(path, replace(found, provenance=provenance))


def _from_run(folder: Path, own: Encoder | None) -> Pretrained:
    """Take over encoder and PCN of a run, with what it has learnt of the domain."""
    path = folder / RUN_WEIGHTS
    if not path.exists():
        path = folder / Path(RUN_WEIGHTS).name
    if not path.exists():
        raise WeightsError(f"{folder} holds no model; give the folder of a finished run")
    found = load_file(path, own)
    others = sorted(path.parent.glob(f"{path.stem}-*{path.suffix}"))
    beside = tuple(load_file(other, own).encoder for other in others)
    return replace(found, provenance={"previous_run": found.provenance}, beside=beside)


def _from_checkpoint(path: Path) -> Pretrained:
    saved = read_checkpoint(path)
    with Blank():
        encoder = _encoder_of(saved)
    load_state(encoder, saved["encoder"], f"{path} does not fit")
    pcn = class_mean_pcn(encoder)
    if "pcn" in saved:
        n_slots = saved["settings"]["prototypes"]["n_slots"]
        with Blank():
            pcn = PCN(encoder.meta.width, n_slots, rectifies=encoder.meta.non_negative)
        load_state(pcn, saved["pcn"], f"{path} does not fit")
    head = None
    if "head" in saved:
        chosen = saved["settings"]
        head = build_head(chosen["method"], chosen["method_settings"], chosen["n_way"], encoder)
        load_state(head.module, saved["head"], f"{path} does not fit")
        head.module.eval()
    class_head = None
    if "class_head" in saved:
        class_head = nn.Linear(encoder.meta.width, len(saved["class_head"]["bias"])).eval()
        load_state(class_head, saved["class_head"], f"{path} does not fit")
    provenance = {key: saved[key] for key in PROVENANCE if key in saved}
    return Pretrained(
        encoder.eval(), pcn.eval(), provenance, head, "pcn" in saved, class_head=class_head
    )


def _encoder_of(saved: dict[str, Any]) -> Encoder:
    # The first version trained ResNet10 only, and wrote down neither name nor size nor source.
    encoder = from_spec(EncoderSpec("registered", saved.get("encoder_name", "resnet10")))
    weights = saved.get("weights_source")
    encoder.meta = replace(
        encoder.meta,
        input_px=saved.get("input_px", encoder.meta.input_px),
        weights=WeightsSource(**weights) if weights else UNRECORDED,
    )
    return encoder
