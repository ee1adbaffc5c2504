"""Fill the tables of README.md and docs/results.md from the stored results; write appendices.

    python benchmarks/results_page.py            # or: make results

docs/results/tables gets a page per table of APPENDICES with every target, the same as CSV and
LaTeX, and `pairs.md` with comparisons of two rows. docs/results gets the plots. In the two pages a
block `<!-- table: KIND NAME -->` … `<!-- end of table -->` is filled in:

    points           mean differences to ProtoNet of the rows that all tables of POINTS have
    gains            the same of all their rows
    rivals           mean differences of the rivals to robust at 5, 20 and 50 shots
    pairs NAME       comparisons of two rows, from PAIRS
    answer           what a part of the answer is worth, on even and on uneven piles
    encoders         encoders alone and side by side, frozen (encoders_side_by_side)
    recipes          recipes of adaptation minus the frozen encoder (choose_recipe)
    readings         readings of Algorithm 2 minus class means on frozen features (choose_reading)
    pcn              a trained prototype network minus the class mean (pcn_against_mean)
    learnt WHERE     the transductive prototype network minus the fixed rule (learnt_against_fixed)

All numbers come from the export in docs/results; rows with few episodes are left out. `--check`
changes nothing and fails if a file does not say what the results say.
"""

import argparse
import csv
import json
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from choose_reading import reading_grid
from choose_recipe import recipe_grid
from encoders_side_by_side import encoder_grid
from learnt_against_fixed import learnt_grid
from pcn_against_mean import pcn_grid

from appl.benchmark.adaptation_logs import adaptation_log_grid
from appl.benchmark.collection import Collection, collect
from appl.benchmark.curves import sensitivity_curves
from appl.benchmark.formats import markdown_grid, to_csv, to_latex, to_markdown
from appl.benchmark.grids import NONE, Grid, Text, make_grids
from appl.benchmark.plan import make_outline
from appl.benchmark.statistics import Estimate
from appl.benchmark.tables import Column, ResultTable, make_table
from appl.core.files import write_atomically
from appl.core.methods import METHODS
from appl.report.benchmark_figures import curve_panels, difference_panel
from appl.report.drawing import save_figure
from appl.settings.benchmark import BenchSettings
from appl.settings.files import load_settings
from appl.store import ResultStore, read_export

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PAGES = (
    ROOT / "README.md",
    ROOT / "docs" / "results.md",
    ROOT / "docs" / "transduction.md",
    ROOT / "docs" / "reproduction.md",
    ROOT / "docs" / "robust.md",
    ROOT / "docs" / "encoders.md",
)
CHOICE = RESULTS / "choice"
LEAST = 5  # episodes that a row needs on every target that it has: fewer say nothing
BLOCK = re.compile(r"(<!-- table: (\w+)(?: ([\w-]+))? -->\n).*?(<!-- end of table -->)", re.DOTALL)

APPENDICES = {  # by file name: the configurations that share a table
    "resnet10-even": ("resnet10-even",),
    "resnet10-uneven": ("resnet10-uneven",),
    "lite0-even": ("lite0-even",),
    "lite0-uneven": ("lite0-uneven",),
    "rivals": ("rivals",),
    "table2-20shot": ("table2-20shot", "table2-44shot", "table2-50shot"),
    "meta-trained": ("meta-trained",),
    "meta-trained-20shot": ("meta-trained-20shot", "meta-trained-44shot", "meta-trained-50shot"),
    "table3": ("table3",),
    "answer-even": ("answer-even",),
    "answer-uneven": ("answer-uneven",),
    "groups": ("groups",),
    "groups-20shot": ("groups-20shot",),
}
DRAWN = ("resnet10-even", "resnet10-uneven")  # the tables whose shared rows are drawn
POINTS = {  # the tables of the README, with the heads of its columns
    "resnet10-even": "ResNet10, even pile",
    "resnet10-uneven": "ResNet10, uneven",
    "lite0-even": "EfficientNet-Lite0, even pile",
    "lite0-uneven": "EfficientNet-Lite0, uneven",
}


class Pair(NamedTuple):
    """Two rows of an appendix: how far the first is above the second on the same episodes."""

    appendix: str
    n_shot: int
    row: str
    other: str
    label: str = ""


