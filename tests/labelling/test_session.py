import json
import pickle
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from appl.core.compute import Compute
from appl.errors import DataError, SettingsError, WeightsError
from appl.images import store
from appl.images.thumbnails import Thumbnails
from appl.labelling import fitting, judging
from appl.labelling import session as session_module
from appl.labelling.explain import explain
from appl.labelling.inputs import find_inputs
from appl.labelling.judging import judge_files
from appl.labelling.model import LabelModel
from appl.labelling.rows import COLUMNS, label_counts, read_rows
from appl.labelling.run_folder import open_finished
from appl.labelling.session import Session
from appl.labelling.suggest import suggest
from appl.settings.files import with_changes
from appl.settings.labelling import LabelSettings
from appl.settings.solving import SolveSettings
from appl.weights import load_pretrained
from tests.labelling.conftest import CLASSES, write_tree

CPU = Compute(torch.device("cpu"), None)
SHORT = with_changes(
    SolveSettings.preset("robust"),
    adaptation={"n_iterations": 3, "views": {"n_views": 2}},
    answer={"information": {"n_iterations": 30}},
)
SETTINGS = LabelSettings(encoder="resnet10", size_px=32, solving=SHORT)


def label(tree, out, settings=SETTINGS, **hooks):
    session = opened(tree, out, settings, **hooks)
    try:
        session.label()
    finally:
        session.close()
    return session


def opened(tree, out, settings=SETTINGS, start=None, **hooks):
    inputs = find_inputs(tree / "support", str(tree / "pile"))
    start = start or load_pretrained(settings.encoder)
    return Session.open(inputs, settings, out, start, CPU, **hooks)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    tree = write_tree(tmp_path_factory.mktemp("labelled") / "given")
    (tree / "pile" / "broken.jpg").write_text("no image")
    run = label(tree, tree.parent / "run")
    run.finish()
    return tree, run


def right_share(rows):
    judged = [row for row in rows if row.label]
    hits = [row.label == CLASSES[int(row.path.rsplit("/", 1)[1][0])] for row in judged]
    return sum(hits) / len(hits)


def test_every_file_of_the_pile_has_its_row(labelled):
    tree, run = labelled
    text = (run.folder / "labels.csv").read_text(encoding="utf-8")
    assert text.splitlines()[0] == ",".join(COLUMNS)
    rows = run.rows
    assert [row.path for row in rows] == [str(p) for p in sorted((tree / "pile").iterdir())]
    assert right_share(rows) == 1
    broken = rows[-1]
    assert broken.decision == "unreadable" and "not a readable image" in broken.problem
    assert broken.confidence is None and broken.label == ""
    for row in rows[:-1]:
        assert 0 <= row.runner_up_confidence <= row.confidence <= 1
        assert row.decision in ("accept", "review", "none-of-these")
        assert "/support/" in row.nearest_example


def test_the_record_is_enough_to_repeat_it(labelled):
    _, run = labelled
    record = open_finished(run.folder).record
    assert record["state"] == "finished" and record["labels_version"] == 1
    assert record["classes"] == dict.fromkeys(sorted(CLASSES), 4)
    assert record["settings"]["solving"]["adaptation"]["n_iterations"] == 3
    assert record["encoder"]["prototypes"] == "class mean (untrained)"
    assert set(record["seconds"]) == {"reading", "adapting", "labelling"}
    assert len(record["input_digests"]["pile"]) == 64
    assert not (run.folder / "work").exists()


def test_a_finished_run_keeps_small_pictures(labelled):
    _, run = labelled
    pile = Thumbnails.open(run.folder / "images" / "pile")
    support = Thumbnails.open(run.folder / "images" / "support")
    assert len(pile) == len(run.rows) and len(support) == len(run.inputs.support)
    assert [pile.has(i) for i in range(len(pile))] == [True] * 24 + [False]
    assert all(support.thumbnail(i) for i in range(len(support)))


def test_a_label_is_what_predict_says_and_predict_changes_nothing(labelled):
    _, run = labelled
    before = (run.folder / "model" / "encoder.safetensors").read_bytes()
    rows = run.rows
    model = LabelModel.load(run.folder).place(CPU)
    paths = [run.inputs.pile[i] for i in (3, 0, 24, 11)]
    found = judge_files(model, paths)
    for row, place in zip(found, (3, 0, 24, 11), strict=True):
        assert row.label == rows[place].label and row.decision == rows[place].decision
        if row.label:
            assert row.confidence == pytest.approx(rows[place].confidence, abs=2e-4)
    assert (run.folder / "model" / "encoder.safetensors").read_bytes() == before


