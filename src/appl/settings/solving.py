"""How a task is solved: Algorithm 2 on the encoder, then an answer from what it sees.

The paper's part is `adaptation`. The part `answer` is ours: class weights found from all images of
the task together, with a class prior estimated from the pile (`appl.transduction`).
"""

from dataclasses import dataclass, field
from typing import Literal

from appl.settings.adaptation import AdaptSettings
from appl.settings.checks import check_ranges, setting
from appl.settings.presets import find_preset


@dataclass(frozen=True)
class InformationSettings:
    """Information maximisation: class weights that tell all images of a task apart.

    The names are TIM's. Where TIM prefers classes of equal size always, here the preference is as
    strong as the class sizes found in the pile allow.
    """

    n_iterations: int = setting(40, "alternating steps", 0)
    temperature: float = setting(15.0, "τ, on half the squared distance of unit vectors", 0)
    support_weight: float = setting(3.0, "weight of the supports' cross-entropy; TIM: 0.1", 0)
    marginal_weight: float = setting(
        1.0, "weight of the marginal entropy (classes of equal size) where the pile looks even", 0
    )
    least_marginal_weight: float = setting(
        0.03, "the same where the pile looks clearly uneven; TIM: as above", 0
    )
    uneven_at: float = setting(
        0.035, "how uneven a pile looks uneven: KL divergence of its class shares from equal", 1e-9
    )
    conditional_weight: float = setting(
        0.1, "weight of the conditional entropy (confident answers)", 0
    )

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class AnswerSettings:
    """Where pseudo-labels and answers come from, and what describes an image for them."""

    rule: Literal["prototypes", "propagation", "information", "learnt"] = setting(
        "prototypes",
        "classify by the nearest prototype (the paper), by label propagation, by information "
        "maximisation, or by the transductive prototype network",
    )
    teacher: Literal["prototypes", "propagation", "information", "learnt"] = setting(
        "prototypes", "the same choice for the pseudo-labels that Algorithm 2 learns from"
    )
    encoders: Literal["adapted", "both"] = setting(
        "adapted", "describe images by the adapted encoder, or by it and the first one together"
    )
    texture_weight: float = setting(
        0.0, "weight of an earlier stage's texture beside the features; not for prototypes", 0
    )
    mirrored: bool = setting(
        False,
        "describe an image by the mean of it and its mirror image where the task tolerates "
        "mirroring; not for prototypes",
    )
    network: Literal["tpcn-1"] = setting("tpcn-1", "the network of rule or teacher `learnt`")
    information: InformationSettings = field(default_factory=InformationSettings)

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def weighs_all(self) -> bool:
        """Whether the answer weighs all images of the task together."""
        return self.rule != "prototypes"

    @property
    def scores_one_by_one(self) -> bool:
        """Whether the rule is found on a task and then scores any image by itself."""
        return self.rule in ("information", "learnt")


@dataclass(frozen=True)
class SolveSettings:
    """Algorithm 2 and the answer after it."""

    adaptation: AdaptSettings = field(default_factory=AdaptSettings)
    answer: AnswerSettings = field(default_factory=AnswerSettings)

    @classmethod
    def preset(cls, name: str) -> "SolveSettings":
        """Return a preset by name: paper, released or robust."""
        return find_preset(SOLVE_PRESETS, name)


SOLVE_PRESETS = {
    "paper": SolveSettings(AdaptSettings.preset("paper")),
    "released": SolveSettings(AdaptSettings.preset("released")),
    "robust": SolveSettings(
        AdaptSettings.preset("robust"),
        AnswerSettings(
            rule="information", teacher="information", texture_weight=0.5, mirrored=True
        ),
    ),
}
