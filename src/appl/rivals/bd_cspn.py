"""BD-CSPN (Liu et al., 2020): class means rectified once by the queries, then cosines."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor

from appl.core.features import comparable
from appl.core.methods import METHODS, MethodCard
from appl.core.rectification import rectified_means
from appl.settings.checks import check_ranges, setting


@METHODS.register("bd_cspn")
@dataclass(frozen=True)
class BDCSPN:
    """Prototype Rectification for Few-Shot Learning: Liu, Song, Qin, 2020, arXiv:1911.10713.

    Queries are shifted onto the supports, labelled by the cosine to the class means, and averaged
    with the supports, each by its certainty (`core.rectification`). One pass; the queries
    themselves, not shifted, then go to the rectified mean of largest cosine.
    """

    card: ClassVar = MethodCard(
        title="BD-CSPN",
        paper="Liu et al., 2020",
        summary="class means rectified by pseudo-labelled queries",
        takes="transductive",
    )
    features: Literal["centred", "unit"] = setting(
        "centred", "root, centre and scale; or scale alone"
    )
    temperature: float = setting(10.0, "τ, on cosines", 0)

    def __post_init__(self) -> None:
        check_ranges(self)

    def scores(self, support: Tensor, class_ids: Tensor, query: Tensor) -> Tensor:
        """Return τ·cos(q, P'_n)."""
        support, query = comparable(support, class_ids, query, self.features)
        prototypes = rectified_means(support, class_ids, query, temperature=self.temperature)
        return self.temperature * F.normalize(query, dim=1) @ F.normalize(prototypes, dim=1).mT