def test_an_explanation_names_the_nearest_examples_and_the_labels_way(labelled):
    _, run = labelled
    found = explain(run.folder, run.inputs.pile[10])
    assert found.row.label == CLASSES[1] == found.classes[0][0]
    assert sum(sure for _, sure, _ in found.classes) == pytest.approx(1, abs=1e-5)
    assert found.nearest[0][1] == CLASSES[1]
    distances = [distance for *_, distance in found.nearest]
    assert distances == sorted(distances) and len(distances) == 5
    assert found.history[0][0] == 1 and found.history[-1][1] in CLASSES
    assert explain(run.folder, run.inputs.support[0]).history == []
    with pytest.raises(DataError, match=r"broken\.jpg: not a readable image"):
        explain(run.folder, run.inputs.pile[-1])


def test_suggestions_are_unsure_and_no_twins(labelled):
    _, run = labelled
    found = suggest(run.folder, 5)
    assert len({row.path for row in found}) == 5
    assert all(row.decision != "unreadable" for row in found)
    assert len(suggest(run.folder, 1000)) == 24


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """A tree with its labels by whether the encoder was adapted."""
    tree = write_tree(tmp_path_factory.mktemp("uninterrupted") / "given")
    adapted = label(tree, tree.parent / "run").rows
    frozen = label(tree, tree.parent / "frozen", replace(SETTINGS, adapt=False)).rows
    return tree, {True: adapted, False: frozen}


class Killed(BaseException):
    pass


def dies_at(n):
    calls = []

    def hook(*_):
        calls.append(1)
        if len(calls) == n:
            raise Killed

    return hook


@pytest.mark.parametrize(
    ("stage", "n", "adapt"),
    [("examples", 3, False), ("decoding", 7, False), ("adapting", 2, True), ("labelling", 1, True)],
)
def test_a_killed_run_goes_on_and_repeats_no_finished_stage(
    uninterrupted, tmp_path, monkeypatch, stage, n, adapt
):
    tree, whole = uninterrupted
    settings = replace(SETTINGS, adapt=adapt)
    dies = dies_at(n)
    with pytest.raises(Killed):
        label(
            tree,
            tmp_path / "parts",
            settings,
            on_progress=lambda name, *_: dies() if name == stage else None,
        )
    if stage in ("adapting", "labelling"):
        monkeypatch.setattr(store, "decode_for_square", lambda *_: 1 / 0)
    if stage == "labelling":
        monkeypatch.setattr(session_module, "Fitter", lambda *_, **__: 1 / 0)
    resumed = label(tree, tmp_path / "parts", settings)
    assert resumed.rows == whole[adapt]
    assert resumed.run.record["state"] == "labelled"


def test_a_finished_run_is_left_as_it_is(labelled, monkeypatch):
    tree, run = labelled
    before = (run.folder / "run.json").read_bytes()
    monkeypatch.setattr(session_module, "read_images", lambda *_: 1 / 0)
    label(tree, run.folder)
    assert (run.folder / "run.json").read_bytes() == before


def test_another_command_in_the_same_folder_is_refused(labelled, tmp_path):
    tree, run = labelled
    with pytest.raises(DataError, match="holds another run"):
        label(tree, run.folder, replace(SETTINGS, seed=1))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match="is not empty and holds no run"):
        label(tree, tmp_path / "full")
    with pytest.raises(DataError, match="is a file; choose another --out"):
        label(tree, tmp_path / "full" / "thesis.txt")


@pytest.mark.parametrize("preset", ["paper", "released"])
def test_the_papers_presets_label_too(tree, tmp_path, preset):
    solving = with_changes(
        SolveSettings.preset(preset), adaptation={"n_iterations": 2, "learning_rate": 1e-4}
    )
    run = label(tree, tmp_path / "run", replace(SETTINGS, solving=solving))
    assert right_share(run.rows) > 0.8
    model = LabelModel.load(run.folder).place(CPU)
    alone = judge_files(model, [run.inputs.pile[5]])[0]
    assert alone.label == run.rows[5].label  # no batch beside it, the same label


def test_a_rule_for_whole_tasks_only_is_refused(tree, tmp_path):
    solving = with_changes(SHORT, answer={"rule": "propagation"})
    with pytest.raises(SettingsError, match="judges each image by itself"):
        label(tree, tmp_path / "run", replace(SETTINGS, solving=solving))


