"""Settings of Algorithm 2, the transductive fine-tuning on the target task.

Defaults are the paper's text, so `AdaptSettings()` is the preset `paper`. B-numbers name the
ambiguities listed in docs/deviations.md, with the choice of each preset.
"""

from dataclasses import dataclass, field
from typing import Literal

from appl.settings._checks import check_ranges, setting
from appl.settings.presets import find_preset
from appl.settings.prototypes import PrototypeSettings


@dataclass(frozen=True)
class WMASettings:
    """The weighted moving average of each query's distances (eqs. tildehx, alpha)."""

    use: bool = setting(True, "false: α ≡ 1, the current distances alone (Table 3, w/o WMA)")
    alpha: float = setting(0.5, "α0, the weight that the schedule starts from", 0, 1)
    gamma: float = setting(0.99, "γ, the decay of α at each iteration", 0, 1)
    alpha_floor: float = setting(0.0, "α never falls below this", 0, 1)
    first_alpha: Literal["decayed", "initial"] = setting(
        "decayed", "B4: α at the first iteration is γα0, or α0 itself"
    )
    start: Literal["zero", "first", "debiased"] = setting(
        "zero", "B3: h̃⁰ = 0; h̃¹ = h¹; or zero, then divided by the total weight so far"
    )

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class ViewSettings:
    """Augmented views of the task's images (B22); with one view, the clean images alone."""

    n_views: int = setting(1, "views kept of each image, the clean one included", 1, 64)
    kinds: Literal["from_task", "all"] = setting(
        "from_task", "use the changes that leave support images in their class, or all of them"
    )
    wma_on: Literal["same", "clean"] = setting(
        "same", "B22: moving average on the view of this iteration, or on the clean view"
    )
    predict_on: Literal["clean", "mirrored"] = setting(
        "clean",
        "B22: answer from the clean image, or from it and its mirror image where the task can bear "
        "mirrors; propagation and information only",
    )

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class InformationSettings:
    """Information maximisation, where pseudo-labels or answers come from it (`core.information`).

    TIM pulls every pile to equal shares, which costs much where they are not equal. Here the pull
    is as strong as the shares that are found allow.
    """

    n_iterations: int = setting(40, "alternating steps", 0)
    temperature: float = setting(15.0, "τ, on half the squared distance of unit vectors", 0)
    support_weight: float = setting(3.0, "λ, of the supports; TIM: 0.1", 0)
    evenness: float = setting(1.0, "a, of equal shares where the pile is even; TIM: always", 0)
    least_evenness: float = setting(0.03, "a where the pile is clearly uneven", 0)
    uneven_at: float = setting(0.035, "D₀: KL between the shares found and equal ones", 1e-9)
    certainty: float = setting(0.1, "c, of confident answers", 0)

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class AdaptSettings:
    """Algorithm 2: fine-tune the encoder on one task, the PCN frozen."""

    n_iterations: int = setting(100, "maxiters", 0)
    optimiser: Literal["gradient", "momentum", "adam"] = setting(
        "gradient", "B8: the text says gradient descent"
    )
    learning_rate: float = setting(1e-2, "η", 0)
    adapts: Literal["all", "weights", "batch_norm"] = setting(
        "all", "B9: every parameter; convolutions only; batch-norm scales and shifts only"
    )
    frozen_stages: int = setting(
        0, "stages at the front that stay fixed, their activations cached; −1: as advised", -1
    )
    batch_norm: Literal["joint", "separate", "running", "task"] = setting(
        "joint",
        "B10: statistics of S ∪ Q together; of S and of Q apart; the source's; or the task's own, "
        "taken once before the first iteration",
    )
    predict_batch_norm: Literal["as_adapted", "running"] = setting(
        "as_adapted", "B11: predict as while adapting, or with the running statistics"
    )
    pseudo_labels: Literal["soft", "hard"] = setting("soft", "B1")
    detach_pseudo_labels: bool = setting(True, "B2: no gradient through the pseudo-label")
    pseudo_from: Literal["distances", "propagation", "information"] = setting(
        "distances",
        "where h comes from: eq. hx; label propagation over S ∪ Q; or information maximisation",
    )
    threshold: float = setting(0.4, "ε, strict (B5)", 0, 1)
    threshold_rule: Literal["fixed", "by_way"] = setting(
        "fixed",
        "B5: ε as given, or by the number of classes N: ε·5/N, for N < 5 as far from chance",
    )
    query_loss_from: int = setting(1, "first iteration that has the query loss", 1)
    use_support_loss: bool = setting(True, "false: Table 3, w/o L_CE(S)")
    use_query_loss: bool = setting(True, "false: Table 3, w/o L_CE^tr(Q)")
    support_loss: Literal["as_is", "leave_one_out"] = setting(
        "as_is", "A14: a support is measured against prototypes that it is, or is not, part of"
    )
    support_reduction: Literal["sum", "mean"] = setting("sum", "B7: of L_CE(S)")
    query_reduction: Literal["sum", "mean_selected", "mean_all"] = setting(
        "sum", "B6: of L_CE^tr(Q), over the selected or over all queries"
    )
    cohesion_reduction: Literal["sum", "mean"] = setting("sum", "B7: of L_coh^ft")
    separation_pairs: Literal["unordered", "ordered"] = setting("unordered", "A3: pairs in L_dis")
    lambda_dis: float = setting(0.1, "weight of L_dis", 0)
    lambda_coh: float = setting(1e-3, "weight of L_coh^ft", 0)
    distance_scale: Literal["raw", "width", "task", "calibrated"] = setting(
        "raw",
        "A19: distances as they are; divided by the width; scaled once so that the mean gap "
        "between a query's nearest and second prototype is `gap`; or so that the probabilities "
        "of left-out supports are as likely as can be",
    )
    gap: float = setting(5.0, "aim of distance_scale = 'task'", 0)
    predict_from: Literal["current", "average", "propagation", "information"] = setting(
        "current",
        "B12: the final distances; their moving average; label propagation; information "
        "maximisation",
    )
    predict_with: Literal["adapted", "both"] = setting(
        "adapted",
        "features of the adapted encoder, or beside them those of the first one; propagation and "
        "information only",
    )
    texture_weight: float = setting(
        0.0,
        "of an earlier stage's texture beside the features when answering; propagation and "
        "information only",
        0,
    )
    standardise_images: bool = setting(False, "every image to mean 0, deviation 1, as released")
    recluster_every: int = setting(1, "B17: iterations between two clusterings; K > K' only", 1)
    query_batch: int = setting(
        0, "queries an iteration takes, drawn anew each time; 0: all, as the paper", 0
    )
    micro_batch: int = setting(0, "images a forward pass, to save memory; 0: all", 0)
    seed: int = setting(0, "of the views and of the queries that an iteration takes", 0)
    prototypes: PrototypeSettings = field(default_factory=PrototypeSettings)
    wma: WMASettings = field(default_factory=WMASettings)
    views: ViewSettings = field(default_factory=ViewSettings)
    information: InformationSettings = field(default_factory=InformationSettings)

    def __post_init__(self) -> None:
        check_ranges(self)

    @classmethod
    def preset(cls, name: str) -> "AdaptSettings":
        """Return a preset by name: paper, released or robust."""
        return find_preset(ADAPT_PRESETS, name)


