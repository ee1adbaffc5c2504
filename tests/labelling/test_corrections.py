"""The log of what a person said: append-only, undone without end, merged line by line."""

import pytest

from appl.errors import DataError
from appl.labelling.corrections import (
    Correction,
    append_corrections,
    check_class_name,
    images_with,
    known_classes,
    merge_corrections,
    read_corrections,
    redo_last,
    said_at_once,
    undo_last,
    with_corrections,
)
from appl.labelling.rows import LabelRow


def say(folder, labels, **facts):
    append_corrections(folder, said_at_once(labels, **facts))
    return read_corrections(folder)


def test_a_line_says_who_when_what_and_from_which_answer(tmp_path):
    (line,) = say(tmp_path, {4: "rust"}, who="Ada", answer=3, was={4: "healthy"})
    assert (line.image, line.class_name, line.who, line.answer, line.was) == (
        4,
        "rust",
        "Ada",
        3,
        "healthy",
    )
    assert line.at.endswith("+00:00") and line.act and line.kind == "label"


def test_undo_takes_back_whole_acts_one_after_the_other_and_redo_brings_them_again(tmp_path):
    say(tmp_path, {1: "a", 2: "a"})
    log = say(tmp_path, {2: "b", 3: ""})
    assert known_classes(log) == {1: "a", 2: "b", 3: ""}
    steps = []
    for _ in range(3):
        append_corrections(tmp_path, undo_last(log))
        log = read_corrections(tmp_path)
        steps.append(known_classes(log))
    assert steps == [{1: "a", 2: "a"}, {}, {}] and undo_last(log) == []
    for expected in ({1: "a", 2: "a"}, {1: "a", 2: "b", 3: ""}, {1: "a", 2: "b", 3: ""}):
        append_corrections(tmp_path, redo_last(log))
        log = read_corrections(tmp_path)
        assert known_classes(log) == expected
    assert redo_last(log) == []
    append_corrections(tmp_path, undo_last(log))
    log = say(tmp_path, {9: "c"})
    assert redo_last(log) == []  # something was said since
    assert known_classes(log) == {1: "a", 2: "a", 9: "c"}


def test_skipping_says_nothing_about_the_class(tmp_path):
    say(tmp_path, {1: "a"})
    log = say(tmp_path, {1: "", 2: ""}, kind="skip")
    assert known_classes(log) == {1: "a"} and images_with(log, "skip") == {1, 2}


def test_a_log_of_the_first_version_is_read_and_added_to(tmp_path):
    path = tmp_path / "corrections.csv"
    path.write_text("at,image,class_name\n2026-01-01,3,rust\n2026-01-02,4,\n")
    assert known_classes(read_corrections(tmp_path)) == {3: "rust", 4: ""}
    log = say(tmp_path, {5: "rust"})
    assert known_classes(log) == {3: "rust", 4: "", 5: "rust"}
    append_corrections(tmp_path, [*undo_last(log)])
    append_corrections(tmp_path, undo_last(read_corrections(tmp_path)))
    assert known_classes(read_corrections(tmp_path)) == {3: "rust"}


def test_a_line_that_was_cut_short_spoils_no_later_one(tmp_path):
    say(tmp_path, {1: "a"})
    path = tmp_path / "corrections.csv"
    whole = path.read_bytes()
    for cut in (1, 5, 30):
        path.write_bytes(whole + whole.splitlines(keepends=True)[1][:cut])
        assert known_classes(say(tmp_path, {2: "b"})) == {1: "a", 2: "b"}
        path.write_bytes(whole)


def test_logs_of_two_people_are_merged_and_a_conflict_is_shown_not_decided(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
    say(ours, {1: "a", 2: "a", 3: "b"}, who="Ada")
    say(theirs, {2: "b", 3: "b", 4: "c"}, who="Ben")
    assert merge_corrections(ours, theirs) == 1
    log = read_corrections(ours)
    assert known_classes(log) == {1: "a", 3: "b", 4: "c"}
    assert images_with(log, "conflict") == {2}
    assert merge_corrections(ours, theirs) == 0 and read_corrections(ours) == log
    assert known_classes(say(ours, {2: "a"}))[2] == "a"  # decided by a person
    assert images_with(read_corrections(ours), "conflict") == set()


def test_a_persons_word_stands_above_the_models():
    rows = [
        LabelRow("0.png", "a", 0.6, "b", 0.4, "review", 0.5, "x"),
        LabelRow("1.png", "a", 0.6, "b", 0.4, "review", 0.5, "x"),
        LabelRow("2.png", "", None, "", None, "unreadable", None, "", "broken"),
    ]
    found = with_corrections(rows, {0: "b", 1: "", 2: "a"})
    assert (found[0].label, found[0].confidence, found[0].decision) == ("b", 1.0, "accept")
    assert found[0].runner_up == "a" and found[1].decision == "none-of-these"
    assert found[2] == rows[2]


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 101, ".hidden", "\x00"])
def test_names_that_no_class_can_have(name):
    with pytest.raises(DataError, match="class"):
        check_class_name(name, ["a"])


def test_a_twin_of_a_name_is_that_name():
    assert check_class_name(" Rust ", ["rust"]) == "rust"
    assert check_class_name(" <script> ", ["rust"]) == "<script>"


def test_what_is_said_now_is_dated_now():
    assert Correction.now(1, "a").at < Correction.now(1, "a").at + "z"
