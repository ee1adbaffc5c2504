import json
import re

import pytest

from appl.cli import demo
from appl.datasets.digits import write_digits
from tests.cli.commands import run


def test_another_draw_in_the_same_folder_does_not_mix(tmp_path):
    for seed in (0, 1, 0):
        support, pile, truth = write_digits(tmp_path / str(seed), 5, 40, seed)
        assert len(list(support.rglob("*.png"))) == 50
        assert {path.name for path in pile.iterdir()} == set(truth) and len(truth) == 400
    assert sorted(set(truth.values())) == list("0123456789")


@pytest.mark.slow
def test_the_demo_labels_the_digits_and_counts_the_right_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "N_PILE", 15)  # of 40: the way is the same
    options = ("--encoder", "resnet10", "--size-px", "32")
    shown = run("demo", "--out", str(tmp_path), *options)
    assert shown.returncode == 0, shown.stderr
    shares = [float(share) for share in re.findall(r"│\s+(\d+\.\d)%", shown.stdout)]
    assert len(shares) == 4 and all(50 < share <= 100 for share in shares)  # all, accepted; twice
    record = json.loads((tmp_path / "run-0" / "run.json").read_text())
    assert record["state"] == "finished" and record["n_pile"] == 150
    assert (tmp_path / "run-0" / "report.html").is_file()