ROBUST, FROZEN = "APPL robust", "APPL robust, not adapted"
PAIRS = {
    "adapting": (
        Pair("resnet10-even", 5, ROBUST, FROZEN, "ResNet10, 5 shots, even piles"),
        Pair("resnet10-uneven", 5, ROBUST, FROZEN, "ResNet10, 5 shots, uneven piles"),
        Pair("table2-20shot", 20, ROBUST, FROZEN, "ResNet10, 20 shots, four targets"),
        Pair("table2-20shot", 50, ROBUST, FROZEN, "ResNet10, 50 shots, three targets"),
        Pair("lite0-even", 5, ROBUST, FROZEN, "EfficientNet-Lite0, 5 shots, even piles"),
        Pair("lite0-uneven", 5, ROBUST, FROZEN, "EfficientNet-Lite0, 5 shots, uneven piles"),
    ),
    "presets": (
        Pair("resnet10-even", 5, ROBUST, "APPL released, bf16"),
        Pair("resnet10-even", 5, ROBUST, "APPL paper, bf16"),
        Pair("lite0-even", 5, ROBUST, "TIM", "APPL robust over TIM, EfficientNet-Lite0"),
    ),
    "fine-tuning": (
        Pair("rivals", 5, "Fine-tune", "Linear probe"),
        Pair("rivals", 5, "Transductive fine-tune", "Fine-tune"),
        Pair("rivals", 5, "Fine-tune + propagation", "Fine-tune"),
        Pair("rivals", 5, "Transductive fine-tune", "TIM"),
    ),
    "meta-training": (
        Pair("meta-trained", 5, "ProtoNet, meta-trained", "ProtoNet, not meta-trained"),
        Pair("meta-trained", 5, "MAML", "ProtoNet, not meta-trained"),
        Pair("meta-trained", 5, "MetaOptNet", "ProtoNet, not meta-trained"),
        Pair("meta-trained", 5, "MatchingNet", "ProtoNet, not meta-trained"),
        Pair("meta-trained", 5, "RelationNet", "ProtoNet, not meta-trained"),
        Pair("meta-trained", 5, "GNN", "ProtoNet, not meta-trained"),
        Pair("meta-trained", 5, "GNN, batch statistics", "GNN"),
        Pair("meta-trained", 5, "GNN, batch statistics", "ProtoNet, not meta-trained"),
        Pair("meta-trained", 5, "TPN, α = 0.8", "TPN"),
        Pair("meta-trained", 5, "MatchingNet + FWT", "MatchingNet"),
        Pair("meta-trained", 5, "ProtoNet + FWT", "ProtoNet, meta-trained"),
        Pair("meta-trained", 5, "RelationNet + FWT", "RelationNet"),
        Pair("meta-trained", 5, "GNN + FWT, batch statistics", "GNN, batch statistics"),
        Pair("meta-trained", 5, "TPN + FWT", "TPN"),
    ),
}


class Book:
    """The tables that the stored results make."""

    def __init__(self, store: ResultStore) -> None:
        self._store = store
        self.collection = cache(self._collection)
        self.table = cache(self._table)

    def _collection(self, name: str) -> Collection:
        """Find the results of a configuration in docs/results/configs."""
        settings = load_settings(BenchSettings, RESULTS / "configs" / f"{name}.toml")
        return collect(make_outline(settings), self._store)

    def collections(self, appendix: str) -> list[Collection]:
        """Find the results of all configurations of an appendix."""
        return [self.collection(name) for name in APPENDICES[appendix]]

    def _table(self, appendix: str, reference: str = "") -> ResultTable:
        """Make a table of the rows that have episodes enough."""
        table = make_table(self.collections(appendix), reference)
        counts = {row: [cell.accuracy.n for cell in table.found(row)] for row in table.rows}
        shown = {row: t for row, t in table.rows.items() if min(counts[row], default=0) >= LEAST}
        return replace(table, rows=shown)


def texts(*words: str) -> tuple[Text, ...]:
    return tuple(map(Text, words))


def points(book: Book, digits: int, is_shared: bool) -> Grid:
    """By how much rows are above ProtoNet: those that all tables of POINTS have, or all rows."""
    tables = [book.table(name) for name in POINTS]
    rows = list(dict.fromkeys(row for table in tables for row in table.rows))
    if is_shared:
        rows = [row for row in rows if all(row in table.rows for table in tables)]

    def shown(table: ResultTable, row: str) -> str:
        mean = table.mean_difference(row, *table.shots) if row in table.rows else None
        return f"{mean.mean:+.{digits}f} ± {mean.interval:.{digits}f}" if mean else NONE

    lines = [
        texts(row, *(shown(table, row) for table in tables)) for row in rows if row != "ProtoNet"
    ]
    if not is_shared:
        means = [table.mean_accuracy("ProtoNet", *table.shots) for table in tables]
        right = [f"{mean.mean:.2f} %" if mean else NONE for mean in means]
        lines.insert(0, texts("ProtoNet itself, mean accuracy", *right))
    return Grid("", ("", *POINTS.values()), tuple(lines))


