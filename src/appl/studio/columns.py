"""The pile as the page holds it: whole numbers in columns.

100,000 images are a few bytes each, sorted and filtered without a question to anybody.
"""

from typing import Any

from appl.labelling.corrections import images_with, known_classes
from appl.report.palette import N_COLOURS
from appl.studio.desk import Desk

NOTHING, NONE, SKIPPED, CONFLICT = -2, -1, -3, -4  # said of an image, beside a class
NO_ANSWER = 4  # after the decisions of an answer


def pile_columns(desk: Desk) -> dict[str, Any]:
    """Return all that the grid shows; confidence in ten-thousandths, novelty in thousandths."""
    names, answers = desk.class_names, desk.answers
    n = len(desk.inputs.pile)
    place = {name: i for i, name in enumerate(names)}
    found: dict[str, Any] = {
        "n": n,
        "version": desk.said_version,
        "classes": [
            {"name": name, "colour": i % N_COLOURS, "examples": _examples(desk, i)}
            for i, name in enumerate(names)
        ],
        "said": said_column(desk),
    }
    if not answers:
        return found | {
            "answer": None,
            "label": [-1] * n,
            "sure": [0] * n,
            "second": [-1] * n,
            "second_sure": [0] * n,
            "decision": [NO_ANSWER] * n,
            "novelty": [0] * n,
            "changed": [],
        }
    last = answers[-1]
    ids = [place[name] for name in last.class_names]
    changed = last.changed_since(answers[-2]).nonzero().flatten().tolist() if answers[1:] else []
    return found | {
        "answer": {"number": last.number, "kind": last.kind, "at": last.at},
        "label": [ids[i] if i >= 0 else -1 for i in last.class_ids.tolist()],
        "sure": (last.confidence * 10_000).round().int().tolist(),
        "second": [ids[i] if i >= 0 else -1 for i in last.runner_up_ids.tolist()],
        "second_sure": (last.runner_up_confidence * 10_000).round().int().tolist(),
        "decision": last.decisions.tolist(),
        "novelty": (last.novelty * 1000).clamp(max=1e6).round().int().tolist(),
        "changed": changed,
    }


def said_column(desk: Desk) -> dict[int, int]:
    """Return what was said, for those images of which something was."""
    place = {name: i for i, name in enumerate(desk.class_names)}
    corrections = desk.corrections
    said = dict.fromkeys(images_with(corrections, "skip"), SKIPPED)
    said |= dict.fromkeys(images_with(corrections, "conflict"), CONFLICT)
    known = known_classes(corrections)
    return said | {image: place[name] if name else NONE for image, name in known.items()}


def _examples(desk: Desk, class_id: int) -> list[int]:
    return [i for i, c in enumerate(desk.inputs.class_ids) if c == class_id]
