"""Judging many images: in blocks that could be judged anywhere, put together in their order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from appl.images.store import ImageStore, read_one
from appl.labelling.inputs import shown
from appl.labelling.model import LabelModel
from appl.labelling.rows import LabelRow, rows_of, unreadable_row
from appl.labelling.vectors import Vectors

IMAGES_PER_BLOCK = 256
READ_AT_ONCE = 64
VECTORS_PER_BLOCK = 2048

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Block:
    """Some images of a store: a piece of work that needs nothing but the model and the store."""

    store: ImageStore
    index: tuple[int, ...]
    names: tuple[str, ...]

    def judge(self, model: LabelModel) -> list[LabelRow]:
        """Return the rows of the images, in their order."""
        judgement = model.judge(self.store.images(self.index))
        return rows_of(model, self.names, judgement)


# Judges blocks by a model, wherever that may be, and gives the rows of each in the blocks' order.
JudgeBlocks = Callable[[LabelModel, Iterable[Block]], Iterator[list[LabelRow]]]


def in_this_process(model: LabelModel, blocks: Iterable[Block]) -> Iterator[list[LabelRow]]:
    """Judge blocks one after the other, here."""
    return (block.judge(model) for block in blocks)


def judge_store(
    model: LabelModel,
    store: ImageStore,
    names: Sequence[str],
    on_progress: OnProgress = lambda _done, _total: None,
    judge_blocks: JudgeBlocks = in_this_process,
) -> list[LabelRow]:
    """Judge every image of a store, one row each in their order; unreadable ones are named."""
    rows: dict[int, LabelRow] = {
        i: unreadable_row(names[i], fact.problem)
        for i, fact in enumerate(store.facts)
        if fact.problem
    }
    on_progress(len(rows), len(store))
    blocks = [
        Block(store, tuple(part.tolist()), tuple(names[i] for i in part.tolist()))
        for part in store.readable.split(IMAGES_PER_BLOCK)
    ]
    for block, judged in zip(blocks, judge_blocks(model, blocks), strict=True):
        rows |= dict(zip(block.index, judged, strict=True))
        on_progress(len(rows), len(store))
    return [rows[i] for i in range(len(store))]


def judge_vectors(
    model: LabelModel,
    vectors: Vectors,
    names: Sequence[str],
    on_progress: OnProgress = lambda _done, _total: None,
) -> list[LabelRow]:
    """Judge every image of a pile by its vectors, which `model.describer` gave: no encoder."""
    rows: list[LabelRow] = []
    for start in range(0, len(vectors), VECTORS_PER_BLOCK):
        end = min(start + VECTORS_PER_BLOCK, len(vectors))
        judgement = model.judge_vectors(vectors.between(start, end)).cpu()
        part = rows_of(model, names[start:end], judgement)
        for i in range(start, end):
            if i in vectors.problems:
                part[i - start] = unreadable_row(names[i], vectors.problems[i])
        rows += part
        on_progress(end, len(vectors))
    return rows


def judge_files(
    model: LabelModel,
    paths: Sequence[Path],
    on_progress: OnProgress = lambda _done, _total: None,
) -> list[LabelRow]:
    """Judge image files that are in no store: a pure function of model and image."""
    rows: list[LabelRow] = []
    for start in range(0, len(paths), READ_AT_ONCE):
        part = paths[start : start + READ_AT_ONCE]
        read = [read_one(path, model.size_px) for path in part]
        good = [i for i, (_, fact) in enumerate(read) if not fact.problem]
        judged: dict[int, LabelRow] = {}
        if good:
            pixels = torch.from_numpy(np.stack([read[i][0] for i in good])).permute(0, 3, 1, 2)
            names = [shown(part[i]) for i in good]
            judged = dict(zip(good, rows_of(model, names, model.judge(pixels)), strict=True))
        rows += [
            judged.get(i) or unreadable_row(shown(path), read[i][1].problem)
            for i, path in enumerate(part)
        ]
        on_progress(len(rows), len(paths))
    return rows
