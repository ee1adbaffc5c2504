"""The same table as Parquet, typed; the certificate is in the file's metadata."""

import json
from pathlib import Path
from typing import Any

from appl.errors import ApplError, DataError
from appl.exchange.format import FORMATS, Format
from appl.exchange.formats.csv import COLUMNS, statement_of, values_of
from appl.exchange.labelled import Handover, Statement

NUMBERS = ("confidence", "runner_up_confidence", "novelty")


def write(handover: Handover, made: Path, out: Path) -> str:
    """Write the table."""
    arrow, parquet = _pyarrow()
    columns = list(zip(*(values_of(i, out.parent) for i in handover.images), strict=True))
    schema = arrow.schema(
        [(name, arrow.float64() if name in NUMBERS else arrow.string()) for name in COLUMNS]
    )
    facts = {"appl.version": handover.version, "appl.classes": json.dumps(handover.class_names)}
    if handover.certificate is not None:
        facts["appl.certificate"] = json.dumps(handover.certificate)
    table = arrow.table(dict(zip(COLUMNS, columns, strict=True)), schema=schema)
    parquet.write_table(table.replace_schema_metadata(facts), made)
    return ""


def read(place: Path) -> list[Statement]:
    """Read a table with `path` and `label`."""
    arrow, parquet = _pyarrow()
    if not place.is_file():
        raise DataError(f"{place}: no such file")
    try:
        table = parquet.read_table(place)
    except (arrow.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())[:120]
        raise DataError(f"{place} is no whole Parquet file: {reason}") from error
    missing = {"path", "label"} - set(table.column_names)
    if missing:
        raise DataError(f"{place} has no column {sorted(missing)[0]!r}; it needs path and label")
    kept = [name for name in COLUMNS if name in table.column_names]
    said = [
        statement_of(
            {name: None if value is None else str(value) for name, value in row.items()},
            place.parent,
            f"{place}, row {number}",
        )
        for number, row in enumerate(table.select(kept).to_pylist(), 1)
    ]
    return [statement for statement in said if statement is not None]


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ApplError(
            "Parquet needs pyarrow; install it with pip install 'appl[parquet]'"
        ) from error
    return pyarrow, pyarrow.parquet


FORMATS.register("parquet")(
    Format("the table as Parquet; needs pyarrow", "file", "all", False, write, read, True)
)
