"""Weights on disk: one safetensors file with encoder, PCN and all that belongs to them.

The header says which encoder it is, at which image size it is used and where it comes from, and
for a meta-trained rival which method its head belongs to; a file of another kind or version is
refused by name. Values are stored as fp16 and computed with as fp32.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from appl.core.files import write_atomically
from appl.encoders import ENCODERS, Encoder, WeightsSource
from appl.errors import WeightsError
from appl.method.pcn import PCN
from appl.training.heads import Head, build_head

FORMAT = "appl-weights-1"


@dataclass(frozen=True)
class Pretrained:
    """An encoder, its prototype network or a rival's head, and where they come from."""

    encoder: Encoder
    pcn: PCN
    provenance: dict[str, Any]
    head: Head | None = None

    @property
    def modules(self) -> list[nn.Module]:
        """All that has weights."""
        return [self.encoder, self.pcn, *([self.head.module] if self.head else [])]


def save_weights(
    path: Path,
    encoder: Encoder,
    pcn: PCN,
    source: WeightsSource,
    provenance: dict[str, Any],
    head: Head | None = None,
) -> None:
    """Write encoder, PCN and head with their preprocessing and provenance."""
    tensors = _half(encoder.state_dict(), "encoder.") | _half(pcn.state_dict(), "pcn.")
    header = {
        "format": FORMAT,
        "encoder": encoder.meta.name,
        "input_px": str(encoder.meta.input_px),
        "n_slots": str(pcn.n_slots),
        "source": json.dumps([source.name, source.version, source.licence, source.trained_on]),
        "provenance": json.dumps(provenance, sort_keys=True),
    }
    if head is not None:
        tensors |= _half(head.module.state_dict(), "head.")
        header["head"] = json.dumps([head.name, head.settings, head.n_way])
    write_atomically(path, save(tensors, metadata=header))


def load_weights(path: Path) -> Pretrained:
    """Read what `save_weights` wrote."""
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("format") != FORMAT:
                raise WeightsError(
                    f"{path} has format {header.get('format')!r}, this version reads {FORMAT!r}"
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise WeightsError(f"no weights file at {path}") from error
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{path} is not a whole safetensors file: {error}") from error
    encoder = ENCODERS.get(header["encoder"])()
    pcn = PCN(encoder.meta.width, int(header["n_slots"]))
    head = None
    if "head" in header:
        name, settings, n_way = json.loads(header["head"])
        head = build_head(name, settings, n_way, encoder.meta.width)
    modules: dict[str, nn.Module] = {"encoder.": encoder, "pcn.": pcn}
    if head is not None:
        modules["head."] = head.module.eval()
    for prefix, module in modules.items():
        state = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        try:
            module.load_state_dict(state)
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip()
            raise WeightsError(f"{path} does not fit {header['encoder']}: {reason}") from error
    encoder.meta = replace(
        encoder.meta,
        input_px=int(header["input_px"]),
        weights=WeightsSource(*json.loads(header["source"])),
    )
    return Pretrained(encoder.eval(), pcn.eval(), json.loads(header["provenance"]), head)


def _half(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        prefix + name: (value.half() if value.is_floating_point() else value).contiguous()
        for name, value in state.items()
    }


__all__ = ["Pretrained", "load_weights", "save_weights"]
