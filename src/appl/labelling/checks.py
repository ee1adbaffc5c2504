"""What can be seen in the input before anything is learnt: each finding in plain words."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray

from appl.errors import DataError
from appl.images.store import ImageFact, ImageStore, read_images
from appl.labelling.inputs import Inputs, shown

NEAR_BITS = 6  # of 64: at most so many differ between the perceptual hashes of near-duplicates
NEAR_CORRELATION = 0.97  # and their small grey pictures agree so well; hashes alone take any two
# objects on white paper for twins
SMALL_PX = 16
LOOK_PX = 64  # enough to see whether an image can be read and which ones are alike
FEW_EXAMPLES = 3
FLAT_SPREAD = 2.0  # of 255: less is an image of one colour
N_NAMED = 5  # files named in a finding; the rest is counted


@dataclass(frozen=True)
class Finding:
    """One remark about the input: what was found, in which files, and what to do."""

    kind: Literal[
        "unreadable", "few-examples", "duplicate", "conflict", "leak", "near-duplicate", "flat"
    ]
    text: str
    files: tuple[str, ...] = ()


def check_images(inputs: Inputs, support: ImageStore, pile: ImageStore) -> list[Finding]:
    """List what is worth knowing; raise where a class or the pile has nothing to work with."""
    findings = [*_unreadable(inputs, support, pile)]
    counts = Counter(inputs.class_ids[i] for i in support.readable.tolist())
    for class_id, name in enumerate(inputs.class_names):
        if not counts[class_id]:
            reason = next(
                f.problem
                for f, c in zip(support.facts, inputs.class_ids, strict=True)
                if c == class_id
            )
            raise DataError(
                f"class {name!r} has no readable example ({reason}); add one or remove the class"
            )
        if counts[class_id] < FEW_EXAMPLES:
            findings.append(
                Finding(
                    "few-examples",
                    f"{name!r} has {counts[class_id]} example{'s' * (counts[class_id] > 1)}; "
                    f"{FEW_EXAMPLES} or more make its labels and their confidence much surer",
                )
            )
    if not len(pile.readable):
        raise DataError(
            f"no image of the pile could be read; the first: {shown(inputs.pile[0])}: "
            f"{pile.facts[0].problem}"
        )
    findings += _flat(inputs, support, pile)
    if len(support):
        findings += _same_images(inputs, support, pile)
    return findings


def _unreadable(inputs: Inputs, support: ImageStore, pile: ImageStore) -> Iterator[Finding]:
    for paths, store, place in (
        (inputs.support, support, "examples"),
        (inputs.pile, pile, "the pile"),
    ):
        bad = [
            f"{shown(path)}: {fact.problem}"
            for path, fact in zip(paths, store.facts, strict=True)
            if fact.problem
        ]
        if bad:
            files = "file" if len(bad) == 1 else "files"
            yield Finding(
                "unreadable", f"{len(bad)} {files} of {place} could not be read", tuple(bad)
            )


def _flat(inputs: Inputs, support: ImageStore, pile: ImageStore) -> Iterator[Finding]:
    flat = [
        shown(path)
        for paths, store in ((inputs.support, support), (inputs.pile, pile))
        for path, fact in zip(paths, store.facts, strict=True)
        if not fact.problem and fact.spread < FLAT_SPREAD
    ]
    if flat:
        yield Finding(
            "flat",
            f"{len(flat)} images are of nearly one colour (very dark 16-bit scans look so)",
            tuple(flat),
        )


def _same_images(inputs: Inputs, support: ImageStore, pile: ImageStore) -> Iterator[Finding]:
    """Name equal and nearly equal images: among examples, and between examples and pile."""
    examples = _readable(inputs.support, support)
    hashes = _bits([fact for _, _, fact in examples])
    small = _small_pictures(support, [i for i, _, _ in examples])
    for a, (i, path, fact) in enumerate(examples):
        differing = (hashes[a + 1 :] != hashes[a]).sum(1)
        for b in a + 1 + np.flatnonzero(differing <= NEAR_BITS):
            j, other, twin = examples[b]
            same = fact.content == twin.content
            if not same and float(small[a] @ small[b]) < NEAR_CORRELATION:
                continue
            files = (shown(path), shown(other))
            classes = [inputs.class_names[inputs.class_ids[k]] for k in (i, j)]
            if classes[0] != classes[1]:
                word = "the same image" if same else "nearly the same image"
                yield Finding(
                    "conflict",
                    f"{word} is an example of {classes[0]!r} and of {classes[1]!r}; "
                    "remove the wrong one",
                    files,
                )
            elif same:
                yield Finding(
                    "duplicate", f"two examples of {classes[0]!r} are the same image", files
                )
    by_content = {fact.content: path for _, path, fact in examples}
    leaks, near = [], []
    for i, path, fact in _readable(inputs.pile, pile):
        if fact.content in by_content:
            leaks.append(f"{shown(path)} = {shown(by_content[fact.content])}")
            continue
        close = np.flatnonzero((hashes != _bits([fact])).sum(1) <= NEAR_BITS)
        if len(close):
            agreement = small[close] @ _small_pictures(pile, [i])[0]
            if agreement.max() >= NEAR_CORRELATION:
                twin_path = examples[close[agreement.argmax()]][1]
                near.append(f"{shown(path)} ≈ {shown(twin_path)}")
    if leaks:
        yield Finding(
            "leak",
            f"{len(leaks)} images of the pile are examples under another name",
            tuple(leaks),
        )
    if near:
        yield Finding(
            "near-duplicate",
            f"{len(near)} images of the pile look almost like an example: if accuracy is measured "
            "on them, it will be too good",
            tuple(near),
        )


def _small_pictures(store: ImageStore, index: list[int]) -> NDArray[np.float32]:
    """Return small grey pictures as unit vectors around their mean: a product is a correlation."""
    grey = store.images(index).float().mean(1, keepdim=True)
    small = F.adaptive_avg_pool2d(grey, SMALL_PX).flatten(1)
    unit: NDArray[np.float32] = F.normalize(small - small.mean(1, keepdim=True), dim=1).numpy()
    return unit


def _readable(paths: Sequence[Path], store: ImageStore) -> list[tuple[int, Path, ImageFact]]:
    return [
        (i, path, fact)
        for i, (path, fact) in enumerate(zip(paths, store.facts, strict=True))
        if not fact.problem
    ]


def _bits(facts: list[ImageFact]) -> NDArray[np.uint8]:
    words = np.array([int(fact.look, 16) for fact in facts], dtype=">u8")
    return np.unpackbits(words[:, None].view(np.uint8), axis=1)


def examine(
    inputs: Inputs,
    on_progress: Callable[[str, int, int], None] = lambda _stage, _done, _total: None,
) -> list[Finding]:
    """Open every image once and say what is worth knowing, without a run."""
    with tempfile.TemporaryDirectory(prefix="appl-doctor-") as folder:
        support = read_images(
            inputs.support, Path(folder, "support"), LOOK_PX, lambda *n: on_progress("examples", *n)
        )
        pile = read_images(
            inputs.pile, Path(folder, "pile"), LOOK_PX, lambda *n: on_progress("decoding", *n)
        )
        return check_images(inputs, support, pile)
