"""ProtoNet (Snell et al., 2017) on frozen features: the nearest class mean."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from appl.core.distances import class_means, squared_distances
from appl.core.methods import METHODS, MethodCard


@METHODS.register("prototypical")
@dataclass(frozen=True)
class Prototypical:
    """Prototypical Networks: Snell, Swersky, Zemel, 2017, arXiv:1703.05175.

    A class is the mean of its supports; a query belongs to the nearest in squared distance.
    """

    card: ClassVar = MethodCard(
        title="ProtoNet",
        paper="Snell et al., 2017",
        summary="nearest class mean",
        takes="none",
        takes_many=True,
    )

    def scores(self, support: Tensor, class_ids: Tensor, query: Tensor) -> Tensor:
        """Return negative squared distances: not divided by the width, no temperature."""
        n_way = int(class_ids.max()) + 1
        return -squared_distances(query, class_means(support, class_ids, n_way))
