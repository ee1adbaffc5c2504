"""Settings of Algorithm 2, the fine-tuning of the encoder on the target task.

Defaults are the paper's text, so `AdaptSettings()` is the preset `paper`. One group for each of the
parts that Algorithm 2 is made of: what it learns from, its objective, which parameters move, how
views are made. B-numbers name the ambiguities listed in docs/deviations.md.
"""

from dataclasses import dataclass, field
from typing import Literal

from appl.settings.checks import check_ranges, setting
from appl.settings.presets import find_preset
from appl.settings.prototypes import PrototypeSettings


@dataclass(frozen=True)
class WMASettings:
    """The weighted moving average of each query's distances (eqs. tildehx, alpha)."""

    use: bool = setting(True, "false: the current distances alone, α = 1 (Table 3, w/o WMA)")
    alpha: float = setting(0.5, "α0, the weight of the newest distances at the start", 0, 1)
    gamma: float = setting(0.99, "γ, the decay of α per iteration", 0, 1)
    alpha_floor: float = setting(0.0, "α never falls below this", 0, 1)
    first_alpha: Literal["decayed", "initial"] = setting(
        "decayed", "B4: α in the first iteration is γα0, or α0 itself"
    )
    start: Literal["zero", "first", "debiased"] = setting(
        "zero", "B3: h̃⁰ = 0; h̃¹ = h¹; or zero, then divided by the total weight so far"
    )

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class PseudoLabelSettings:
    """What Algorithm 2 learns from: pseudo-labels P̃ of the queries (eqs. hx, tildehx, pseudo)."""

    kind: Literal["soft", "hard"] = setting("soft", "B1: probabilities, or the likeliest class")
    detach: bool = setting(True, "B2: no gradient flows through the pseudo-label")
    threshold: float = setting(0.4, "ε: queries below this confidence are left out (B5)", 0, 1)
    threshold_rule: Literal["fixed", "by_way"] = setting(
        "fixed",
        "B5: ε as given, or adjusted to the number of classes N: ε·5/N, for N < 5 as far from "
        "chance",
    )
    from_iteration: int = setting(1, "first iteration that learns from the queries", 1)
    views: Literal["same", "clean"] = setting(
        "same", "B22: take the distances on this iteration's view, or on the unchanged image"
    )
    wma: WMASettings = field(default_factory=WMASettings)

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class ObjectiveSettings:
    """The loss that Algorithm 2 lowers (eq. finetune), and the scale of its distances."""

    use_support_loss: bool = setting(True, "false: Table 3, w/o L_CE(S)")
    use_query_loss: bool = setting(True, "false: Table 3, w/o L_CE^tr(Q)")
    support_loss: Literal["as_is", "leave_one_out"] = setting(
        "as_is", "A14: measure a support against prototypes that contain it, or that do not"
    )
    support_reduction: Literal["sum", "mean"] = setting("sum", "B7: of L_CE(S)")
    query_reduction: Literal["sum", "mean_selected", "mean_all"] = setting(
        "sum", "B6: of L_CE^tr(Q); a mean over the selected or over all queries"
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
    gap: float = setting(5.0, "the gap that distance_scale = 'task' aims at", 0)

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class ParameterSettings:
    """Which parameters of the encoder move, and whose batch statistics it uses."""

    move: Literal["all", "weights", "norms", "low_rank", "low_rank_attention"] = setting(
        "all",
        "B9: every parameter; all but normalisation layers; their scales and shifts only; low-rank "
        "updates of all matrices, or of those of a transformer's attention",
    )
    rank: int = setting(4, "of low-rank updates", 1)
    frozen_stages: int = setting(
        0, "stages at the front that stay fixed, their activations cached; −1: as advised", -1
    )
    batch_norm: Literal["joint", "separate", "running", "task"] = setting(
        "joint",
        "B10: statistics of supports and queries together; of each apart; the source's; or the "
        "task's, taken once before the first iteration",
    )
    predict_batch_norm: Literal["as_adapted", "running"] = setting(
        "as_adapted", "B11: predict as while adapting, or with the running statistics"
    )

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class ViewSettings:
    """Augmented views of the task's images (B22); with one view, the unchanged images alone."""

    n_views: int = setting(1, "views kept per image, the unchanged one included", 1, 64)
    kinds: Literal["from_task", "all"] = setting(
        "from_task",
        "use the augmentations after which supports still belong to their class, or all of them",
    )

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
    rate_decay: Literal["none", "cosine"] = setting(
        "none", "η as it is; or rising for five iterations, then falling to zero as a cosine"
    )
    weight_average: float = setting(
        0.0, "answer by a moving average of the weights, this the newest's share; 0: the last", 0, 1
    )
    answer: Literal["current", "average"] = setting(
        "current", "B12: classify by the final distances, or by their moving average"
    )
    feature_scale: float = setting(
        1.0, "A19: factor on all features, so its square on every distance d(·,·)", 1e-6
    )
    standardise_images: bool = setting(False, "bring every image to mean 0, deviation 1 first")
    recluster_every: int = setting(1, "B17: iterations between two clusterings; K > K' only", 1)
    query_batch: int = setting(
        0, "queries per iteration, drawn anew each time; 0: all, as in the paper", 0
    )
    micro_batch: int = setting(0, "images per forward pass, to save memory; 0: all", 0)
    seed: int = setting(0, "of the views and of the queries that an iteration draws", 0)
    pseudo_labels: PseudoLabelSettings = field(default_factory=PseudoLabelSettings)
    objective: ObjectiveSettings = field(default_factory=ObjectiveSettings)
    parameters: ParameterSettings = field(default_factory=ParameterSettings)
    views: ViewSettings = field(default_factory=ViewSettings)
    prototypes: PrototypeSettings = field(default_factory=PrototypeSettings)

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
        standardise_images=True,
        pseudo_labels=PseudoLabelSettings(
            kind="hard",
            from_iteration=2,
            wma=WMASettings(start="first", first_alpha="initial", alpha_floor=0.1),
        ),
        objective=ObjectiveSettings(
            support_reduction="mean",
            query_reduction="mean_selected",
            separation_pairs="ordered",
            lambda_dis=1.0,
        ),
        parameters=ParameterSettings(predict_batch_norm="running"),
        prototypes=PrototypeSettings(few_shots="repeat"),
    ),
    # Ours: chosen on development domains and shifted copies of the source (docs/robust.md).
    "robust": AdaptSettings(
        n_iterations=15,
        optimiser="adam",
        learning_rate=3e-3,
        recluster_every=10,
        pseudo_labels=PseudoLabelSettings(
            threshold_rule="by_way", wma=WMASettings(start="debiased")
        ),
        objective=ObjectiveSettings(
            support_loss="leave_one_out",
            support_reduction="mean",
            query_reduction="mean_all",
            cohesion_reduction="mean",
            distance_scale="calibrated",
        ),
        parameters=ParameterSettings(move="norms", frozen_stages=-1, batch_norm="running"),
        views=ViewSettings(n_views=4),
        prototypes=PrototypeSettings(
            order="symmetric",
            few_shots="class_mean",
            cluster_start="plus_plus",
            cluster_share="size",
        ),
    ),
}
