"""Label propagation (Zhou et al., 2003) over the supports and queries of a task."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from appl.core.features import centre_and_normalise
from appl.core.methods import METHODS, MethodCard
from appl.core.propagation import propagate
from appl.settings.checks import check_ranges, setting


@METHODS.register("label_propagation")
@dataclass(frozen=True)
class LabelPropagation:
    """Learning with Local and Global Consistency: Zhou et al., 2003.

    Labels of the supports diffuse along a graph of near neighbours; one linear solve. Features are
    centred and scaled first, without which the graph is poor.
    """

    card: ClassVar = MethodCard(
        title="Label propagation",
        paper="Zhou et al., 2003",
        summary="labels diffuse over a graph of supports and queries",
        takes="transductive",
    )
    alpha: float = setting(0.8, "how far labels travel", 0, 1)
    n_neighbours: int = setting(10, "of each image in the graph", 1)

    def __post_init__(self) -> None:
        check_ranges(self)

    def scores(self, support: Tensor, class_ids: Tensor, query: Tensor) -> Tensor:
        """Return the log of the propagated class probabilities."""
        support, query = centre_and_normalise(support, class_ids, query)
        probs = propagate(
            support,
            class_ids,
            query,
            int(class_ids.max()) + 1,
            alpha=self.alpha,
            n_neighbours=self.n_neighbours,
        )
        return probs.clamp(min=1e-12).log()
