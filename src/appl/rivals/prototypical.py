"""ProtoNet (Snell et al., 2017) on frozen features: the nearest class mean."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from appl.core.distances import class_means
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
        prototypes = class_means(support, class_ids, int(class_ids.max()) + 1)
        # ‖x − p‖² as in `squared_distances`, but without squares in memory of their own, which on
        # frozen features would take a third of an episode's time.
        lengths: Tensor = torch.linalg.vector_norm(query, dim=-1).square()
        prototype_lengths: Tensor = torch.linalg.vector_norm(prototypes, dim=-1).square()
        products = query @ prototypes.mT
        return 2 * products - lengths.unsqueeze(-1) - prototype_lengths.unsqueeze(-2)
