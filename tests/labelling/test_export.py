import json

import numpy as np
import pytest
import torch

from appl.core.compute import Compute
from appl.labelling.export import export_onnx
from appl.labelling.inputs import find_inputs
from appl.labelling.model import LabelModel
from appl.labelling.session import Session
from appl.settings.files import with_changes
from appl.settings.labelling import LabelSettings
from appl.settings.solving import SolveSettings
from appl.weights import load_pretrained

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["robust", "released"])
def test_the_exported_graph_answers_as_the_model_does(tree, tmp_path, preset):
    solving = with_changes(
        SolveSettings.preset(preset), adaptation={"n_iterations": 1, "learning_rate": 1e-4}
    )
    settings = LabelSettings(encoder="resnet10", size_px=32, solving=solving)
    inputs = find_inputs(tree / "support", str(tree / "pile"))
    cpu = Compute(torch.device("cpu"), None)
    run = Session.open(inputs, settings, tmp_path / "run", load_pretrained("resnet10"), cpu)
    run.label()
    run.finish()
    path = tmp_path / "model.onnx"
    export_onnx(LabelModel.load(run.folder), path)
    session = onnxruntime.InferenceSession(path)
    meta = session.get_modelmeta().custom_metadata_map
    assert json.loads(meta["classes"]) == list(inputs.class_names)
    assert "32, 32" in meta["input"]
    model = LabelModel.load(run.folder)
    generator = torch.Generator().manual_seed(0)
    for n in (1, 3, 16):
        images = torch.randint(0, 256, (n, 3, 32, 32), generator=generator, dtype=torch.uint8)
        probs, novelty = session.run(None, {"images": (images.float() / 255).numpy()})
        judged = model.judge(images)
        np.testing.assert_allclose(probs, judged.probs.numpy(), atol=1e-4)
        np.testing.assert_allclose(novelty, judged.novelty.numpy(), atol=1e-3, rtol=1e-4)
