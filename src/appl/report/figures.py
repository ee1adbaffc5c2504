"""Figures as PNG files."""

import io
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from appl.core.files import write_atomically
from appl.method.adaptation import IterationRecord

BLUE, ORANGE, GREEN, GREY = "#0b5fa5", "#d1660a", "#2a7f3f", "#6b7280"


def draw_adaptation(
    path: Path,
    records: Sequence[IterationRecord],
    label_accuracies: Sequence[float],
    protonet_accuracy: float,
    appl_accuracy: float,
) -> None:
    """Draw how an adaptation went: accuracy of the labels, their calm, and the losses."""
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    iterations = [record.iteration for record in records]

    left.axhline(100 * protonet_accuracy, color=GREY, linestyle="--", label="ProtoNet")
    left.plot(iterations, [100 * a for a in label_accuracies], color=BLUE, label="while adapting")
    left.plot(iterations[-1:], [100 * appl_accuracy], "o", color=ORANGE, label="APPL's answer")
    left.set(title="Right labels in the pile (%)", xlabel="iteration")

    n_query = len(records[0].labels) if records else 1
    middle.plot(
        iterations, [100 * r.selected_share for r in records], color=GREEN, label="confident"
    )
    middle.plot(
        iterations,
        [100 * r.n_label_changes / n_query for r in records],
        color=ORANGE,
        label="changed since the last iteration",
    )
    middle.set(title="Images of the pile (%)", xlabel="iteration", ylim=(-3, 103))

    right.plot(iterations, [r.support_loss for r in records], color=BLUE, label="on the examples")
    right.plot(iterations, [r.query_loss for r in records], color=GREEN, label="on the pile")
    right.set(title="Loss", xlabel="iteration")
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    write_atomically(path, buffer.getvalue())
