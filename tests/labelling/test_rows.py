import csv

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

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


def test_novelty_is_one_at_the_ninetieth_percentile_of_the_examples():
    novelty = Novelty.of(torch.linspace(0, 2, 101))
    assert novelty(torch.tensor([1.8])).item() == pytest.approx(1)
    assert novelty(torch.tensor([1.8 * NOVEL_AT + 0.01])).item() > NOVEL_AT


def test_without_examples_nothing_is_novel():
    assert Novelty.of(torch.zeros(0))(torch.tensor([5.0])).item() == 0
