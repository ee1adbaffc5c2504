"""CSV and Parquet: by pandas and pyarrow, and tables of others."""

import csv
from pathlib import Path

import pandas
import pyarrow.parquet
import pytest

from appl.errors import ApplError, DataError
from appl.exchange.exporting import export_run
from appl.exchange.formats import parquet
from appl.exchange.formats.csv import COLUMNS
from appl.exchange.importing import read_statements
from appl.exchange.labelled import read_run
from appl.labelling.rows import FORMULA_STARTS
from tests.report.fake_run import FakeRun


def test_pandas_reads_the_table(odd: FakeRun, tmp_path: Path) -> None:
    frame = pandas.read_csv(export_run(odd.folder, "csv", tmp_path / "labels.csv").path)
    assert list(frame.columns) == list(COLUMNS) and len(frame) == 21
    assert frame["said_by"].value_counts().to_dict() == {"model": 19, "person": 2}
    assert frame["decision"].value_counts()["accept"] == 17
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        assert not any(cell.startswith(FORMULA_STARTS) for row in csv.reader(file) for cell in row)
    # Below the table paths count from it, so that both can be moved together.
    assert frame["path"][2] == "pile/part 1/test.png"


def test_paths_outside_the_tables_folder_are_whole(odd: FakeRun, tmp_path: Path) -> None:
    out = export_run(odd.folder, "csv", tmp_path / "far" / "labels.csv").path
    assert Path(pandas.read_csv(out)["path"][2]).is_absolute()
    assert read_statements(out)[1].path.is_file()


def test_parquet_keeps_types_and_names(odd: FakeRun, tmp_path: Path) -> None:
    table = pyarrow.parquet.read_table(
        export_run(odd.folder, "parquet", tmp_path / "l.parquet").path
    )
    rows, images = table.to_pylist(), read_run(odd.folder).images
    assert [row["label"] for row in rows] == [image.label for image in images]  # "=cmd" as it is
    assert [row["confidence"] for row in rows] == [image.confidence for image in images]
    assert b"appl.version" in table.schema.metadata
    frame = pandas.read_parquet(tmp_path / "l.parquet")
    assert frame["confidence"].dtype == "float64"


def test_tables_of_others(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("\ufeffid;label;path\n1;=rust;a.png\n2;;b.png\n3;'=x;c.png\n", encoding="utf-8")
    said = read_statements(path)
    assert [(s.path, s.label) for s in said] == [
        (tmp_path / "a.png", "=rust"),
        (tmp_path / "c.png", "=x"),
    ]
    assert {s.by_person for s in said} == {None}
    pandas.DataFrame({"path": ["a.png"], "label": ["rust"], "more": [1]}).to_parquet(
        tmp_path / "theirs.parquet"
    )
    (said_of,) = read_statements(tmp_path / "theirs.parquet")
    assert said_of.label == "rust" and said_of.path == tmp_path / "a.png"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", b"file,class\na,b\n", "has no column 'label'"),
        ("x.csv", b"path,label\n,rust\n", "line 2: the row names no image"),
        ("x.parquet", b"PAR1 no", "is no whole Parquet file"),
    ],
)
def test_what_is_no_table_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_statements(tmp_path / name)


def test_without_pyarrow_it_says_what_to_install(odd: FakeRun, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(ApplError, match=r"pip install 'appl\[parquet\]'"):
        parquet.read(tmp_path / "x.parquet")
    assert not list(tmp_path.glob("*.parquet"))
