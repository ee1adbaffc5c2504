"""A run's model as an ONNX file: one static graph from pixels to probabilities."""

import json
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from appl.core.files import write_atomically
from appl.errors import ApplError
from appl.labelling.model import LabelModel
from appl.labelling.novelty import NOVEL_AT


class Graph(nn.Module):
    """Pixels (n, 3, px, px) in 0–1 to calibrated probabilities (n, n_way) and novelty (n,)."""

    def __init__(self, model: LabelModel) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(model.describer.encoders)
        self.model = [model]  # not a submodule: its encoders are already

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Judge as the model does."""
        model = self.model[0]
        judgement = model.judge_vectors(model.describer(images))
        return judgement.probs, judgement.novelty


def export_onnx(model: LabelModel, path: Path) -> None:
    """Write a model as ONNX; label names and preprocessing are in the file's metadata."""
    try:
        import onnx
        import onnxscript  # noqa: F401  the exporter asks for it
    except ImportError as error:
        raise ApplError(
            f"export needs the package {error.name}; install it with pip install 'appl[onnx]'"
        ) from error
    # Nothing in the file learns: layers that learn in a form of their own take the plain one.
    graph = Graph(model).eval().requires_grad_(False)
    example = torch.rand(2, 3, model.size_px, model.size_px)
    batch = torch.export.Dim("batch", min=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns of its own internals
        program = torch.onnx.export(
            graph,
            (example,),
            input_names=["images"],
            output_names=["probs", "novelty"],
            dynamic_shapes=({0: batch},),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    metas = [encoder.meta for encoder in model.describer.encoders]
    facts = {
        "classes": json.dumps(list(model.class_names)),
        "input": f"images: (batch, 3, {model.size_px}, {model.size_px}), RGB, 0 to 1",
        "resize": "both sides, bilinear with antialiasing; upright (EXIF)",
        "normalisation": "inside the graph: "
        + "; ".join(f"mean {list(meta.mean)}, std {list(meta.std)}" for meta in metas),
        "accept_above": str(model.acceptance.threshold),
        "none_of_these_above": str(NOVEL_AT),
        "encoder": " + ".join(f"{meta.name} ({meta.source})" for meta in metas),
    }
    for key, value in facts.items():
        proto.metadata_props.add(key=key, value=value)
    onnx.checker.check_model(proto)
    write_atomically(path, proto.SerializeToString())
