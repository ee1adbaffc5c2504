"""How the supports of a class become its prototype; shared by both algorithms.

Letters and numbers such as A20 or B17 name the ambiguities listed in docs/deviations.md.
"""

from dataclasses import dataclass
from typing import Literal

from appl.settings.checks import check_ranges, setting


@dataclass(frozen=True)
class PrototypeSettings:
    """From K supports of a class to K' slots to one prototype. Defaults: the paper's text."""

    kind: Literal["pcn", "mean"] = setting(
        "pcn", "pcn: the learnt network; mean: ProtoNet's average (Table 3, w/o PCN)"
    )
    n_slots: int = setting(5, "K', the number of vectors that the PCN takes", 1)
    order: Literal["as_given", "canonical", "symmetric"] = setting(
        "as_given",
        "A20, B18: slots in file order; sorted by length (clusters by size first); or averaged "
        "over all orders, which no shuffling of files can change",
    )
    few_shots: Literal["error", "repeat", "class_mean"] = setting(
        "error", "B19, K < K': refuse; repeat the supports in turn; fill up with the class mean"
    )
    cluster_start: Literal["first", "plus_plus"] = setting(
        "first", "B17, K > K': k-means starts at the first K' supports, or by seeded k-means++"
    )
    cluster_rounds: int = setting(10, "B17: rounds of k-means", 1)
    cluster_share: Literal["equal", "size"] = setting(
        "equal", "symmetric order only: each cluster counts alike, or by its number of members"
    )
    seed: int = setting(0, "of k-means++", 0)

    def __post_init__(self) -> None:
        check_ranges(self)
