"""A session that is taught: vectors instead of encoders, new classes, groups, questions."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from appl.encoders import Describer
from appl.errors import DataError
from appl.images.store import read_images
from appl.labelling import judging
from appl.labelling.answers import Answer, read_answers
from appl.labelling.asking import explain_image, groups, similar, teach_next
from appl.labelling.grouping import group_pile, n_groups_for
from appl.labelling.inputs import Inputs, find_pile
from appl.labelling.reopening import reopen
from appl.labelling.rows import read_rows
from appl.labelling.session import Session
from appl.labelling.vectors import describe_store, describer_digest, open_vectors
from appl.transduction.answer import InformationRule
from appl.weights import load_pretrained
from tests.labelling.conftest import CLASSES, write_tree
from tests.labelling.test_session import CPU, SETTINGS, label, opened

FROZEN = replace(SETTINGS, adapt=False)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that somebody finished, whose pile holds a file that is no image."""
    tree = write_tree(tmp_path_factory.mktemp("finished") / "given")
    (tree / "pile" / "broken.jpg").write_text("no image")
    label(tree, tree.parent / "run", FROZEN).finish()
    return tree.parent / "run"


def without_encoders(session, monkeypatch):
    """Let every call of an encoder fail from here on."""

    def fail(*_):
        raise AssertionError("an encoder was asked")

    monkeypatch.setattr(Describer, "__call__", fail)
    return session


def test_answers_after_the_first_take_no_encoder_and_say_the_same(finished, monkeypatch):
    session = reopen(finished, CPU)
    try:
        before = session.rows
        vectors = session.describe()
        judged = judging.judge_vectors(
            session.model, vectors.pile, [session.inputs.name(p) for p in session.inputs.pile]
        )
        assert judged == before  # broken.jpg among them
        without_encoders(session, monkeypatch)
        session.correct({0: CLASSES[1]}, who="Ada")
        assert session.has_news
        rows = session.answer()
        assert not session.has_news
        assert (rows[0].label, rows[0].confidence, rows[0].decision) == (CLASSES[1], 1.0, "accept")
        assert rows == read_rows(finished / "labels.csv")
        assert [a.kind for a in session.answers] == ["frozen", "corrected"]
        assert session.model.example_names[-1] == before[0].path
        session.undo()
        assert session.answer() == before
    finally:
        session.close()


