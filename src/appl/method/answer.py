"""What all images of a task say together: pseudo-labels or answers beyond the distances (B12, B22).

An image is described by one or more vectors: its features, its texture, the same by the encoder
before it was adapted. Each kind is centred and scaled by itself, then they stand side by side, so
that a squared distance is the weighted mean over the kinds.
"""

from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from appl.core.features import centre_and_normalise
from appl.core.information import fitting_evenness, information_scores, information_weights
from appl.core.propagation import propagate
from appl.settings.adaptation import InformationSettings


@dataclass(frozen=True)
class Described:
    """One kind of vector of a task's images, and what it counts beside other kinds."""

    support: Tensor  # (n_support, width)
    query: Tensor  # (n_query, width)
    weight: float = 1.0


def weigh_together(
    source: str, kinds: list[Described], class_ids: Tensor, settings: InformationSettings
) -> Tensor:
    """Return −log P of the queries (n_query, n_way), so that softmax(−h) gives P back."""
    support, query = _side_by_side(kinds, class_ids)
    if source == "propagation":
        probs = propagate(support, class_ids, query, int(class_ids.max()) + 1)
        return -probs.clamp(min=1e-6).log()
    return -torch.log_softmax(_informed_scores(support, class_ids, query, settings), 1)


def _side_by_side(kinds: list[Described], class_ids: Tensor) -> tuple[Tensor, Tensor]:
    total = sum(kind.weight for kind in kinds)
    supports, queries = [], []
    for kind in kinds:
        support, query = centre_and_normalise(kind.support, class_ids, kind.query)
        share = (kind.weight / total) ** 0.5
        supports.append(share * support)
        queries.append(share * query)
    return torch.cat(supports, 1), torch.cat(queries, 1)


def _informed_scores(
    support: Tensor, class_ids: Tensor, query: Tensor, settings: InformationSettings
) -> Tensor:
    values = asdict(settings)
    evenness = fitting_evenness(support, class_ids, query, **values)
    for name in ("evenness", "least_evenness", "uneven_at"):
        del values[name]
    weights = information_weights(support, class_ids, query, evenness=evenness, **values)
    return information_scores(query, weights, settings.temperature)
