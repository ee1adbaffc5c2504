"""How adaptations went, row by row: what the stored records of the iterations say.

An accuracy does not tell a method that learnt nothing from one that fell apart. The loss, the
labels that changed and the class that swallowed the pile do.
"""

import statistics
from collections.abc import Sequence
from typing import Any

from appl.benchmark.collection import Collection
from appl.benchmark.grids import NONE, Grid, Text

HEAD = (
    "",
    "episodes",
    "late loss / first",
    "loss rose",
    "label changes per query",
    "largest class",
    "examples right",
)
CAPTION = "How the adaptations went, over all episodes of a row:"
NOTE = (
    "Late loss / first: the median over the episodes, late being after four fifths of the "
    "iterations; loss rose: the share of episodes whose late loss is above the first; largest "
    "class: the share of the queries that the most frequent label takes at the end; examples "
    "right: the share of the examples that are then nearest to their own class."
)


def adaptation_log_grid(collections: Sequence[Collection]) -> Grid | None:
    """Lay out how the rows that keep a record of their losses went; None: there is none."""
    lines = []
    protocol = collections[0].outline.settings.protocol
    for title in dict.fromkeys(row.title for c in collections for row in c.outline.rows):
        records = [
            result.record
            for collection in collections
            for (row, _), stored in collection.stored.items()
            if row == title
            for result in stored.results
            if len(result.record.get("loss") or []) > 1
        ]
        if records:
            n_query = protocol.n_way * protocol.n_query + protocol.n_ood
            lines.append(tuple(Text(words) for words in (title, *_log(records, n_query))))
    return Grid(CAPTION, HEAD, tuple(lines), (NOTE,)) if lines else None


def _log(records: list[dict[str, Any]], n_query: int) -> list[str]:
    losses = [(record["loss"][0], record["loss"][-1]) for record in records]
    ratios = [late / first for first, late in losses if first > 0]
    changes = [
        record["n_label_changes"] / n_query for record in _having(records, "n_label_changes")
    ]
    largest = [max(record["balance"]) for record in _having(records, "balance")]
    right = [record["support_accuracy"] for record in _having(records, "support_accuracy")]
    return [
        str(len(records)),
        f"{statistics.median(ratios):.2g}" if ratios else NONE,
        f"{statistics.fmean(late > first for first, late in losses):.0%}",
        f"{statistics.fmean(changes):.2g}" if changes else NONE,
        f"{statistics.fmean(largest):.0%}" if largest else NONE,
        f"{statistics.fmean(right):.0%}" if right else NONE,
    ]


def _having(records: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    return [record for record in records if record.get(key) is not None]
