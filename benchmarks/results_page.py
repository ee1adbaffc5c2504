"""Fill the tables of docs/results.md from the stored results, and write them as files, too.

    python benchmarks/results_page.py            # or: make results

Every block of the page that begins with `<!-- table: NAME … -->` gets the table of these
configurations; rows that have few episodes yet are left out. `<!-- course: NAME … -->` gets the
records of their iterations, `<!-- training: NAME -->` what meta-training came to.
`docs/results/tables` gets each table as LaTeX and CSV, `docs/results` the differences and the
sensitivity as plots. The README gets the mean differences of the rows that POINTS share,
`<!-- points -->`. All numbers come from the export in docs/results. `--check` changes nothing and
fails if a page does not say what the results say.
"""

import argparse
import csv
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from appl.benchmark.collection import Collection, collect
from appl.benchmark.courses import course_grid
from appl.benchmark.curves import sensitivity_curves
from appl.benchmark.formats import markdown_grid, to_csv, to_latex
from appl.benchmark.grids import Grid, Text, make_grids
from appl.benchmark.plan import make_outline
from appl.benchmark.tables import ResultTable, make_table
from appl.core.files import write_atomically
from appl.core.methods import METHODS
from appl.report.benchmark_figures import curve_panels, difference_panel
from appl.report.drawing import save_figure
from appl.settings.benchmark import BenchSettings
from appl.settings.files import load_settings
from appl.store import ResultStore, read_export

DOCS = Path(__file__).parents[1] / "docs"
LEAST = 5  # episodes of a row on every target that it has: fewer say nothing
DRAWN = ("resnet10-even", "resnet10-uneven")  # the tables whose shared rows are drawn
POINTS = {  # those of the README, with the heads of its columns
    "resnet10-even": "ResNet10, even pile",
    "resnet10-uneven": "ResNet10, uneven",
    "lite0-even": "EfficientNet-Lite0, even pile",
    "lite0-uneven": "EfficientNet-Lite0, uneven",
}
TABLE = re.compile(r"(<!-- table: ([\w. -]+?) -->\n).*?(<!-- end of table -->)", re.DOTALL)
COURSE = re.compile(r"(<!-- course: ([\w. -]+?) -->\n).*?(<!-- end of course -->)", re.DOTALL)
TRAINING = re.compile(r"(<!-- training: ([\w-]+) -->\n).*?(<!-- end of training -->)", re.DOTALL)
POINTS_BLOCK = re.compile(r"(<!-- points -->\n).*?(<!-- end of points -->)", re.DOTALL)


def collection_of(name: str, store: ResultStore) -> Collection:
    """Find the results of a configuration in docs/results/configs."""
    settings = load_settings(BenchSettings, DOCS / "results" / "configs" / f"{name}.toml")
    return collect(make_outline(settings), store)


def table_of(names: list[str], store: ResultStore) -> ResultTable:
    """Make the table of some configurations, of the rows that have episodes enough."""
    table = make_table([collection_of(name, store) for name in names])
    counts = {row: [cell.accuracy.n for cell in table.found(row)] for row in table.rows}
    shown = {row: t for row, t in table.rows.items() if min(counts[row], default=0) >= LEAST}
    return replace(table, rows=shown)


def shown(table: ResultTable) -> str:
    """Write a table as the page shows it: what the copies of the data are is said once, above."""
    grids = [
        replace(grid, notes=tuple(note for note in grid.notes if not note.startswith("Data: ")))
        for grid in make_grids(table)
    ]
    return "\n" + "\n".join(markdown_grid(grid) for grid in grids) + "\n"


def course_of(names: list[str], store: ResultStore) -> str:
    """Write how the adaptations of some configurations went."""
    grid = course_grid([collection_of(name, store) for name in names])
    assert grid is not None, f"no row of {names} keeps a record"
    return "\n" + markdown_grid(grid) + "\n"


def training_of(name: str) -> str:
    """Write where meta-training began and what was kept of it (rival_training.py)."""
    runs: dict[str, list[dict[str, str]]] = {}
    with (DOCS / "results" / f"{name}.csv").open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            runs.setdefault(line["method"], []).append(line)
    lines = []
    for method, epochs in runs.items():
        (kept,) = (epoch for epoch in epochs if epoch["kept"])
        shown = [
            f"{float(epoch['validation_accuracy']):.1f} ± {float(epoch['validation_interval']):.1f}"
            for epoch in (epochs[0], kept)
        ]
        words = (METHODS.get(method).card.title, *shown, kept["epoch"])
        lines.append(tuple(map(Text, words)))
    head = ("", "before, %", "kept, %", "of epoch")
    return "\n" + markdown_grid(Grid("", head, tuple(lines))) + "\n"


def points_of(tables: dict[str, ResultTable]) -> str:
    """Write by how much the rows that all these tables have are above their reference."""
    first, *others = tables.values()
    shared = [row for row in first.rows if all(row in table.rows for table in others)]
    lines = []
    for row in shared:
        means = [table.mean_difference(row, *table.shots) for table in tables.values()]
        if row != first.reference and all(means):
            words = [f"{mean.mean:+.1f} ± {mean.interval:.1f}" for mean in means if mean]
            lines.append(tuple(map(Text, (row, *words))))
    return "\n" + markdown_grid(Grid("", ("", *POINTS.values()), tuple(lines))) + "\n"


def main() -> int:
    """Fill, or check."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    path, front = DOCS / "results.md", DOCS.parent / "README.md"
    page, readme = path.read_text(encoding="utf-8"), front.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        store = ResultStore(Path(folder) / "results.sqlite")
        read_export(store, DOCS / "results")
        tables = {block[2]: table_of(block[2].split(), store) for block in TABLE.finditer(page)}
        new = TABLE.sub(lambda block: block[1] + shown(tables[block[2]]) + block[3], page)
        new = COURSE.sub(lambda b: b[1] + course_of(b[2].split(), store) + b[3], new)
        new = TRAINING.sub(lambda b: b[1] + training_of(b[2]) + b[3], new)
        curves = sensitivity_curves(collection_of("sensitivity", store))
        store.close()
    points = points_of({name: tables[name] for name in POINTS})
    new_readme = POINTS_BLOCK.sub(lambda b: b[1] + points + b[2], readme)
    if is_check:
        stale = [
            file.name
            for file, is_new in ((path, new != page), (front, new_readme != readme))
            if is_new
        ]
        if stale:
            print(f"{', '.join(stale)}: not what docs/results says; run `make results`")
        return int(bool(stale))
    write_atomically(path, new.encode())
    write_atomically(front, new_readme.encode())
    for names, table in tables.items():
        file = DOCS / "results" / "tables" / names.split()[0]
        write_atomically(file.with_suffix(".csv"), to_csv(table).encode())
        write_atomically(file.with_suffix(".tex"), to_latex(table).encode())
    save_figure(curve_panels(curves), DOCS / "results" / "sensitivity.svg")
    drawn = [tables[name] for name in DRAWN]
    shared = {row: takes for row, takes in drawn[0].rows.items() if row in drawn[1].rows}
    panels = [difference_panel(replace(table, rows=shared), table.title) for table in drawn]
    save_figure(panels, DOCS / "results" / "points.svg", (7.4, 6.6))
    return 0


if __name__ == "__main__":
    sys.exit(main())
