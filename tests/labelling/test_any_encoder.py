"""An encoder of another kind goes all the way: LayerNorm, tokens, negative features."""

import json

import numpy as np
import pytest
import torch

from appl.core.compute import Compute
from appl.encoders import from_module
from appl.errors import WeightsError
from appl.labelling.explain import explain
from appl.labelling.export import export_onnx
from appl.labelling.inputs import find_inputs
from appl.labelling.judging import judge_files
from appl.labelling.model import LabelModel
from appl.labelling.session import Session
from appl.settings.files import with_changes
from appl.settings.labelling import LabelSettings
from appl.settings.solving import SolveSettings
from appl.weights import Pretrained, class_mean_pcn, load_pretrained
from tests.token_encoder import make_token_encoder

CPU = Compute(torch.device("cpu"), None)


def labelled(tree, out, start, *, adapt):
    solving = with_changes(SolveSettings.preset("robust"), adaptation={"n_iterations": 2})
    settings = LabelSettings(size_px=48, adapt=adapt, solving=solving)
    inputs = find_inputs(tree / "support", str(tree / "pile"))
    session = Session.open(inputs, settings, out, start, CPU)
    session.label()
    session.finish()
    return session


def tokens():
    encoder = make_token_encoder()
    return Pretrained(encoder, class_mean_pcn(encoder))


@pytest.mark.parametrize("adapt", [True, False])
def test_it_labels_saves_loads_and_predicts(tree, tmp_path, adapt):
    start = tokens()
    session = labelled(tree, tmp_path / "run", start, adapt=adapt)
    model = LabelModel.load(session.folder)
    assert model.encoder.meta == start.encoder.meta
    assert bool((model.describe(torch.zeros(1, 3, 48, 48, dtype=torch.uint8))[0] < 0).any())
    rows = judge_files(model, list(session.inputs.pile))
    assert [row.label for row in rows] == [row.label for row in session.rows]
    assert [row.confidence for row in rows] == pytest.approx(
        [row.confidence for row in session.rows], abs=2e-4
    )
    assert explain(session.folder, session.inputs.pile[0]).row.label == rows[0].label
    record = json.loads((session.folder / "run.json").read_text())
    assert record["encoder"]["name"] == "test_tokens"
    # A later run can start from it.
    again = load_pretrained(session.folder)
    assert again.encoder.meta.name == "test_tokens" and not again.pcn.rectifies


@pytest.mark.slow
def test_its_onnx_graph_answers_as_it_does(tree, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    session = labelled(tree, tmp_path / "run", tokens(), adapt=True)
    model = LabelModel.load(session.folder)
    export_onnx(model, tmp_path / "model.onnx")
    graph = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    images = torch.randint(0, 256, (5, 3, 48, 48), dtype=torch.uint8)
    probs, _ = graph.run(None, {"images": (images.float() / 255).numpy()})
    np.testing.assert_allclose(probs, model.judge(images).probs.numpy(), atol=1e-4)


def test_a_module_of_the_users_own_is_asked_for_again(tree, tmp_path):
    registered = tokens().encoder
    own = from_module(list(registered.stages), registered.meta)
    session = labelled(tree, tmp_path / "run", Pretrained(own, class_mean_pcn(own)), adapt=False)
    with pytest.raises(WeightsError, match="hand it over again"):
        LabelModel.load(session.folder)
    model = LabelModel.load(session.folder, own)
    rows = judge_files(model, list(session.inputs.pile[:3]))
    assert [row.label for row in rows] == [row.label for row in session.rows[:3]]
