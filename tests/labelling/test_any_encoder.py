"""Encoders of another kind go all the way: LayerNorm, tokens, negative features; two at once."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from appl.core.compute import Compute
from appl.encoders import from_module
from appl.errors import SettingsError, WeightsError
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
from tests.map_encoder import make_map_encoder
from tests.token_encoder import make_token_encoder
from tests.training.conftest import assert_same_state

CPU = Compute(torch.device("cpu"), None)


def labelled(tree, out, start, *, adapt, **answer):
    solving = with_changes(
        SolveSettings.preset("robust"),
        adaptation={"n_iterations": 2, "parameters": {"frozen_stages": 0}},
        answer=answer,
    )
    size_px = 0 if start.beside else 48  # of two encoders each has its own
    settings = LabelSettings(size_px=size_px, adapt=adapt, solving=solving)
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


def pair():
    return replace(tokens(), beside=(make_map_encoder(),))


@pytest.mark.parametrize("adapt", [True, False])
def test_two_encoders_side_by_side_do_the_same(tree, tmp_path, adapt):
    start = pair()
    session = labelled(tree, tmp_path / "run", start, adapt=adapt)
    model = LabelModel.load(session.folder)
    assert [e.meta.name for e in model.describer.encoders] == ["test_tokens", "test_maps"]
    assert model.describer.sizes_px == (12, 24) and model.size_px == 24
    # Features and texture of one, features and texture of the other.
    widths = [v.shape[1] for v in model.describe(torch.zeros(1, 3, 24, 24, dtype=torch.uint8))]
    assert widths == [8, 8, 6, 4]
    moved = [
        any(not torch.equal(a, b) for a, b in zip(new.parameters(), old.parameters(), strict=True))
        for new, old in zip(model.describer.encoders, start.encoders, strict=True)
    ]
    assert moved == [model.is_adapted] * 2
    rows = judge_files(model, list(session.inputs.pile))
    assert [row.label for row in rows] == [row.label for row in session.rows]
    record = json.loads((session.folder / "run.json").read_text())
    assert record["encoder"]["name"] == "test_tokens+test_maps" and record["size_px"] == 24
    again = load_pretrained(session.folder)
    assert again.name == "test_tokens+test_maps"
    for new, old in zip(again.encoders, model.describer.encoders, strict=True):
        assert_same_state(new.state_dict(), old.state_dict())


@pytest.mark.parametrize("start", [tokens, pair])
def test_the_encoder_as_it_was_stays_beside_the_adapted_one(tree, tmp_path, start):
    given = start()
    answer = {"rule": "learnt", "teacher": "learnt", "encoders": "both"}
    session = labelled(tree, tmp_path / "run", given, adapt=True, **answer)
    model = LabelModel.load(session.folder)
    n = len(given.encoders)
    assert model.is_adapted and model.n_unmoved == n
    for new, old in zip(model.describer.encoders[n:], given.encoders, strict=True):
        assert_same_state(new.state_dict(), old.state_dict())
    rows = judge_files(model, list(session.inputs.pile))
    assert [row.label for row in rows] == [row.label for row in session.rows]
    assert [row.confidence for row in rows] == pytest.approx(
        [row.confidence for row in session.rows], abs=2e-4
    )
    # A later run starts from what was adapted, not from all that the answer took.
    assert load_pretrained(session.folder).name == given.name
    assert model.as_start().name == given.name


def test_two_encoders_have_no_common_size(tree, tmp_path):
    settings = LabelSettings(size_px=48)
    inputs = find_inputs(tree / "support", str(tree / "pile"))
    with pytest.raises(SettingsError, match=r"at their own sizes \(12, 24 px\); leave it out"):
        Session.open(inputs, settings, tmp_path / "run", pair(), CPU)


@pytest.mark.slow
@pytest.mark.parametrize("start", [tokens, pair])
def test_its_onnx_graph_answers_as_it_does(tree, tmp_path, start):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    session = labelled(tree, tmp_path / "run", start(), adapt=True)
    model = LabelModel.load(session.folder)
    export_onnx(model, tmp_path / "model.onnx")
    graph = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    images = torch.randint(0, 256, (5, 3, model.size_px, model.size_px), dtype=torch.uint8)
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
