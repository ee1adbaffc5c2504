import json

import numpy as np
import pytest
import torch

from appl.core.compute import Compute
from appl.labelling.export import export_onnx
from appl.labelling.inputs import find_inputs
from appl.labelling.model import LabelModel
from appl.labelling.run import label_pile
from appl.labelling.start import load_label_start
from appl.settings import AdaptSettings
from appl.settings.files import with_changes
from appl.settings.labelling import LabelSettings

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["robust", "released"])
def test_the_exported_graph_answers_as_the_model_does(tree, tmp_path, preset):
    adaptation = with_changes(AdaptSettings.preset(preset), n_iterations=1, learning_rate=1e-4)
    settings = LabelSettings(encoder="resnet10", size_px=48, adaptation=adaptation)
    inputs = find_inputs(tree / "support", str(tree / "pile"))
    cpu = Compute(torch.device("cpu"), None)
    run = label_pile(inputs, settings, tmp_path / "run", load_label_start("resnet10"), cpu)
    path = tmp_path / "model.onnx"
    export_onnx(run.folder, path)
    session = onnxruntime.InferenceSession(path)
    meta = session.get_modelmeta().custom_metadata_map
    assert json.loads(meta["classes"]) == list(inputs.class_names)
    assert "48, 48" in meta["input"]
    model = LabelModel.load(run.folder)
    generator = torch.Generator().manual_seed(0)
    for n in (1, 3, 16):
        images = torch.randint(0, 256, (n, 3, 48, 48), generator=generator, dtype=torch.uint8)
        probs, novelty = session.run(None, {"images": (images.float() / 255).numpy()})
        judged = model.judge(images)
        np.testing.assert_allclose(probs, judged.probs.numpy(), atol=1e-4)
        np.testing.assert_allclose(novelty, judged.novelty.numpy(), atol=1e-3, rtol=1e-4)
