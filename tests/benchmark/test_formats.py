import csv
import io
import re
from pathlib import Path, PurePath

import pytest

from appl.benchmark.formats import format_of, latex_escape, to_csv, to_latex, to_markdown
from appl.benchmark.tables import Column, make_table
from appl.errors import SettingsError
from tests.benchmark.fake_store import simple_collection

HOSTILE = "50% & #1_{x}^2 ~$\\|\nnew"


def test_markdown_has_accuracies_tags_conditions_and_differences(tmp_path: Path) -> None:
    text = to_markdown(make_table([simple_collection(tmp_path, quote=["APPL"])]))
    assert text == (
        "|  | CUB | episodes | s / episode | takes |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| ProtoNet | 60.00 ± 9.24 | 3 | 0.5 | none |\n"
        "| TIM | 65.00 ± 9.73 | 3 | 2 | transductive |\n"
        "| *quoted: the paper's APPL* | *67.46 ± 0.78* |  |  |  |\n"
        "\n"
        "resnet10 trained on miniImageNet (weights eeeeeeeeeeee), 84 px; 5-way 5-shot, 15 queries "
        "per class, seed 0; mean ± 95 % interval over the episodes.\n"
        "\n"
        "Quoted rows are what the paper prints: the original data sets, other weights, other "
        "episodes.\n"
        "\n"
        "Paired difference to ProtoNet, the same episodes (bold: the 95 % interval, "
        "Student's, excludes zero):\n"
        "\n"
        "|  | CUB |\n"
        "| --- | --- |\n"
        "| TIM | **+5.00 ± 2.48** |\n"
    )


def test_a_title_cannot_break_a_markdown_table(tmp_path: Path) -> None:
    rows = [("ProtoNet", "prototypical", {}), (HOSTILE, "tim", {})]
    text = to_markdown(make_table([simple_collection(tmp_path, rows=rows)]))
    tables = [line for line in text.splitlines() if line.startswith("|")]
    n_cells = [len(re.split(r"(?<!\\)\|", line)) - 2 for line in tables]
    assert n_cells == [5, 5, 5, 5, 2, 2, 2]


def test_latex_prints_every_letter() -> None:
    assert latex_escape("50% & #1_{x}^2 ~$") == (
        r"50\% \& \#1\_\{x\}\textasciicircum{}2 \textasciitilde{}\$"
    )
    assert latex_escape("a\\b") == r"a\textbackslash{}b"
    assert latex_escape("60.00 ± 9.24") == r"60.00 $\pm$ 9.24"
    assert latex_escape("α₀ = 0.1 < 1") == r"$\alpha$$_0$ = 0.1 \textless{} 1"


def test_latex_tables_are_whole(tmp_path: Path) -> None:
    rows = [(HOSTILE, "prototypical", {}), ("TIM", "tim", {})]
    table = make_table([simple_collection(tmp_path, rows=rows)], HOSTILE)
    lines = to_latex(table).splitlines()
    code = [line for line in lines if not line.startswith("%")]
    assert "\\begin{tabular}{lrrrr}" in code
    (line,) = (line for line in code if line.startswith("50"))
    assert line.count(" & ") == 4 and line.endswith(" \\\\")
    assert any(line == "TIM & \\textbf{+5.00 $\\pm$ 2.48} \\\\" for line in code)
    assert not any(line.startswith("new") for line in lines)


def test_numbers_come_back_from_csv_in_full(tmp_path: Path) -> None:
    table = make_table([simple_collection(tmp_path, quote=["APPL"])])
    lines = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert [(line["kind"], line["row"]) for line in lines] == [
        ("measured", "ProtoNet"),
        ("measured", "TIM"),
        ("quoted", "APPL"),
    ]
    tim, cell = lines[1], table.cells["TIM", Column("cub", "CUB", 5)]
    assert float(tim["mean"]) == cell.accuracy.mean
    assert float(tim["interval"]) == cell.accuracy.interval
    assert float(tim["difference_interval"]) == cell.difference.interval
    assert (tim["reference"], int(tim["n_pairs"])) == ("ProtoNet", 3)
    assert tim["run"] == cell.run.key
    quote = lines[2]
    assert (float(quote["mean"]), quote["run"], quote["difference"]) == (67.46, "", "")


def test_the_ending_of_a_file_says_its_format() -> None:
    assert [format_of(PurePath(f"t.{end}")) for end in ("md", "tex", "csv")] == [
        "markdown",
        "latex",
        "csv",
    ]
    with pytest.raises(SettingsError, match=r"t\.doc: no table is written as '\.doc'"):
        format_of(PurePath("t.doc"))
