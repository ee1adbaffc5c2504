"""What a labelling starts from: weights by name, or the model of an earlier run."""

from pathlib import Path

from appl.labelling.model import LabelModel
from appl.method.pcn import PCN
from appl.training.shipped import load_pretrained
from appl.training.weights import Pretrained


def load_label_start(encoder: str, previous: Path | None = None) -> Pretrained:
    """Return encoder and PCN; those of an earlier run keep what it had learnt of the domain."""
    if previous is None:
        return load_pretrained(encoder)
    return start_from(LabelModel.load(previous))


def start_from(model: LabelModel) -> Pretrained:
    """Take over the encoder of an earlier model."""
    pcn = PCN(model.encoder.meta.width).eval()
    return Pretrained(model.encoder, pcn, {"previous_run": model.provenance})
