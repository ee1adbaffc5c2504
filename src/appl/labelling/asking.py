"""Questions to a session, answered from the vectors of its images."""

import torch

from appl.core.distances import squared_distances
from appl.core.features import directions
from appl.errors import DataError
from appl.images.store import read_one
from appl.labelling.corrections import images_with
from appl.labelling.explain import Explanation, explain_vectors
from appl.labelling.grouping import group_pile, n_groups_for
from appl.labelling.session import Session
from appl.labelling.suggest import CANDIDATES_EACH, unlike_each_other


def teach_next(session: Session, n: int) -> list[int]:
    """Return images of the pile whose labels would help most: unsure ones, no two alike.

    Those that a person spoke of, or passed over, are not asked for again.
    """
    if session.model is None or not session.answers:
        raise DataError("there is no answer yet; name some images first")
    vectors, answer = session.describe(), session.answers[-1]
    asked = set(session.known) | images_with(session.corrections, "skip")
    open_images = torch.tensor(
        [i for i in vectors.pile.readable.tolist() if i not in asked], dtype=torch.int64
    )
    margins = (answer.confidence - answer.runner_up_confidence)[open_images]
    candidates = open_images[margins.argsort(stable=True)[: CANDIDATES_EACH * n]]
    chosen = unlike_each_other(
        session.model,
        vectors.pile.of(candidates),
        (answer.confidence - answer.runner_up_confidence)[candidates],
        n,
    )
    return candidates[chosen].tolist() if chosen else []


def similar(session: Session, image: int, n: int) -> list[int]:
    """Return the images of the pile that look most like one of them, itself first."""
    vectors = session.describe().pile
    _check(session, image)
    wanted = directions(vectors.of([image])[0])
    distances = torch.cat(
        [
            squared_distances(directions(vectors.between(start, start + 4096)[0]), wanted)[:, 0]
            for start in range(0, len(vectors), 4096)
        ]
    )
    distances[image] = -1.0
    if vectors.problems:
        distances[list(vectors.problems)] = torch.inf
    order = distances.argsort(stable=True)[: min(n, len(vectors) - len(vectors.problems))]
    found: list[int] = order.tolist()
    return found


def groups(session: Session, n_groups: int = 0) -> list[list[int]]:
    """Return the pile in groups that look alike, each with its most typical images first."""
    vectors = session.describe().pile
    readable = vectors.readable
    features = vectors.of(readable)[0]
    found = group_pile(features, n_groups or n_groups_for(len(readable)), session.settings.seed)
    return [readable[members].tolist() for members in found]


def explain_image(session: Session, image: int) -> Explanation:
    """Say why an image of the pile got its label."""
    _check(session, image)
    if session.model is None:
        raise DataError("there is no answer yet; name some images first")
    path = session.inputs.pile[image]
    known = session.described()
    if known is not None:
        problem, vectors = known.pile.problems.get(image, ""), known.pile.of([image])
    else:
        pixels, fact = read_one(path, session.model.size_px)
        problem = fact.problem
        vectors = session.model.describe(torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None])
    if problem:
        raise DataError(problem)
    return explain_vectors(session.model, vectors, session.inputs.name(path))


def _check(session: Session, image: int) -> None:
    if not 0 <= image < len(session.inputs.pile):
        raise DataError(f"the pile has no image {image}; it has {len(session.inputs.pile)}")
