"""A table as it is shown: words and emphasis cell by cell, whatever writes it in the end."""

import statistics
from dataclasses import dataclass
from typing import Literal

from appl.benchmark.quoted import quoted
from appl.benchmark.statistics import Estimate
from appl.benchmark.tables import Cell, ResultTable

NONE = "–"
SHORTEST_S = 0.0005  # below, an exported time says nothing but zero


@dataclass(frozen=True)
class Text:
    """A cell in words. Bold: its interval excludes zero; italic: the paper's, not ours."""

    words: str
    style: Literal["", "bold", "italic"] = ""


@dataclass(frozen=True)
class Grid:
    """Words above the table, its head, its lines, words below it."""

    caption: str
    head: tuple[str, ...]
    lines: tuple[tuple[Text, ...], ...]
    notes: tuple[str, ...] = ()


def make_grids(table: ResultTable) -> list[Grid]:
    """Lay out the accuracies, and below them the paired differences if there are any."""
    grids = [_accuracies(table)]
    others = [row for row in table.rows if row != table.reference]
    if table.reference and others:
        grids.append(_differences(table, others))
    return grids


def column_titles(table: ResultTable) -> list[str]:
    """Return the titles of the columns, with their shots where they differ."""
    if len(table.shots) == 1:
        return [column.title for column in table.columns]
    return [f"{column.title}, {column.n_shot}-shot" for column in table.columns]


def conditions(table: ResultTable) -> str:
    """Say in one line what all numbers of a table have in common."""
    outline = table.outline
    settings, protocol = outline.settings, outline.settings.protocol
    shots = " and ".join(str(n) for n in table.shots)
    queries = f"{protocol.n_query} queries per class"
    if protocol.dirichlet:
        total = protocol.n_way * protocol.n_query
        queries = f"{total} queries shared out by a Dirichlet({protocol.dirichlet:g}) draw"
    if protocol.n_ood:
        queries += f" and {protocol.n_ood} out-of-distribution ones, not counted"
    if protocol.groups_apart:
        queries += ", patients and lesions on one side"
    prototypes = f", prototype network: {outline.prototypes}" if outline.prototypes else ""
    margin = f", enlarged by {settings.margin:g} and cut" if settings.margin != 1 else ""
    return (
        f"{outline.encoder} trained on {outline.source} (weights {outline.weights_digest[:12]}"
        f"{prototypes}), "
        f"{settings.image_px} px{margin}; {protocol.n_way}-way {shots}-shot, {queries}, seed "
        f"{protocol.seed}; mean ± 95 % interval over the episodes"
    )


def _accuracies(table: ResultTable) -> Grid:
    means = _mean_shots(table)
    head = ["", *column_titles(table), *means.values(), "episodes", "s / episode", "takes"]
    lines = []
    for row, takes in table.rows.items():
        cells = [table.cells.get((row, column)) for column in table.columns]
        shown = [_plus_minus(cell.accuracy) if cell else NONE for cell in cells]
        whole = [table.mean_accuracy(row, n_shot) for n_shot in means]
        shown += [_plus_minus(mean) if mean else NONE for mean in whole]
        lines.append(_texts(row, *shown, *_effort(table.found(row)), takes))
        if row in table.beside:
            lines.append(_quoted_line(table, table.beside[row], len(head)))
    lines += [_quoted_line(table, name, len(head)) for name in table.quotes]
    notes = [conditions(table) + "."]
    own = [row.title for row in table.outline.rows if row.weights != table.outline.settings.weights]
    if own:
        notes.append(f"Trained further on the source, with weights of their own: {'; '.join(own)}.")
    if table.provenances:
        # A part or a stand-in must never pass for the original.
        told = "; ".join(
            f"{title}: {provenance}" for title, provenance in table.provenances.items()
        )
        notes.append(f"Data: {told}.")
    if table.all_quotes:
        notes.append(
            "Quoted rows are what the paper prints: the original data sets, other weights, other "
            "episodes."
        )
    return Grid("", tuple(head), tuple(lines), tuple(notes))


def _quoted_line(table: ResultTable, name: str, n_cells: int) -> tuple[Text, ...]:
    values = [quoted(name, column.target, column.n_shot) for column in table.columns]
    shown = [f"{value.mean:.2f} ± {value.interval:.2f}" if value else NONE for value in values]
    words = [f"quoted: the paper's {name}", *shown]
    return _texts(*words, *[""] * (n_cells - len(words)), style="italic")


def _differences(table: ResultTable, others: list[str]) -> Grid:
    means = _mean_shots(table)
    lines = []
    for row in others:
        cells = [table.cells.get((row, column)) for column in table.columns]
        values = [cell.difference if cell else None for cell in cells]
        values += [table.mean_difference(row, n_shot) for n_shot in means]
        lines.append((Text(row), *(_signed(value) for value in values)))
    caption = (
        f"Paired difference to {table.reference}, the same episodes (bold: the 95 % interval, "
        "Student's, excludes zero):"
    )
    return Grid(caption, ("", *column_titles(table), *means.values()), tuple(lines))


def _mean_shots(table: ResultTable) -> dict[int, str]:
    """Return the numbers of shots that have a mean, with its title: those of several targets."""
    shots = [column.n_shot for column in table.columns]
    several = [n_shot for n_shot in table.shots if shots.count(n_shot) > 1]
    return {n: "mean" if len(table.shots) == 1 else f"mean, {n}-shot" for n in several}


def _effort(cells: list[Cell]) -> tuple[str, str]:
    """Return the number of episodes and the seconds of one, over the cells of a row."""
    if not cells:
        return "0", NONE
    counts = sorted({cell.accuracy.n for cell in cells})
    episodes = str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
    seconds = statistics.median(cell.seconds for cell in cells)
    if seconds < SHORTEST_S:
        return episodes, f"< {2 * SHORTEST_S:g}"
    return episodes, f"{seconds:.2g}" if seconds < 99.5 else f"{seconds:.0f}"  # 210, not 2.1e+02


def _texts(*words: str, style: Literal["", "italic"] = "") -> tuple[Text, ...]:
    return tuple(Text(word, style) for word in words)


def _plus_minus(value: Estimate) -> str:
    return f"{value.mean:.2f} ± {value.interval:.2f}"


def _signed(value: Estimate | None) -> Text:
    if value is None or not value.n:
        return Text(NONE)
    return Text(value.signed, "bold" if value.excludes_zero else "")
