"""Why an image got its label: the nearest examples, the distances, and how the label came about."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from appl.core.distances import squared_distances
from appl.errors import DataError
from appl.images.store import read_one
from appl.labelling.inputs import shown
from appl.labelling.model import LabelModel
from appl.labelling.rows import LabelRow, rows_of
from appl.labelling.run_folder import RunFolder, open_finished

N_NEAREST = 5


@dataclass(frozen=True)
class Explanation:
    """All that speaks for and against a label; distances are squared, smaller is nearer."""

    row: LabelRow
    classes: list[tuple[str, float, float]]  # name, confidence, distance; likeliest first
    nearest: list[tuple[str, str, float]]  # example, its class, distance; nearest first
    history: list[tuple[int, str]]  # iteration, label: where it changed; empty if not in the pool


def explain(folder: Path, image: Path) -> Explanation:
    """Judge one image by a run's model and say why."""
    run = open_finished(folder)
    model = LabelModel.load(folder)
    pixels, fact = read_one(image, model.size_px)
    if fact.problem:
        raise DataError(f"{shown(image)}: {fact.problem}")
    vectors = model.describe(torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None])
    return replace(
        explain_vectors(model, vectors, shown(image)), history=_label_history(run, image, model)
    )


def explain_vectors(model: LabelModel, vectors: list[Tensor], name: str) -> Explanation:
    """Say why one image gets its label, by its vectors."""
    judgement = model.judge_vectors(vectors).cpu()
    placed = model.rule.place(vectors)
    distances = model.rule.distances(placed)[0]
    order = judgement.probs[0].argsort(descending=True).tolist()
    to_examples = squared_distances(placed, model.examples.to(placed))[0]
    nearest = to_examples.argsort()[:N_NEAREST].tolist()
    return Explanation(
        row=rows_of(model, [name], judgement)[0],
        classes=[
            (model.class_names[i], float(judgement.probs[0, i]), float(distances[i])) for i in order
        ],
        nearest=[
            (
                model.example_names[i],
                model.class_names[model.example_class_ids[i]],
                float(to_examples[i]),
            )
            for i in nearest
        ],
        history=[],
    )


def _label_history(run: RunFolder, image: Path, model: LabelModel) -> list[tuple[int, str]]:
    """Return the iterations in which the label of this image of the pile changed."""
    history, rows = run.history(), run.rows()
    wanted = image.resolve()
    for column, row in enumerate(rows[i] for i in history.pool.tolist()):
        if Path(row.path).resolve() == wanted:
            labels = history.labels[:, column].tolist()
            return [
                (iteration, model.class_names[label])
                for iteration, label in enumerate(labels, 1)
                if label >= 0 and (iteration == 1 or label != labels[iteration - 2])
            ]
    return []