ADAPT_PRESETS = {
    # The literal text: plain gradient descent on sums, joint batch statistics.
    "paper": AdaptSettings(),
    # The choices of the authors' code, on ResNet10.
    "released": AdaptSettings(
        optimiser="adam",
        predict_batch_norm="running",
        pseudo_labels="hard",
        query_loss_from=2,
        support_reduction="mean",
        query_reduction="mean_selected",
        separation_pairs="ordered",
        lambda_dis=1.0,
        standardise_images=True,
        prototypes=PrototypeSettings(few_shots="repeat"),
        wma=WMASettings(start="first", first_alpha="initial", alpha_floor=0.1),
    ),
    # Ours: chosen on development domains and shifted copies of the source (docs/robust.md).
    "robust": AdaptSettings(
        n_iterations=15,
        optimiser="adam",
        learning_rate=3e-3,
        adapts="batch_norm",
        frozen_stages=-1,
        batch_norm="running",
        pseudo_from="information",
        threshold_rule="by_way",
        support_loss="leave_one_out",
        support_reduction="mean",
        query_reduction="mean_all",
        cohesion_reduction="mean",
        distance_scale="calibrated",
        predict_from="information",
        texture_weight=0.5,
        recluster_every=10,
        prototypes=PrototypeSettings(
            order="symmetric",
            few_shots="class_mean",
            cluster_start="plus_plus",
            cluster_share="size",
        ),
        wma=WMASettings(start="debiased"),
        views=ViewSettings(n_views=4, predict_on="mirrored"),
    ),
}
