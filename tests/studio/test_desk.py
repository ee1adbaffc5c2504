"""The run behind the page: what it shows, teaches, cancels and leaves behind."""

import shutil

import pytest
from starlette.testclient import TestClient

from appl.errors import DataError
from appl.labelling.corrections import append_corrections, said_at_once
from appl.labelling.inputs import Inputs, find_pile
from appl.labelling.reopening import reopen
from appl.labelling.rows import read_rows
from appl.labelling.run_folder import open_finished
from appl.labelling.session import Session
from appl.report.page import write_report
from appl.studio.app import make_app
from appl.studio.columns import NONE, SKIPPED, pile_columns
from appl.studio.desk import Desk
from appl.studio.jobs import Jobs
from appl.weights import load_pretrained
from tests.labelling.conftest import CLASSES, write_tree
from tests.labelling.test_session import CPU, SETTINGS
from tests.studio.conftest import until


def get(desk, path):
    return TestClient(make_app(desk, hosts={"testserver"})).get(path)


def test_columns_say_what_labels_csv_says(desk):
    rows, found = read_rows(desk.folder / "labels.csv"), pile_columns(desk)
    names = [c["name"] for c in found["classes"]]
    assert [names[i] for i in found["label"]] == [row.label for row in rows]
    assert found["sure"][3] == round(10_000 * rows[3].confidence)
    assert found["classes"][0]["examples"] == [0, 1, 2, 3] and found["answer"]["number"] == 1


def test_words_are_columns_too(desk):
    desk.correct([1], "new")
    desk.correct([2], "")
    desk.skip([3])
    desk.accept([4, 5])
    found = pile_columns(desk)
    assert found["said"] == {1: 3, 2: NONE, 3: SKIPPED, 4: found["label"][4], 5: found["label"][5]}


def test_teaching_answers_anew_and_the_labels_are_left_in_the_run(desk, monkeypatch):
    monkeypatch.setattr("appl.studio.desk.write_report", write_report)
    desk.correct([0, 1], CLASSES[1])
    assert desk.teach()
    desk.jobs.wait()
    assert "labels changed" in desk.jobs.message and len(desk.answers) == 2
    desk.correct([2], "")
    desk.close()
    rows = read_rows(desk.folder / "labels.csv")
    assert [row.label for row in rows[:2]] == [CLASSES[1]] * 2
    assert rows[2].decision == "none-of-these"  # said after the last answer, kept at the end
    assert open_finished(desk.folder).record["state"] == "finished"
    assert CLASSES[1] in (desk.folder / "report.html").read_text()


def test_a_run_of_another_process_is_looked_at_only(desk):
    other = Desk(desk.folder, None)
    assert pile_columns(other)["label"] == pile_columns(desk)["label"]
    for attempt in (lambda: other.correct([1], "x"), other.undo, other.teach, other.adapt):
        with pytest.raises(DataError, match="only be looked at"):
            attempt()
    assert get(other, "/api/image/3").json()["name"].endswith("0-3.png")
    assert get(other, "/api/like/3").status_code == 400


def test_one_image_beside_its_nearest_examples_and_its_history(desk):
    desk.correct([3], CLASSES[0])
    facts = get(desk, "/api/image/3").json()
    assert facts["classes"][0][0] == CLASSES[0] and len(facts["nearest"]) == 5
    assert facts["said"][0]["who"] == "Ada" and facts["answers"][0]["label"] == CLASSES[0]
    assert {near["kind"] for near in facts["nearest"]} == {"example"}
    assert get(desk, "/api/image/24").status_code == 400


def test_what_is_asked_next_is_not_what_was_said(desk):
    asked = get(desk, "/api/next?n=5").json()["images"]
    desk.skip(asked[:2])
    assert len(asked) == 5 and not {*asked[:2]} & {*get(desk, "/api/next").json()["images"]}
    assert get(desk, "/api/next?n=x").status_code == 200
    assert get(desk, "/api/like/3").json()["images"][0] == 3
    assert sum(map(len, get(desk, "/api/groups").json()["groups"])) == 24


def test_every_image_has_a_place_on_the_map_and_the_same_one_again(desk):
    places = get(desk, "/api/map").json()["places"]
    assert len(places) == 48 and all(0 <= place <= 10_000 for place in places)
    assert get(desk, "/api/map").json()["places"] == places


def test_a_large_picture_is_the_small_one_where_the_file_is_gone(desk):
    large = get(desk, "/pictures/pile/3/large").content
    small = get(desk, "/pictures/pile/4/small").content
    assert large.startswith(b"\xff\xd8") and small.startswith(b"\xff\xd8")
    moved = Desk(desk.folder, None)
    moved.pictures._paths["pile"] = [desk.folder / "gone.png"] * 24
    assert get(moved, "/pictures/pile/4/large").content == small


def test_a_cancelled_adaptation_leaves_everything_as_it_was(desk):
    before = (desk.folder / "labels.csv").read_bytes()
    model = (desk.folder / "model" / "model.json").read_bytes()
    assert desk.adapt() and not desk.teach()  # one at a time
    until(lambda: desk.jobs.now and desk.jobs.now.stage == "adapting" and desk.jobs.now.done > 1)
    desk.correct([1], CLASSES[2])  # the page stays usable
    desk.jobs.cancel()
    desk.jobs.wait()
    assert desk.jobs.message.startswith("Cancelled") and len(desk.answers) == 1
    assert (desk.folder / "labels.csv").read_bytes() == before
    assert (desk.folder / "model" / "model.json").read_bytes() == model


def test_a_job_that_fails_says_so_and_the_next_one_begins():
    jobs = Jobs(lambda: None)
    jobs.start("x", lambda: 1 // 0)
    jobs.wait()
    assert jobs.has_failed and "ZeroDivisionError" in jobs.message
    assert jobs.start("y", lambda: "well")
    jobs.wait()
    assert jobs.message == "well" and not jobs.has_failed


def test_from_nothing_to_a_first_answer(tmp_path):
    tree = write_tree(tmp_path / "given")
    inputs = Inputs((), (), (), find_pile(str(tree / "pile")))
    start = load_pretrained("resnet10")
    desk = Desk(tmp_path / "run", Session.open(inputs, SETTINGS, tmp_path / "run", start, CPU))
    try:
        desk.begin()
        desk.jobs.wait()
        assert desk.jobs.message == "" and pile_columns(desk)["answer"] is None
        with pytest.raises(DataError, match="at least two classes"):
            desk.teach()
        sheets = get(desk, "/api/groups").json()["groups"]
        truth = [int(path.name[0]) for path in inputs.pile]
        for sheet in sheets:
            desk.correct(sheet[:3], CLASSES[truth[sheet[0]]])
        assert desk.teach()
        desk.jobs.wait()
        assert desk.jobs.message == "The first answer: 24 images."
    finally:
        desk.close()
    rows = read_rows(tmp_path / "run" / "labels.csv")
    right = [r.label == CLASSES[t] for r, t in zip(rows, truth, strict=True)]
    assert sum(right) >= 22


def test_a_log_with_another_persons_words_shows_a_conflict(desk, run, tmp_path):
    shutil.copytree(run, tmp_path / "theirs")
    append_corrections(tmp_path / "theirs", said_at_once({1: CLASSES[2]}, who="Ben"))
    desk.correct([1], CLASSES[1])
    assert desk.session.merge(tmp_path / "theirs") == 1
    assert pile_columns(desk)["said"] == {1: -4}


def test_a_run_is_free_again_after_the_desk(desk):
    desk.close()
    reopen(desk.folder, CPU).close()
