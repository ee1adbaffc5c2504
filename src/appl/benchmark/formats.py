"""A table written as Markdown, LaTeX (booktabs) or CSV."""

import csv
import io
from pathlib import PurePath

from appl.benchmark.grids import Grid, Text, make_grids
from appl.benchmark.quoted import quoted
from appl.benchmark.tables import ResultTable
from appl.errors import SettingsError

SUFFIXES = {".md": "markdown", ".tex": "latex", ".csv": "csv"}
CSV_COLUMNS = (
    "kind",  # measured, or quoted from the paper
    "row",
    "takes",
    "target",
    "n_shot",
    "mean",
    "interval",
    "n_episodes",
    "reference",
    "difference",
    "difference_interval",
    "n_pairs",
    "seconds",
    "image_px",
    "encoder",
    "weights_digest",
    "data_digest",
    "run",
)
_LATEX = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "–": "--",
    "α": r"$\alpha$",
    "ε": r"$\epsilon$",
    "λ": r"$\lambda$",
    "σ": r"$\sigma$",
    "₀": r"$_0$",
}


def format_of(path: PurePath) -> str:
    """Tell the format from a file's ending."""
    if path.suffix not in SUFFIXES:
        raise SettingsError(
            f"{path}: no table is written as {path.suffix!r}; end it in {', '.join(SUFFIXES)} "
            "or give --format"
        )
    return SUFFIXES[path.suffix]


def write_table(table: ResultTable, form: str) -> str:
    """Write a table in the format of that name: markdown, latex or csv."""
    writers = {"markdown": to_markdown, "latex": to_latex, "csv": to_csv}
    if form not in writers:
        raise SettingsError(f"no format is called {form!r}; use one of {', '.join(writers)}")
    return writers[form](table)


def to_markdown(table: ResultTable) -> str:
    """Write accuracies with intervals, then paired differences."""
    return "\n".join(markdown_grid(grid) for grid in make_grids(table))


def to_latex(table: ResultTable) -> str:
    """Write one tabular after the other, for a document that loads booktabs."""
    return "\n".join(_latex_grid(grid) for grid in make_grids(table))


def to_csv(table: ResultTable) -> str:
    """Write one line a cell, numbers in full, for other programs."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for row, takes in table.rows.items():
        for column in table.columns:
            cell = table.cells.get((row, column))
            if cell is None:
                continue
            values: dict[str, object] = {
                "kind": "measured",
                "row": row,
                "takes": takes,
                "target": column.target,
                "n_shot": column.n_shot,
                "mean": cell.accuracy.mean,
                "interval": cell.accuracy.interval,
                "n_episodes": cell.accuracy.n,
                "seconds": cell.seconds,
                "image_px": cell.run.image_px,
                "encoder": cell.run.encoder,
                "weights_digest": cell.run.weights_digest,
                "data_digest": cell.run.data_digest,
                "run": cell.run.key,
            }
            if cell.difference.n:
                values |= {
                    "reference": table.reference,
                    "difference": cell.difference.mean,
                    "difference_interval": cell.difference.interval,
                    "n_pairs": cell.difference.n,
                }
            writer.writerow(values)
    for name in table.all_quotes:
        for column in table.columns:
            quote = quoted(name, column.target, column.n_shot)
            if quote:
                place = {"target": column.target, "n_shot": column.n_shot}
                numbers = {"mean": quote.mean, "interval": quote.interval}
                writer.writerow({"kind": "quoted", "row": name, **place, **numbers})
    return text.getvalue()


def latex_escape(words: str) -> str:
    """Return words that LaTeX prints as they are."""
    return "".join(_LATEX.get(letter, letter) for letter in _one_line(words))


def markdown_grid(grid: Grid) -> str:
    """Write one grid with its caption and notes."""
    marks = {"": "", "bold": "**", "italic": "*"}

    def cell(text: Text) -> str:
        mark = marks[text.style] if text.words else ""
        return f"{mark}{_markdown_escape(text.words)}{mark}"

    def line(cells: list[str]) -> str:
        return f"| {' | '.join(cells)} |"

    lines = [_one_line(grid.caption), ""] if grid.caption else []
    lines += [
        line([_markdown_escape(words) for words in grid.head]),
        line(["---"] * len(grid.head)),
    ]
    lines += [line([cell(text) for text in texts]) for texts in grid.lines]
    for note in grid.notes:
        lines += ["", note]
    return "\n".join(lines) + "\n"


def _one_line(words: str) -> str:
    """Keep a title from ending its line."""
    return " ".join(words.split())


def _markdown_escape(words: str) -> str:
    """Keep a title from ending its cell."""
    return _one_line(words).replace("|", "\\|")


def _latex_grid(grid: Grid) -> str:
    commands = {"": "{}", "bold": "\\textbf{{{}}}", "italic": "\\textit{{{}}}"}

    def cell(text: Text) -> str:
        return commands[text.style if text.words else ""].format(latex_escape(text.words))

    lines = [f"% {_one_line(grid.caption)}"] if grid.caption else []
    lines += [f"\\begin{{tabular}}{{l{'r' * (len(grid.head) - 1)}}}", "\\toprule"]
    lines += [" & ".join(latex_escape(words) for words in grid.head) + " \\\\", "\\midrule"]
    lines += [" & ".join(cell(text) for text in texts) + " \\\\" for texts in grid.lines]
    lines += ["\\bottomrule", "\\end{tabular}"]
    lines += [f"% {_one_line(note)}" for note in grid.notes]
    return "\n".join(lines) + "\n"
