"""The answers of a run, one after the other, in a few columns: what changed, and when.

`labels.csv` holds the last one with a person's corrections above it; here is what the model itself
said, so that both can be compared.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from appl.core.files import write_atomically
from appl.labelling.rows import LabelRow

DECISIONS = ("accept", "review", "none-of-these", "unreadable")
KEPT = 20  # answers whose columns stay on disk
_COLUMNS = (
    "class_ids",
    "confidence",
    "runner_up_ids",
    "runner_up_confidence",
    "decisions",
    "novelty",
)


@dataclass(frozen=True)
class Answer:
    """What a model said of every image of the pile; −1: no class."""

    number: int  # from 1
    kind: str  # frozen, adapted, corrected
    at: str  # UTC
    n_corrections: int  # lines of the log that it knew
    class_names: tuple[str, ...]
    class_ids: Tensor  # (n_pile,) int16
    confidence: Tensor  # (n_pile,) float32
    runner_up_ids: Tensor
    runner_up_confidence: Tensor
    decisions: Tensor  # (n_pile,) uint8, index into DECISIONS
    novelty: Tensor

    @classmethod
    def of(
        cls,
        rows: Sequence[LabelRow],
        class_names: Sequence[str],
        *,
        number: int,
        kind: str,
        n_corrections: int,
    ) -> "Answer":
        """Take the columns from rows."""
        ids = {name: i for i, name in enumerate(class_names)} | {"": -1}
        # A label that no class has any more stays a label.
        for row in rows:
            for name in (row.label, row.runner_up):
                ids.setdefault(name, len(ids) - 1)
        names = tuple(name for name, i in sorted(ids.items(), key=lambda item: item[1]) if i >= 0)
        codes = {name: i for i, name in enumerate(DECISIONS)}
        return cls(
            number,
            kind,
            datetime.now(UTC).isoformat(timespec="seconds"),
            n_corrections,
            names,
            torch.tensor([ids[row.label] for row in rows], dtype=torch.int16),
            torch.tensor([row.confidence or 0.0 for row in rows]),
            torch.tensor([ids[row.runner_up] for row in rows], dtype=torch.int16),
            torch.tensor([row.runner_up_confidence or 0.0 for row in rows]),
            torch.tensor([codes[row.decision] for row in rows], dtype=torch.uint8),
            torch.tensor([row.novelty or 0.0 for row in rows]),
        )

    def __len__(self) -> int:
        return len(self.class_ids)

    def name(self, image: int) -> str:
        """Return the label of an image; empty where it could not be read."""
        class_id = int(self.class_ids[image])
        return self.class_names[class_id] if class_id >= 0 else ""

    def changed_since(self, earlier: "Answer") -> Tensor:
        """Tell for each image (n_pile,) whether its label is another than in an earlier answer."""
        ids = {name: i for i, name in enumerate(self.class_names)}
        known = [ids.get(name, -2) for name in earlier.class_names]
        translated = torch.tensor([*known, -1], dtype=torch.int16)
        return translated[earlier.class_ids.long()] != self.class_ids

    def save(self, folder: Path) -> None:
        """Write it, and let go of those that are too old."""
        metadata = {
            "number": self.number,
            "kind": self.kind,
            "at": self.at,
            "n_corrections": self.n_corrections,
            "class_names": self.class_names,
        }
        tensors = {name: getattr(self, name).contiguous() for name in _COLUMNS}
        data = save(tensors, metadata={"answer": json.dumps(metadata)})
        write_atomically(folder / f"{self.number:06}.safetensors", data)
        for path in sorted(folder.glob("*.safetensors"))[:-KEPT]:
            path.unlink(missing_ok=True)


def read_answers(folder: Path) -> list[Answer]:
    """Read the answers that are kept, oldest first; a damaged one is left out."""
    found = []
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, "pt") as file:
                values = json.loads(file.metadata()["answer"])
                columns = {name: file.get_tensor(name) for name in _COLUMNS}
        except (SafetensorError, OSError, KeyError, ValueError, TypeError):
            continue
        values["class_names"] = tuple(values["class_names"])
        found.append(Answer(**values, **columns))
    return found
