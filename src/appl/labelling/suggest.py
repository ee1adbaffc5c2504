"""Which images to label next: unsure ones, no two of them alike."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from appl.core.distances import squared_distances
from appl.images.store import read_one
from appl.labelling.model import LabelModel
from appl.labelling.rows import LabelRow
from appl.labelling.run_folder import open_finished

CANDIDATES_EACH = 20  # looked at for each image that is asked for


def suggest(folder: Path, n: int) -> list[LabelRow]:
    """Name the images of a run's pile whose labels would help most, most helpful first.

    Among the least sure ones, one after the other is taken by its doubt times its squared distance
    to the nearest image that has a label or was taken already.
    """
    run = open_finished(folder)
    model = LabelModel.load(folder)
    rows = [row for row in run.rows() if row.decision != "unreadable"]
    rows.sort(key=_margin)
    candidates, images = [], []
    for row in rows[: CANDIDATES_EACH * n]:
        pixels, fact = read_one(Path(row.path), model.size_px)
        if not fact.problem:
            candidates.append(row)
            images.append(pixels)
    if not candidates:
        return []
    vectors = model.describe(torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2))
    margins = torch.tensor([_margin(row) for row in candidates])
    return [candidates[i] for i in unlike_each_other(model, vectors, margins, n)]


def unlike_each_other(
    model: LabelModel, vectors: list[Tensor], margins: Tensor, n: int
) -> list[int]:
    """Return which of some images to ask for, one after the other, by their vectors.

    `margins` is how much surer each is of its label than of the second one.
    """
    placed = model.rule.place(vectors)
    # Never quite zero: where all are sure, those unlike the others are still worth a look.
    doubt = 1.001 - margins
    distance = squared_distances(placed, model.examples.to(placed)).amin(1)
    chosen: list[int] = []
    while len(chosen) < min(n, len(margins)):
        best = int((doubt * (distance + 1e-6)).argmax())
        chosen.append(best)
        distance = torch.minimum(distance, squared_distances(placed, placed[best][None])[:, 0])
        doubt[best] = -torch.inf  # never twice, however many twins it has
    return chosen


def _margin(row: LabelRow) -> float:
    return (row.confidence or 0.0) - (row.runner_up_confidence or 0.0)