def test_a_run_is_reopened_from_another_folder(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = reopen(finished, CPU)
    assert session.rows == read_rows(finished / "labels.csv")
    assert session.settings == FROZEN
    with pytest.raises(DataError, match="is being written by another"):
        reopen(finished, CPU)
    session.close()
    with pytest.raises(DataError, match=r"no run of `appl label`"):
        reopen(tmp_path, CPU)


def test_a_run_whose_images_are_gone_keeps_its_small_pictures(tree, tmp_path):
    label(tree, tmp_path / "run", FROZEN).finish()
    pictures = {p: p.read_bytes() for p in (tmp_path / "run" / "images").iterdir()}
    (tree / "pile").rename(tmp_path / "moved")
    session = reopen(tmp_path / "run", CPU)
    with pytest.raises(DataError, match="24 of the run's 36 images are not where they were"):
        session.describe()
    assert pictures == {p: p.read_bytes() for p in (tmp_path / "run" / "images").iterdir()}
    session.close()


def test_relative_names_stay_and_files_are_found_from_elsewhere(tmp_path, monkeypatch):
    write_tree(tmp_path / "given")
    monkeypatch.chdir(tmp_path / "given")
    label(Path(), tmp_path / "run", FROZEN).finish()
    monkeypatch.chdir("/")
    session = reopen(tmp_path / "run", CPU)
    names = [row.path for row in session.rows]
    session.correct({3: CLASSES[0]})
    assert [row.path for row in session.answer()] == names and names[0] == "pile/0-0.png"
    session.close()


def test_a_class_can_be_made_at_any_time_and_goes_with_its_last_image(tree, tmp_path):
    session = opened(tree, tmp_path / "run", FROZEN)
    session.answer()
    with pytest.raises(DataError, match="no class is called"):
        session.correct({0: "<script>"})
    session.correct({0: "<script>", 1: "<script>"}, new_classes=True)
    assert session.class_names[-1] == "<script>"
    session.answer()
    assert session.model.class_names[-1] == "<script>"
    assert sum(row.label == "<script>" for row in session.rows) >= 2
    session.undo()
    session.answer()
    assert session.model.class_names == session.inputs.class_names
    session.close()


def test_many_examples_weigh_as_few_do(tree, tmp_path, monkeypatch):
    asked = []
    fit = InformationRule.fit

    def spy(kinds, class_ids, settings):
        asked.append((len(class_ids), settings.support_weight))
        return fit(kinds, class_ids, settings)

    monkeypatch.setattr(InformationRule, "fit", spy)
    session = opened(tree, tmp_path / "run", FROZEN)
    session.answer()
    usual = FROZEN.solving.answer.information.support_weight
    assert {weight for _, weight in asked} == {usual}  # four of each class
    asked.clear()
    session.correct({i: CLASSES[i // 8] for i in range(18)})
    session.answer()
    (weight,) = {weight for _, weight in asked}
    assert weight == pytest.approx(usual * 5 / 10) and asked[-1][0] == 30  # ten of each
    session.close()


def test_one_wild_estimate_of_the_class_prior_is_not_taken(tree, tmp_path, monkeypatch):
    session = opened(tree, tmp_path / "run", FROZEN)
    session.answer()
    used = []

    def estimate(_kinds, _class_ids, information):
        weight = 0.03 if information.n_iterations == 30 else 0.9  # the last steps go astray
        return replace(information, marginal_weight=weight, least_marginal_weight=weight)

    fit = InformationRule.fit
    monkeypatch.setattr("appl.labelling.fitting.hold_class_prior", estimate)
    monkeypatch.setattr(
        InformationRule, "fit", lambda *given: used.append(given[2].marginal_weight) or fit(*given)
    )
    session.correct({0: CLASSES[0]})
    session.answer()
    assert {*used} == {0.9}
    session.close()


def test_what_is_said_during_an_adaptation_is_news_after_it(tree, tmp_path):
    session = opened(tree, tmp_path / "run")
    session.answer()
    session.on_progress = lambda stage, done, _total: (
        session.correct({2: CLASSES[0]}) if stage == "adapting" and done == 1 else None
    )
    session.adapt()
    assert session.has_news and session.run.record["n_corrections"] == 0
    session.close()


def test_a_worse_adaptation_is_not_taken(tree, tmp_path, monkeypatch):
    session = opened(tree, tmp_path / "run")
    session.answer()
    model = session.model
    monkeypatch.setattr(Session, "_is_better", lambda *_: False)
    assert not session.adapt(only_if_better=True)
    assert session.model is model and session.run.record["fitted"] == "frozen"
    session.close()


def test_a_session_without_examples_begins_with_groups(tree, tmp_path):
    inputs = Inputs((), (), (), find_pile(str(tree / "pile")))
    session = Session.open(inputs, FROZEN, tmp_path / "run", load_pretrained("resnet10"), CPU)
    sheets = groups(session, 6)
    assert sorted(i for sheet in sheets for i in sheet) == list(range(24))
    truth = [int(path.name[0]) for path in inputs.pile]
    assert all(len({truth[i] for i in sheet}) == 1 for sheet in sheets)
    assert not session.can_answer
    with pytest.raises(DataError, match="examples of at least two classes; so far there is none"):
        session.answer()
    for sheet in sheets:
        session.correct({sheet[0]: CLASSES[truth[sheet[0]]]}, new_classes=True)
    rows = session.answer()
    assert session.can_answer and {*session.model.class_names} == {*CLASSES}
    right = [row.label == CLASSES[t] for row, t in zip(rows, truth, strict=True)]
    assert sum(right) / len(right) > 0.9
    session.close()
    again = reopen(tmp_path / "run", CPU)
    assert again.rows == rows and len(again.inputs.support) == 0
    again.close()


def test_questions_to_a_session(finished):
    session = reopen(finished, CPU)
    try:
        near = similar(session, 3, 5)
        assert near[0] == 3 and len(near) == 5 and 24 not in near
        assert {i // 8 for i in near} == {0}
        asked = teach_next(session, 4)
        assert len(set(asked)) == 4 and 24 not in asked
        session.skip(asked[:1])
        session.correct({asked[1]: CLASSES[0]})
        assert not {*asked[:2]} & {*teach_next(session, 10)}
        why = explain_image(session, 3)
        assert why.row.label == CLASSES[0] and len(why.nearest) == 5
        with pytest.raises(DataError, match="no image 99"):
            similar(session, 99, 1)
        with pytest.raises(DataError, match="not a readable image"):
            explain_image(session, 24)
    finally:
        session.undo()
        session.undo()
        session.close()


def test_vectors_are_those_of_the_encoders_and_not_taken_where_half_written(tree, tmp_path):
    store = read_images(find_pile(str(tree / "pile")), tmp_path / "pile", 32)
    describer = Describer((load_pretrained("resnet10").encoder,), (32,), True, 0.5)
    vectors = describe_store(describer, store, tmp_path / "vectors")
    for kind, direct in zip(
        vectors.of([5, 2]), describer.in_parts(store.images([5, 2])), strict=True
    ):
        torch.testing.assert_close(kind, direct)
    assert open_vectors(tmp_path / "vectors") == vectors
    file = tmp_path / "vectors" / "kind-0.f32"
    file.write_bytes(file.read_bytes()[:-4])
    assert open_vectors(tmp_path / "vectors") is None
    assert describer_digest(describer) != describer_digest(replace(describer, mirrored=False))


def test_answers_tell_what_changed_by_name_even_where_classes_came_and_went(finished):
    rows = read_rows(finished / "labels.csv")
    first = Answer.of(rows, CLASSES, number=1, kind="frozen", n_corrections=0)
    moved = [replace(rows[0], label="new"), *rows[1:]]
    second = Answer.of(moved, ("new", *reversed(CLASSES)), number=2, kind="x", n_corrections=1)
    assert second.changed_since(first).nonzero().flatten().tolist() == [0]
    assert first.changed_since(second).nonzero().flatten().tolist() == [0]
    assert second.name(0) == "new" and second.name(24) == ""


def test_answers_are_read_as_they_were_written_and_a_damaged_one_is_left_out(finished, tmp_path):
    rows = read_rows(finished / "labels.csv")
    for number in (1, 2):
        Answer.of(rows, CLASSES, number=number, kind="frozen", n_corrections=number).save(tmp_path)
    (tmp_path / "000001.safetensors").write_bytes(b"no")
    (found,) = read_answers(tmp_path)
    assert found.number == found.n_corrections == 2 and found.class_names == CLASSES
    assert torch.equal(found.confidence, torch.tensor([row.confidence or 0 for row in rows]))


def test_groups_are_blobs_and_every_image_is_in_one():
    generator = torch.Generator().manual_seed(0)
    centres = 5 * torch.randn(4, 20, generator=generator)
    points = torch.cat([c + 0.1 * torch.randn(15, 20, generator=generator) for c in centres])
    found = group_pile(points, 8)
    assert torch.cat(found).sort().values.tolist() == list(range(60))
    assert all(len({i // 15 for i in members.tolist()}) == 1 for members in found)
    assert n_groups_for(3) == 3 and n_groups_for(400) == 20 and n_groups_for(10**6) == 60
