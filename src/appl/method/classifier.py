"""The classifier of a task: supports grouped into slots, then prototypes (eq. prototypes)."""

from dataclasses import dataclass

from torch import Tensor

from appl.core.distances import class_means, left_out_means, squared_distances, with_own_distance
from appl.method.pcn import PCN
from appl.method.slots import Slots, class_slots, leave_one_out
from appl.settings.prototypes import PrototypeSettings


class PrototypeClassifier:
    """The PCN applied to the supports of one task; `group` fixes which supports share a slot."""

    def __init__(self, pcn: PCN, class_ids: Tensor, settings: PrototypeSettings) -> None:
        self.pcn, self.class_ids, self.settings = pcn, class_ids, settings
        self.n_way = int(class_ids.max()) + 1
        self._slots: Slots | None = None

    def group(self, support: Tensor) -> None:
        """Cluster, pad or order the supports of each class by their features (n_support, width)."""
        if self.settings.kind == "pcn":
            self._slots = class_slots(support, self.class_ids, self.n_way, self.settings)

    def prototypes(self, support: Tensor) -> Tensor:
        """Return p_1 … p_N (n_way, width), differentiable in the features."""
        if self.settings.kind == "mean":
            return class_means(support, self.class_ids, self.n_way)
        return self._apply(support, self._grouped())

    def left_out_distances(self, support: Tensor, distances: Tensor) -> Tensor:
        """Replace each support's distance to its class by that to a prototype made without it."""
        if self.settings.kind == "mean":
            own = left_out_means(support, self.class_ids)
        else:
            own = self._apply(support, leave_one_out(self._grouped(), self.class_ids))
        return with_own_distance(distances, support, own, self.class_ids)

    def distances(self, support: Tensor, query: Tensor) -> Tensor:
        """Return the squared distances of queries to the prototypes (eq. hx)."""
        return squared_distances(query, self.prototypes(support))

    def _apply(self, support: Tensor, slots: Slots) -> Tensor:
        if self.settings.order == "symmetric":
            return self.pcn.symmetric(slots.mean_of(support))
        prototypes: Tensor = self.pcn(slots.of(support))
        return prototypes

    def _grouped(self) -> Slots:
        if self._slots is None:
            raise RuntimeError("call group() before asking for prototypes")
        return self._slots


@dataclass(frozen=True)
class PrototypeRule:
    """The paper's own answer for any image: the nearest prototype (eq. 1)."""

    prototypes: Tensor  # (n_way, width)
    scale: float

    def place(self, vectors: list[Tensor]) -> Tensor:
        """Bring images to where distances are taken: their features (n, width)."""
        return vectors[0]

    def distances(self, placed: Tensor) -> Tensor:
        """Return the squared distances of placed images to the prototypes (n, n_way)."""
        return squared_distances(placed, self.prototypes)

    def scores(self, placed: Tensor) -> Tensor:
        """Return the scores of placed images (n, n_way), higher is better."""
        return -self.scale * self.distances(placed)
