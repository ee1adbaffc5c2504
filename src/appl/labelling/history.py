"""How a run came about, kept beside its labels: for the report and for `appl explain`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load, save
from torch import Tensor

from appl.core.files import write_atomically
from appl.labelling.fitting import Fit
from appl.labelling.left_out import LeftOut

MAX_COMPONENTS = 30  # that a map is made from; more would change nothing in it


@dataclass(frozen=True)
class History:
    """The record of a fit in plain values and small tensors."""

    records: list[dict[str, Any]]  # of every iteration, without its labels
    labels: Tensor  # (n_iterations, n_pool) int16, −1: not taken yet
    pool: Tensor  # (n_pool,) index into the pile
    left_out: LeftOut
    frozen_left_out: LeftOut
    vectors: Tensor  # (2, n_examples + n_pool, few): features before and after, for a map
    facts: dict[str, Any]  # fell_back, doubtful_examples, augmentations, findings

    @classmethod
    def of(cls, fit: Fit, findings: list[dict[str, Any]]) -> "History":
        """Take from a fit what is worth keeping."""
        records = []
        for record in fit.records:
            values = {key: getattr(record, key) for key in record.__dataclass_fields__}
            del values["labels"]
            records.append(values)
        labels = [record.labels.to(torch.int16) for record in fit.records]
        n_pool = len(fit.pool)
        before = reduced(fit.before)
        after = before if fit.after is fit.before else reduced(fit.after)
        return cls(
            records=records,
            labels=torch.stack(labels) if labels else torch.empty(0, n_pool, dtype=torch.int16),
            pool=fit.pool,
            left_out=fit.left_out,
            frozen_left_out=fit.frozen_left_out,
            vectors=torch.stack([before, after]),
            facts={
                "fell_back": list(fit.fell_back),
                "doubtful_examples": [list(entry) for entry in fit.doubtful_examples],
                "augmentations": list(fit.augmentations),
                "findings": findings,
            },
        )

    def save(self, folder: Path) -> None:
        """Write history.safetensors, then history.json."""
        tensors = {"labels": self.labels, "pool": self.pool, "vectors": self.vectors}
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
            tensors["vectors"],
            values["facts"],
        )


_PARTS = ("rows", "class_ids", "scores", "to_class", "to_example")


def reduced(features: Tensor) -> Tensor:
    """Return the principal components of the features' directions (n, at most MAX_COMPONENTS)."""
    vectors = F.normalize(features.double() - features.double().mean(0), dim=1)
    centred = vectors - vectors.mean(0)
    n_kept = min(MAX_COMPONENTS, len(vectors) - 1, vectors.shape[1])
    # By the products of images, or of features, whichever are fewer: far quicker than by all axes.
    if len(centred) < centred.shape[1]:
        values, left = torch.linalg.eigh(centred @ centred.mT)
        axes = centred.mT @ left / values.clamp(min=1e-24).sqrt()
    else:
        axes = torch.linalg.eigh(centred.mT @ centred).eigenvectors
    axes = axes.mT.flip(0)[:n_kept]
    # The sign of an axis is the library's whim: its largest entry is made positive.
    largest = axes.gather(1, axes.abs().argmax(1, keepdim=True))
    components: Tensor = centred @ (axes * largest.sign()).mT
    return components.float()
