"""A run of many images, written by hand: to scroll through, not to learn from."""

import json
import os
import shutil
from dataclasses import replace

import torch

from appl.images.thumbnails import Thumbnails
from appl.labelling.inputs import read_inputs, write_inputs
from appl.labelling.rows import read_rows, write_rows
from appl.labelling.vectors import open_vectors


def enlarge(run, n_images, *, moves=False):
    """Turn a copy of a finished run into one of `n_images`: the same ones again and again.

    With `moves` what the encoder sees in a copy is a little off, so that no two are the same.
    """
    generator = torch.Generator().manual_seed(0)
    rows = read_rows(run / "labels.csv")
    inputs = read_inputs(run / "inputs.json")
    folder = inputs.pile[0].parent
    pile = tuple(folder / f"{i:07}-{inputs.pile[i % len(rows)].name}" for i in range(n_images))
    many = [replace(rows[i % len(rows)], path=str(pile[i])) for i in range(n_images)]
    write_rows(run / "labels.csv", many)
    write_inputs(replace(inputs, pile=pile, given_as={}), run / "inputs.json")
    small = Thumbnails.open(run / "images" / "pile")
    pictures = [small.thumbnail(i) for i in range(len(rows))]
    offsets = [0]
    with (run / "images" / "pile.thumbs").open("wb") as file:
        for i in range(n_images):
            file.write(pictures[i % len(rows)])
            offsets.append(offsets[-1] + len(pictures[i % len(rows)]))
    (run / "images" / "pile.thumbs.json").write_text(json.dumps(offsets))
    for folder in (run / "vectors").glob("*/pile"):
        vectors = open_vectors(folder)
        for number, kind in enumerate(vectors.of(range(len(rows)))):
            with (folder / f"kind-{number}.f32").open("wb") as file:
                for start in range(0, n_images, len(rows)):
                    part = kind[: n_images - start]
                    if moves:
                        noise = torch.randn(part.shape, generator=generator)
                        part = part * (1 + 0.05 * noise)
                    file.write(part.numpy().tobytes())
        index = json.loads((folder / "index.json").read_text())
        (folder / "index.json").write_text(json.dumps(index | {"n_images": n_images}))
    shutil.rmtree(run / "answers", ignore_errors=True)
    record = json.loads((run / "run.json").read_text())
    record["n_pile"] = n_images
    record["sha256"].pop("labels.csv")
    (run / "run.json").write_text(json.dumps(record))
    os.sync()
    return run