def decided(table: ResultTable, row: str, n_shot: int | None = None) -> tuple[str, str]:
    """Name the targets where a row is above the reference by more than the interval, and below."""
    found = {
        column: table.cells[row, column].difference
        for column in table.columns
        if (row, column) in table.cells and n_shot in (None, column.n_shot)
    }
    above = [c for c, value in found.items() if value.excludes_zero and value.mean > 0]
    below = [c for c, value in found.items() if value.excludes_zero and value.mean < 0]
    return named(above, list(found)), named(below, list(found))


def named(columns: list[Column], of: list[Column]) -> str:
    """Name some columns in few words: `all but ChestX`, `ISIC (50), ChestX (20, 44)`."""
    if not columns:
        return NONE
    rest = [column for column in of if column not in columns]
    if not rest and len(of) > 1:
        return "all"
    is_most = len(rest) < len(columns) - 1
    shots: dict[str, list[str]] = {}
    for column in rest if is_most else columns:
        shots.setdefault(column.title.split(" (")[0], []).append(str(column.n_shot))
    has_shots = len({column.n_shot for column in of}) > 1
    words = [f"{title} ({', '.join(n)})" if has_shots else title for title, n in shots.items()]
    return ("all but " if is_most else "") + ", ".join(words)


def signed(value: Estimate | None) -> Text:
    if value is None:
        return Text(NONE)
    return Text(value.signed, "bold" if value.excludes_zero else "")


def rivals(book: Book) -> Grid:
    """Write how far the rivals are above or below robust, with few examples and with many."""
    few, many = book.table("rivals"), book.table("table2-20shot")
    assert few.reference == many.reference == ROBUST
    accuracies = make_grids(few)[0]
    places = [accuracies.head.index(title) for title in ("s / episode", "episodes")]
    effort = {line[0].words: [line[place] for place in places] for line in accuracies.lines}
    lines = []
    for row in few.rows:
        if row == ROBUST:
            continue
        better = named(
            [
                column
                for table in (few, many)
                for column in table.columns
                if (row, column) in table.cells
                and table.cells[row, column].difference.excludes_zero
                and table.cells[row, column].difference.mean > 0
            ],
            [*few.columns, *many.columns],
        )
        means = [few.mean_difference(row, 5)]
        means += [many.mean_difference(row, n_shot) for n_shot in (20, 50)]
        lines.append((Text(row), *map(signed, means), Text(better), *effort[row]))
    head = ("", "5 shots, eight targets", "20 shots, four", "50 shots, three")
    return Grid("", (*head, "better on (shots)", "s / episode, 5 shots", "episodes"), tuple(lines))


def pairs(book: Book, group: str) -> Grid:
    """Compare two rows at a time, over the episodes that both have."""
    lines = []
    for pair in PAIRS[group]:
        table = book.table(pair.appendix, pair.other)
        mean = table.mean_difference(pair.row, pair.n_shot)
        assert mean, f"{pair} has no results on all targets"
        label = pair.label or f"{pair.row} over {pair.other}"
        sides = decided(table, pair.row, pair.n_shot)
        lines.append((Text(label), signed(mean), *texts(*sides, str(mean.n))))
    return Grid("", ("", "mean", "better on", "worse on", "episodes"), tuple(lines))


def answer(book: Book) -> Grid:
    """Write what each part of the answer is worth on both kinds of pile."""
    tables = [book.table("answer-even"), book.table("answer-uneven")]
    lines = [
        (Text(row), *(signed(table.mean_difference(row, *table.shots)) for table in tables))
        for row in tables[0].rows
        if row != tables[0].reference
    ]
    return Grid("", ("", "even piles", "uneven piles"), tuple(lines))


def groups() -> Grid:
    """Write which share of the queries has its patient or lesion among the examples."""
    path = ROOT / "benchmarks" / "results" / "shared_groups.json"
    found = json.loads(path.read_text(encoding="utf-8"))["percent_of_queries"]
    titles = {"isic": "ISIC", "chestx": "ChestX"}
    lines = [
        texts(
            f"{titles[row['target']]}, {row['n_shot']}-shot",
            f"{row['own_class']:.1f} %",
            f"{row['others']:.1f} %",
        )
        for row in found
    ]
    caption = (
        "How many queries of freely drawn episodes have their patient or lesion among the examples "
        "(benchmarks/shared_groups.py):"
    )
    head = ("", "among those of its own class", "only among those of another class")
    return Grid(caption, head, tuple(lines))