def test_a_large_pile_is_drawn_from_and_labelled_whole(tree, tmp_path):
    settings = replace(SETTINGS, pool_images=10, batch_images=4)
    run = label(tree, tmp_path / "run", settings)
    assert len(run.rows) == 24 and right_share(run.rows) == 1
    history = run.history
    assert len(history.pool) == 10 and history.labels.shape == (3, 10)
    assert (history.labels[0] >= 0).sum() == 4  # an iteration takes four
    assert run.model.is_adapted or history.facts["fell_back"]


def test_changes_of_labels_count_among_all_that_the_adaptation_knew(tree, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(fitting, "collapse_reasons", lambda *facts: asked.append(facts[2]) or [])
    label(tree, tmp_path / "run", replace(SETTINGS, pool_images=10, batch_images=4))
    assert asked == [10]  # not the four of an iteration


def test_without_adaptation_the_encoder_stays(tree, tmp_path):
    run = label(tree, tmp_path / "run", replace(SETTINGS, adapt=False))
    assert not run.model.is_adapted and run.history.records == []
    start = load_pretrained("resnet10").encoder.state_dict()
    for name, value in run.model.encoder.state_dict().items():
        assert torch.equal(value, start[name])


def test_an_adaptation_that_fails_is_not_used(uninterrupted, tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "collapse_reasons", lambda *_: ["one class swallowed the pile"])
    tree, whole = uninterrupted
    run = label(tree, tmp_path / "run")
    assert not run.model.is_adapted
    assert run.history.facts["fell_back"] == ["one class swallowed the pile"]
    assert [row.label for row in run.rows] == [row.label for row in whole[False]]


def test_one_example_a_class_promises_nothing(tmp_path):
    tree = write_tree(tmp_path / "given", n_support=1)
    run = label(tree, tmp_path / "run")
    assert run.model.acceptance.promised == 1
    assert label_counts(run.rows) == {"review": 24}
    assert right_share(run.rows) > 0.9


def test_a_later_run_starts_from_an_earlier_one(labelled, tmp_path):
    tree, run = labelled
    start = load_pretrained(run.folder)
    for name, value in run.model.encoder.state_dict().items():
        assert torch.equal(value, start.encoder.state_dict()[name])
    again = opened(tree, tmp_path / "again", start=start)
    assert right_share(again.label()) == 1
    assert again.run.record["identity"] != run.run.record["identity"]


@pytest.mark.parametrize("how", ["copy", "link"])
def test_sorted_folders(tree, tmp_path, how):
    run = label(tree, tmp_path / "run", replace(SETTINGS, sort=how, adapt=False))
    folder = run.folder / "sorted"
    files = list(folder.rglob("*.png"))
    assert len(files) == 24
    assert all(path.is_symlink() == (how == "link") for path in files)
    for row in run.rows:
        name = row.label if row.decision == "accept" else f"_{row.decision}"
        assert (folder / name / row.path.rsplit("/", 1)[1]).exists()


def test_a_damaged_model_is_named(labelled, tmp_path):
    _, run = labelled
    model = run.model
    model.save(tmp_path / "a")
    (tmp_path / "a" / "encoder.safetensors").write_bytes(b"not one")
    with pytest.raises(WeightsError, match=r"encoder\.safetensors is damaged or not this run's"):
        LabelModel.load(tmp_path / "a")
    (tmp_path / "a" / "rule.safetensors").unlink()
    (tmp_path / "a" / "encoder.safetensors").write_bytes(
        (run.folder / "model" / "encoder.safetensors").read_bytes()
    )
    with pytest.raises(WeightsError, match=r"rule\.safetensors is missing"):
        LabelModel.load(tmp_path / "a")
    model.save(tmp_path / "b")
    values = json.loads((tmp_path / "b" / "model.json").read_text())
    (tmp_path / "b" / "model.json").write_text(json.dumps(values | {"format": "appl-model-9"}))
    with pytest.raises(WeightsError, match="has format 'appl-model-9', this version reads"):
        LabelModel.load(tmp_path / "b")
    (tmp_path / "b" / "model.json").write_text("{")
    with pytest.raises(WeightsError, match="is damaged"):
        LabelModel.load(tmp_path / "b")
    with pytest.raises(WeightsError, match="holds no model"):
        LabelModel.load(tmp_path)


def test_rows_of_another_version_are_refused(tmp_path):
    (tmp_path / "labels.csv").write_text("path,label\na,b\n")
    with pytest.raises(DataError, match="other columns"):
        read_rows(tmp_path / "labels.csv")


@pytest.mark.parametrize("name", ["encoder.safetensors", "rule.safetensors"])
def test_one_flipped_bit_of_the_model_is_noticed(labelled, tmp_path, name):
    _, run = labelled
    run.model.save(tmp_path)
    data = bytearray((tmp_path / name).read_bytes())
    data[-100] ^= 1
    (tmp_path / name).write_bytes(data)
    with pytest.raises(WeightsError, match=f"{name} is damaged"):
        LabelModel.load(tmp_path)


def test_labels_that_were_changed_by_hand_are_not_taken_for_the_runs(tree, tmp_path):
    run = label(tree, tmp_path / "run", replace(SETTINGS, adapt=False))
    path = run.folder / "labels.csv"
    path.write_text(path.read_text().replace("green", "red level", 1))
    with pytest.raises(DataError, match=r"labels\.csv is not what the run wrote"):
        suggest(run.folder, 1)


def test_a_second_command_into_the_same_folder_is_refused_while_the_first_runs(tree, tmp_path):
    first = opened(tree, tmp_path / "run")
    with pytest.raises(DataError, match="is being written by another"):
        opened(tree, tmp_path / "run")
    first.close()
    opened(tree, tmp_path / "run").close()
    assert not (tmp_path / "run" / ".lock").exists()


def test_a_killed_process_leaves_no_lock_behind(tree, tmp_path):
    script = (
        "import os, sys, filelock; from pathlib import Path\n"
        "from appl.labelling.run_folder import _locked\n"
        "held = _locked(Path(sys.argv[1])); print('held', flush=True); os.kill(os.getpid(), 9)"
    )
    folder = tmp_path / "run"
    folder.mkdir()
    died = subprocess.run([sys.executable, "-c", script, folder], capture_output=True, text=True)
    assert died.stdout == "held\n" and died.returncode == -9
    opened(tree, folder).close()


def test_an_answer_before_the_adaptation_is_that_of_the_encoder_as_it_is(uninterrupted, tmp_path):
    tree, whole = uninterrupted
    session = opened(tree, tmp_path / "run")
    first = session.answer()
    assert first == whole[False] == read_rows(session.folder / "labels.csv")
    assert not session.model.is_adapted
    session.adapt()
    assert session.answer() == whole[True]
    session.close()


def test_corrections_are_examples_from_the_next_answer_on(tree, tmp_path):
    session = opened(tree, tmp_path / "run", replace(SETTINGS, adapt=False))
    before = session.answer()
    wrong = {3: CLASSES[1], 4: CLASSES[1], 5: ""}  # images of the first class
    session.correct(wrong)
    after = session.answer()
    assert session.model.example_names[-2:] == (before[3].path, before[4].path)
    assert (
        session.model.example_class_ids[-2:] == (session.inputs.class_names.index(CLASSES[1]),) * 2
    )
    assert len(after) == len(before)
    assert after[3].nearest_example == before[3].path  # an example is nearest to itself
    session.close()
    # Another session in the same folder knows them, and has nothing left to do.
    again = opened(tree, tmp_path / "run", replace(SETTINGS, adapt=False))
    assert {c.image: c.class_name for c in again.corrections} == wrong
    assert again.label() == after
    for mistake, words in (({99: "green"}, "no image 99"), ({0: "gren"}, "no class is called")):
        with pytest.raises(DataError, match=words):
            again.correct(mistake)
    again.close()


def test_a_correction_that_a_kill_cut_short_is_not_read(tree, tmp_path):
    session = opened(tree, tmp_path / "run")
    session.correct({1: CLASSES[0]})
    session.close()
    with (tmp_path / "run" / "corrections.csv").open("a") as file:
        file.write("2026-01-01T00:00:00.000+00:00,2,gre")
    again = opened(tree, tmp_path / "run")
    assert [c.image for c in again.corrections] == [1]
    again.close()


def test_blocks_may_be_judged_elsewhere_and_come_together_in_order(tree, tmp_path, monkeypatch):
    monkeypatch.setattr(judging, "IMAGES_PER_BLOCK", 7)
    here = label(tree, tmp_path / "here", replace(SETTINGS, adapt=False))
    session = opened(tree, tmp_path / "elsewhere", replace(SETTINGS, adapt=False))

    def elsewhere(model, blocks):
        copies = [pickle.loads(pickle.dumps(block)) for block in blocks]
        judged = {id(block): block.judge(model) for block in reversed(copies)}
        return iter([judged[id(block)] for block in copies])

    session.judge_blocks = elsewhere
    assert session.label() == here.rows
    session.close()
