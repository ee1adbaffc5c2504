"""Labels for new images by a run's model: a pure function of model and image."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from appl.core.compute import resolve_compute
from appl.images.store import read_one
from appl.labelling.inputs import shown
from appl.labelling.model import LabelModel
from appl.labelling.rows import LabelRow, judge_names, unreadable_row

READ_AT_ONCE = 64


def predict_files(
    model: LabelModel | Path,
    paths: Sequence[Path],
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[LabelRow]:
    """Judge image files, a row each in their order; one that cannot be read is named as such."""
    if isinstance(model, Path):
        model = LabelModel.load(model).place(resolve_compute())
    rows: list[LabelRow] = []
    for start in range(0, len(paths), READ_AT_ONCE):
        part = paths[start : start + READ_AT_ONCE]
        read = [read_one(path, model.size_px) for path in part]
        good = [i for i, (_, fact) in enumerate(read) if not fact.problem]
        judged: dict[int, LabelRow] = {}
        if good:
            pixels = torch.from_numpy(np.stack([read[i][0] for i in good])).permute(0, 3, 1, 2)
            names = [shown(part[i]) for i in good]
            judged = dict(zip(good, judge_names(model, names, pixels), strict=True))
        rows += [
            judged.get(i) or unreadable_row(shown(path), read[i][1].problem)
            for i, path in enumerate(part)
        ]
        on_progress(len(rows), len(paths))
    return rows
