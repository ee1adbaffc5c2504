import csv

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from appl.labelling.left_out import LeftOut
from appl.labelling.novelty import NOVEL_AT, Novelty
from appl.labelling.rows import FORMULA_STARTS, LabelRow, read_rows, unreadable_row, write_rows

TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\r\n\0"))


@given(TEXT, st.sampled_from(["=1+1", "+x", "-x", "@x", "plain", "a, b", 'say "x"', "<b>"]))
def test_rows_come_back_as_they_were_and_no_cell_is_a_formula(tmp_path_factory, path, label):
    folder = tmp_path_factory.mktemp("rows")
    row = LabelRow(path, label, 0.9, label, 0.1, "accept", 0.5, path)
    write_rows(folder / "labels.csv", [row, unreadable_row(path, "=bad")])
    with (folder / "labels.csv").open(newline="", encoding="utf-8") as file:
        for cells in csv.reader(file):
            assert not any(cell.startswith(FORMULA_STARTS) for cell in cells)
    assert read_rows(folder / "labels.csv")[0] == row


def left_out(to_class, to_example):
    n = len(to_class)
    ids = torch.zeros(n, dtype=torch.int64)
    return LeftOut(torch.arange(n), ids, torch.zeros(n, 1), to_class, to_example)


def test_novelty_is_one_at_the_ninetieth_percentile_of_the_examples():
    to_class, to_example = torch.linspace(0, 2, 101), torch.linspace(0, 1, 101)
    novelty = Novelty.of(left_out(to_class, to_example), torch.ones(3), torch.ones(3))
    far = (torch.tensor([1.8]), torch.tensor([0.9]))
    assert novelty(*far).item() == pytest.approx(1)
    # Each distance counts half, beside its own yardstick.
    assert novelty(far[0], 2 * far[1]).item() == pytest.approx(1.5)
    assert novelty(2 * far[0], far[1]).item() == pytest.approx(1.5)
    assert novelty(*(NOVEL_AT * distance + 0.01 for distance in far)).item() > NOVEL_AT


def test_an_encoder_that_shrinks_all_distances_changes_no_novelty():
    judged = left_out(torch.tensor([0.5, 1.0, 1.5]), torch.tensor([0.8, 1.0, 1.2]))
    pile = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([0.1, 0.3, 0.4])
    shrunk = tuple(distance / 10 for distance in pile)
    assert Novelty.of(judged, *pile)(*pile).tolist() == pytest.approx(
        Novelty.of(judged, *shrunk)(*shrunk).tolist()
    )


def test_without_examples_nothing_is_novel():
    novelty = Novelty.of(left_out(torch.zeros(0), torch.zeros(0)), torch.ones(3), torch.ones(3))
    assert novelty(torch.tensor([5.0]), torch.tensor([5.0])).item() == 0


def test_copies_as_examples_do_not_make_a_novelty_infinite():
    novelty = Novelty.of(left_out(torch.zeros(4), torch.zeros(4)), torch.zeros(3), torch.zeros(3))
    assert novelty(torch.tensor([0.1]), torch.tensor([0.0])).isfinite().all()
