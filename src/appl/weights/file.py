"""Weights on disk: one safetensors file with encoder, PCN and all that belongs to them.

The header holds the encoder's specification and record, so that any encoder travels with its
weights, what the PCN is, and for a meta-trained rival which method its head belongs to; a file of
another kind or version is refused by name. Values are stored as fp16 and computed with as fp32;
the weights of a run, which must give the same answers again, as they are.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from appl.core.blank import Blank
from appl.core.files import write_atomically
from appl.encoders import Encoder, EncoderSpec, WeightsSource, from_spec
from appl.errors import WeightsError
from appl.method.pcn import PCN
from appl.weights.heads import Head, build_head

FORMAT = "appl-weights-2"
FORMATS = ("appl-weights-1", FORMAT)  # that this version reads


@dataclass(frozen=True)
class Pretrained:
    """An encoder, its prototype network, a rival's head, and where they come from."""

    encoder: Encoder
    pcn: PCN
    provenance: dict[str, Any] = field(default_factory=dict)
    head: Head | None = None
    holds_pcn: bool = True  # whether the file had one; else it is a class mean of ours
    sha256: str = ""  # of the file, where there is one
    beside: tuple[Encoder, ...] = ()  # further encoders, which see the same images at their sizes
    class_head: nn.Linear | None = None  # what classified the source in the encoder's training

    @property
    def encoders(self) -> tuple[Encoder, ...]:
        """All encoders, side by side."""
        return (self.encoder, *self.beside)

    @property
    def name(self) -> str:
        """The names of all encoders, as they are given on the command line."""
        return "+".join(encoder.meta.name for encoder in self.encoders)

    @property
    def source(self) -> str:
        """What the encoders were trained on, in words."""
        return "; ".join(dict.fromkeys(encoder.meta.source for encoder in self.encoders))

    @property
    def modules(self) -> list[nn.Module]:
        """All that has weights."""
        heads = [self.head.module if self.head else None, self.class_head]
        return [self.encoder, self.pcn, *(head for head in heads if head is not None), *self.beside]

    @property
    def record(self) -> dict[str, Any]:
        """What later checkpoints and weights say about their start."""
        return {"sha256": self.sha256, "provenance": self.provenance}


def class_mean_pcn(encoder: Encoder, n_slots: int = 5) -> PCN:
    """Return the untrained PCN of an encoder: the mean of its slots, whatever their sign."""
    pcn = PCN(encoder.meta.width, n_slots, rectifies=encoder.meta.non_negative)
    return pcn.to(encoder.device).eval()


def save_weights(path: Path, pretrained: Pretrained, *, exact: bool = False) -> None:
    """Write encoder, PCN and head with their specification and provenance.

    `exact` keeps every value as it is; else floats become fp16.
    """
    encoder, pcn, head = pretrained.encoder, pretrained.pcn, pretrained.head
    tensors = _named(encoder, "encoder.", exact) | _named(pcn, "pcn.", exact)
    header: dict[str, Any] = {
        "format": FORMAT,
        "encoder": encoder.meta.name,
        "spec": encoder.spec.to_dict(),
        "record": encoder.meta.to_dict(),
        "standardised": encoder.standardise,
        "pcn": {"n_slots": pcn.n_slots, "rectifies": pcn.rectifies},
        "prototypes": pcn.summary,
        "provenance": pretrained.provenance,
    }
    if head is not None:
        tensors |= _named(head.module, "head.", exact)
        header["head"] = [head.name, head.settings, head.n_way]
    if pretrained.class_head is not None:
        tensors |= _named(pretrained.class_head, "class_head.", exact)
        header["n_source_classes"] = pretrained.class_head.out_features
    # In one entry: safetensors writes several in any order, and the same weights would not always
    # be the same file.
    text = json.dumps(header, sort_keys=True)
    write_atomically(path, save(tensors, metadata={"appl": text}))


def load_weights(path: Path, own: Encoder | None = None) -> Pretrained:
    """Read what `save_weights` wrote; `own` is the encoder, where it was a custom module."""
    try:
        with safe_open(path, framework="pt") as file:
            header = _header(file.metadata() or {})
            if header.get("format") not in FORMATS:
                raise WeightsError(
                    f"{path} has format {header.get('format')!r}, this version reads "
                    f"{' and '.join(repr(name) for name in FORMATS)}"
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise WeightsError(f"no weights file at {path}") from error
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{path} is not a whole safetensors file: {error}") from error
    try:
        with Blank():
            encoder, pcn = _built(header, own)
    except (KeyError, TypeError) as error:
        raise WeightsError(f"{path} has a header that is not whole: {error}") from error
    head = None
    if "head" in header:
        name, settings, n_way = header["head"]
        head = build_head(name, settings, n_way, encoder)
    modules: dict[str, nn.Module] = {"encoder.": encoder, "pcn.": pcn}
    class_head = None
    if "n_source_classes" in header:
        class_head = nn.Linear(encoder.meta.width, header["n_source_classes"])
        modules["class_head."] = class_head.eval()
    if head is not None:
        modules["head."] = head.module.eval()
    for prefix, module in modules.items():
        state = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        load_state(module, state, f"{path} does not fit {header['encoder']}")
    return Pretrained(encoder.eval(), pcn.eval(), header["provenance"], head, class_head=class_head)


def load_state(module: nn.Module, state: dict[str, Any], complaint: str) -> None:
    """Load a state dict, or say in one line why it does not fit."""
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise WeightsError(f"{complaint}: {reason}") from error


def _header(metadata: dict[str, str]) -> dict[str, Any]:
    """Return what a file says of itself; the first format had an entry for each part."""
    if "appl" in metadata:
        header: dict[str, Any] = json.loads(metadata["appl"])
        return header
    parts = ("source", "provenance", "head")
    return {k: json.loads(v) if k in parts else v for k, v in metadata.items()}


def _built(header: dict[str, Any], own: Encoder | None) -> tuple[Encoder, PCN]:
    if header["format"] == "appl-weights-1":  # registered encoders only, named by the header
        encoder = from_spec(EncoderSpec("registered", header["encoder"]))
        source = WeightsSource(*header["source"])
        encoder.meta = replace(encoder.meta, input_px=int(header["input_px"]), weights=source)
        return encoder, class_mean_pcn(encoder, int(header["n_slots"]))
    encoder = from_spec(EncoderSpec(**header["spec"]), header["record"], own)
    encoder.standardise = header["standardised"]
    return encoder, PCN(encoder.meta.width, **header["pcn"])


def _named(module: nn.Module, prefix: str, exact: bool) -> dict[str, Tensor]:
    state = {prefix + name: value.detach().cpu() for name, value in module.state_dict().items()}
    if not exact:
        state = {k: v.half() if v.is_floating_point() else v for k, v in state.items()}
    return {name: value.contiguous() for name, value in state.items()}
