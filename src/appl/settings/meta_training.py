"""Settings of Algorithm 1, the meta-training on the source.

Defaults are the paper's text. A-numbers name the ambiguities listed in docs/deviations.md.
"""

from dataclasses import dataclass, field
from typing import Literal

from appl.errors import SettingsError
from appl.settings.checks import check_ranges, setting
from appl.settings.presets import find_preset
from appl.settings.prototypes import PrototypeSettings


@dataclass(frozen=True)
class MetaTrainSettings:
    """Algorithm 1: inner steps on the encoder with L_CE(S), an outer step on the PCN."""

    n_way: int = setting(5, "classes per task", 2)
    n_shot: int = setting(5, "supports per class (A18: always 5)", 1)
    n_query: int = setting(15, "queries per class", 1)
    n_epochs: int = setting(400, "A16", 0)
    n_tasks: int = setting(100, "A16: tasks per epoch", 1)
    inner_steps: int = setting(1, "A7: maxiniters", 0)
    inner_rate: float = setting(1e-6, "A7: γ1", 0)
    inner_optimiser: Literal["gradient", "adam"] = setting("gradient", "A8")
    encoder_between_tasks: Literal["kept", "reset_task", "reset_epoch"] = setting(
        "kept", "A6: what becomes of θ after the inner steps"
    )
    derivative: Literal["first", "second"] = setting(
        "first", "A11: second follows φ through the inner steps; plain gradient inside only"
    )
    trains: Literal["pcn", "encoder", "both"] = setting("pcn", "A5: what the outer step updates")
    outer_rate: float = setting(1e-6, "A7: γ2, Adam", 0)
    encoder_rate: float = setting(1e-6, "rate of θ where the outer step updates it", 0)
    weight_decay: float = setting(1e-2, "A9", 0)
    decay_form: Literal["adam", "adamw", "initial"] = setting(
        "adam", "A9: L2 inside Adam; decoupled; or decoupled towards the initial weights"
    )
    batch_norm: Literal["joint", "separate", "running"] = setting("joint", "A12")
    outer_prototypes: Literal["recomputed", "before"] = setting(
        "recomputed", "A13: prototypes of the outer loss after, or before, the inner steps"
    )
    support_loss: Literal["as_is", "leave_one_out"] = setting("as_is", "A14")
    ce_reduction: Literal["sum", "mean"] = setting("sum", "A1: of L_CE(Q) and L_CE(S)")
    cohesion_reduction: Literal["sum", "mean"] = setting("sum", "A2")
    separation_pairs: Literal["unordered", "ordered"] = setting("unordered", "A3")
    lambda_dis: float = setting(0.1, "weight of L_dis", 0)
    lambda_coh: float = setting(1e-3, "weight of L_coh", 0)
    distance_scale: Literal["raw", "width"] = setting("raw", "A19: in L_CE")
    feature_scale: float = setting(
        1.0, "A19: factor on all features, so its square on every distance d(·,·)", 1e-6
    )
    pcn_initialisation: Literal["mean", "random", "start"] = setting(
        "random", "A21: start takes the PCN of the weights that training starts from"
    )
    model_selection: Literal["last", "best"] = setting("last", "A22: by validation episodes")
    augment: bool = setting(True, "A17: the benchmark's crops, colours and mirrors")
    n_views: int = setting(
        0,
        "A17: augmented views of each image, made once, of which a task takes one; 0: every task "
        "makes its own",
        0,
    )
    image_px: int = setting(224, "A23", 32)
    validate_every: int = setting(1, "epochs from one validation and checkpoint to the next", 1)
    n_validation_episodes: int = setting(200, "5-way 5-shot episodes of a validation", 1)
    n_validation_images: int = setting(100, "images per validation class", 20)
    seed: int = setting(0, "of tasks and initial weights", 0)
    prototypes: PrototypeSettings = field(default_factory=PrototypeSettings)

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.derivative == "second" and self.inner_optimiser == "adam":
            raise SettingsError(
                "derivative = 'second' follows plain gradient steps only; "
                "set inner_optimiser = 'gradient'"
            )
        if self.encoder_between_tasks == "reset_epoch" and self.trains != "pcn":
            raise SettingsError(
                f"encoder_between_tasks = 'reset_epoch' would undo trains = {self.trains!r}; "
                "use 'reset_task' or 'kept'"
            )
        if self.n_views and not self.augment:
            raise SettingsError(
                f"n_views = {self.n_views} are augmented views, but augment = false; "
                "set n_views = 0"
            )

    @property
    def keeps_encoder(self) -> bool:
        """Whether θ and its batch statistics stay those of the start."""
        return not self.inner_steps and self.trains == "pcn" and self.batch_norm == "running"

    @property
    def learns_from_features(self) -> bool:
        """Whether a task needs no images: the encoder stays, and so do the views of each image."""
        return self.keeps_encoder and (self.n_views > 0 or not self.augment)

    @classmethod
    def preset(cls, name: str) -> "MetaTrainSettings":
        """Return a preset by name: paper, released or robust."""
        return find_preset(META_TRAIN_PRESETS, name)


META_TRAIN_PRESETS = {
    "paper": MetaTrainSettings(),
    # One of its two hand-alternated phases: φ learns on the query loss, θ frozen in eval mode.
    # The other is trains="encoder", batch_norm="joint", encoder_rate=1e-4, weight_decay=0.
    "released": MetaTrainSettings(
        n_epochs=1000,
        inner_steps=0,
        weight_decay=1e-4,
        batch_norm="running",
        ce_reduction="mean",
        separation_pairs="ordered",
        lambda_dis=1.0,
        image_px=48,
        prototypes=PrototypeSettings(few_shots="repeat"),
    ),
    "robust": MetaTrainSettings(
        n_epochs=12,
        inner_rate=1e-4,
        encoder_between_tasks="reset_task",
        outer_rate=1e-5,
        decay_form="initial",
        batch_norm="running",
        support_loss="leave_one_out",
        ce_reduction="mean",
        cohesion_reduction="mean",
        pcn_initialisation="mean",
        model_selection="best",
        image_px=84,
        prototypes=PrototypeSettings(
            order="symmetric",
            few_shots="class_mean",
            cluster_start="plus_plus",
            cluster_share="size",
        ),
    ),
}