def training() -> Grid:
    """Write where meta-training began and what was kept of it (rival_training.py)."""
    runs: dict[str, list[dict[str, str]]] = {}
    with (RESULTS / "meta-training.csv").open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            runs.setdefault(line["method"], []).append(line)
    lines = []
    for method, epochs in runs.items():
        (kept,) = (epoch for epoch in epochs if epoch["kept"])
        shown = [
            f"{float(epoch['validation_accuracy']):.1f} ± {float(epoch['validation_interval']):.1f}"
            for epoch in (epochs[0], kept)
        ]
        lines.append(texts(METHODS.get(method).card.title, *shown, kept["epoch"]))
    caption = (
        "Meta-training from the shipped encoder (benchmarks/rival_training.py, "
        "docs/results/meta-training.csv): accuracy on the source's validation classes, 60 "
        "episodes, before the first task and of the weights that were kept."
    )
    return Grid(caption, ("", "before, %", "kept, %", "of epoch"), tuple(lines))


def filled(page: str, book: Book) -> str:
    """Fill the blocks of a page."""
    kinds: dict[str, Callable[[str], Grid]] = {
        "points": lambda _: points(book, 1, is_shared=True),
        "gains": lambda _: points(book, 2, is_shared=False),
        "rivals": lambda _: rivals(book),
        "pairs": lambda name: pairs(book, name),
        "answer": lambda _: answer(book),
        "encoders": lambda _: encoder_grid(CHOICE / "side-by-side.csv"),
        "recipes": lambda _: recipe_grid(CHOICE / "recipes.csv"),
        "readings": lambda _: reading_grid(CHOICE / "paper-readings.csv"),
        "pcn": lambda _: pcn_grid(CHOICE / "pcn-against-mean.csv"),
        "learnt": lambda where: learnt_grid(CHOICE / "learnt-prototypes.csv", where),
    }
    return BLOCK.sub(
        lambda block: f"{block[1]}\n{markdown_grid(kinds[block[2]](block[3]))}{block[4]}", page
    )


def appendix_page(book: Book, name: str) -> str:
    """Write a table with every target, and what else is known of its rows."""
    table = book.table(name)
    configs = " ".join(f"docs/results/configs/{config}.toml" for config in APPENDICES[name])
    parts = [
        f"# {table.title}",
        "Written by `make results`; [results.md](../../results.md) says what it means. Also as "
        f"[CSV]({name}.csv) and [LaTeX]({name}.tex). After `appl bench import docs/results "
        "--results results.sqlite` the same is printed by",
        f"```\nappl bench table {configs} --results results.sqlite\n```",
        to_markdown(table).strip(),
    ]
    log = adaptation_log_grid(book.collections(name))
    if log:
        parts.append(markdown_grid(log).strip())
    extra = {"meta-trained": training, "groups": groups}.get(name)
    if extra:
        parts.append(markdown_grid(extra()).strip())
    return "\n\n".join(parts) + "\n"


def pairs_page(book: Book) -> str:
    """Write all comparisons of two rows."""
    parts = [
        "# Two rows at a time",
        "Written by `make results`: the mean over the targets of the paired difference, and the "
        "targets on which its 95 % interval (Student's) excludes zero. `appl bench compare A B "
        "--config CONFIG.toml --results results.sqlite` prints one of them target by target.",
    ]
    for group in PAIRS:
        parts += [f"## {group.capitalize()}", markdown_grid(pairs(book, group)).strip()]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """Fill, or check."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    files: dict[Path, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = ResultStore(Path(folder) / "results.sqlite")
        read_export(store, RESULTS)
        book = Book(store)
        for page in PAGES:
            files[page] = filled(page.read_text(encoding="utf-8"), book)
        for name in APPENDICES:
            path = RESULTS / "tables" / f"{name}.md"
            files[path] = appendix_page(book, name)
            files[path.with_suffix(".csv")] = to_csv(book.table(name))
            files[path.with_suffix(".tex")] = to_latex(book.table(name))
        files[RESULTS / "tables" / "pairs.md"] = pairs_page(book)
        curves = sensitivity_curves(book.collection("sensitivity"))
        drawn = [book.table(name) for name in DRAWN]
        store.close()
    if is_check:
        stale = [
            str(path.relative_to(ROOT))
            for path, text in files.items()
            if not path.exists() or path.read_text(encoding="utf-8") != text
        ]
        if stale:
            print(f"{', '.join(stale)}: not what docs/results says; run `make results`")
        return int(bool(stale))
    for path, text in files.items():
        write_atomically(path, text.encode())
    save_figure(curve_panels(curves), RESULTS / "sensitivity.svg")
    shared = {row: takes for row, takes in drawn[0].rows.items() if row in drawn[1].rows}
    panels = [difference_panel(replace(table, rows=shared), table.title) for table in drawn]
    save_figure(panels, RESULTS / "points.svg", (7.4, 6.6))
    return 0


if __name__ == "__main__":
    sys.exit(main())
