"""SimpleShot (Wang et al., 2019): the nearest class mean of centred unit vectors."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from appl.core.distances import class_means
from appl.core.methods import METHODS, MethodCard
from appl.settings.checks import check_ranges, setting


@METHODS.register("nearest_centroid")
@dataclass(frozen=True)
class NearestCentroid:
    """SimpleShot: Wang, Chao, Weinberger, van der Maaten, 2019, arXiv:1911.04623.

    x̂ = (x − m̄) / ‖x − m̄‖; a class is the mean c_n of its x̂, not scaled again; the score is
    −‖q̂ − c_n‖. The paper's m̄ is the mean over the source's images. A task does not hold those, and
    across domains they may lie far off: m̄ is the mean of the class means of the supports.
    """

    card: ClassVar = MethodCard(
        title="Nearest centroid",
        paper="Wang et al., 2019",
        summary="nearest class mean of centred unit vectors (SimpleShot)",
        takes="none",
    )
    centre: Literal["support", "none"] = setting(
        "support", "the mean of the class means; or no centring, the paper's L2N"
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def scores(self, support: Tensor, class_ids: Tensor, query: Tensor) -> Tensor:
        """Return negative distances, not squared."""
        n_way = int(class_ids.max()) + 1
        if self.centre == "support":
            centre = class_means(support, class_ids, n_way).mean(0)
            support, query = support - centre, query - centre
        centroids = class_means(F.normalize(support, dim=1), class_ids, n_way)
        # By differences, not by a matrix product: its rounding under a root would show where a
        # query is a copy of a support.
        mode = "donot_use_mm_for_euclid_dist"
        return -torch.cdist(F.normalize(query, dim=1), centroids, compute_mode=mode)
