"""How a run came about, kept beside its labels: for the report and for `appl explain`."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from appl.core.files import write_atomically
from appl.labelling.checks import Finding
from appl.labelling.fitting import Fit
from appl.labelling.left_out import LeftOut
from appl.labelling.maps import two_maps


@dataclass(frozen=True)
class History:
    """The record of a fit in plain values and small tensors."""

    records: list[dict[str, Any]]  # of every iteration, without its labels
    labels: Tensor  # (n_iterations, n_pool) int16, −1: not taken yet
    pool: Tensor  # (n_pool,) index into the pile
    left_out: LeftOut
    frozen_left_out: LeftOut
    maps: Tensor  # (2, n_examples + n_pool, 2): before and after
    facts: dict[str, Any]  # fell_back, doubtful_examples, changes, findings, stage seconds

    @classmethod
    def of(cls, fit: Fit, findings: list[Finding]) -> "History":
        """Take from a fit what is worth keeping."""
        records = []
        for record in fit.records:
            values = {key: getattr(record, key) for key in record.__dataclass_fields__}
            del values["labels"]
            records.append(values)
        labels = [record.labels.to(torch.int16) for record in fit.records]
        n_pool = len(fit.pool)
        return cls(
            records=records,
            labels=torch.stack(labels) if labels else torch.empty(0, n_pool, dtype=torch.int16),
            pool=fit.pool,
            left_out=fit.left_out,
            frozen_left_out=fit.frozen_left_out,
            maps=two_maps(fit.before, fit.after),
            facts={
                "fell_back": list(fit.fell_back),
                "doubtful_examples": [list(entry) for entry in fit.doubtful_examples],
                "changes": list(fit.changes),
                "findings": [asdict(finding) for finding in findings],
            },
        )

    def save(self, folder: Path) -> None:
        """Write history.safetensors, then history.json."""
        tensors = {"labels": self.labels, "pool": self.pool, "maps": self.maps}
        for name in ("left_out", "frozen_left_out"):
            value = getattr(self, name)
            tensors |= {f"{name}.{key}": getattr(value, key) for key in _PARTS}
        # Copies: what was not adapted is the same tensor before and after.
        kept = {name: value.clone().contiguous() for name, value in tensors.items()}
        write_atomically(folder / "history.safetensors", save(kept))
        text = json.dumps({"records": self.records, "facts": self.facts})
        write_atomically(folder / "history.json", text.encode())

    @classmethod
    def load(cls, folder: Path) -> "History":
        """Read what `save` wrote."""
        values = json.loads((folder / "history.json").read_text(encoding="utf-8"))
        tensors = load((folder / "history.safetensors").read_bytes())
        left_out, frozen = (
            LeftOut(*(tensors[f"{name}.{key}"] for key in _PARTS))
            for name in ("left_out", "frozen_left_out")
        )
        return cls(
            values["records"],
            tensors["labels"],
            tensors["pool"],
            left_out,
            frozen,
            tensors["maps"],
            values["facts"],
        )


_PARTS = ("rows", "class_ids", "scores", "to_class", "to_example")
