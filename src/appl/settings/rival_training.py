"""Settings of a rival's meta-training on the source's episodes."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from appl.settings.checks import check_ranges, setting


@dataclass(frozen=True)
class HeadPhaseSettings:
    """A phase before the others in which the head learns alone, on features that are made once."""

    n_epochs: int = setting(0, "at most; 0: there is no such phase", 0)
    n_tasks: int = setting(1000, "tasks per epoch; validation comes after each", 1)
    patience: int = setting(10_000, "tasks without a rise of validation that end it; 0: none do", 0)
    rate: float = setting(1e-3, "of Adam on the head", 0)
    rate_decay: Literal["cosine", "none"] = setting("none", "to zero over all epochs, or none")
    n_views: int = setting(5, "augmented views of each image; 0: the image as it is", 0)
    noise: float = setting(0.0, "on features, in deviations of a channel within the task", 0)
    dropout: float = setting(0.0, "share of channels that an image loses", 0, 0.99)
    shifted_share: float = setting(
        0.0, "of the tasks, whose images are all grey, all coarse or all inverted", 0, 1
    )

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class RivalTrainSettings:
    """How a method learns on tasks: the field's shared recipe, shorter, from trained weights."""

    method: str = "prototypical"  # see `appl methods`
    method_settings: dict[str, Any] = field(default_factory=dict)
    n_way: int = setting(5, "classes per task", 2)
    n_shot: int = setting(5, "supports per class: as many as it is tested with", 1)
    n_query: int = setting(16, "queries per class", 1)
    n_epochs: int = setting(30, "published: 400", 0)
    n_tasks: int = setting(100, "tasks per epoch", 1)
    tasks_a_step: int = setting(1, "whose gradients are added up; MAML takes 4", 1)
    encoder_rate: float = setting(1e-5, "of Adam on the encoder; published: 1e-3 from scratch", 0)
    head_rate: float = setting(1e-3, "of Adam on the head", 0)
    rate_decay: Literal["cosine", "none"] = setting("cosine", "to zero, or none as published")
    augment: bool = setting(True, "the benchmark's crops, colours and mirrors")
    image_px: int = setting(84, "side of the images", 32)
    n_views: int = setting(0, "augmented views of each image, made once; 0: anew for each task", 0)
    validate_every: int = setting(1, "epochs from one validation and checkpoint to the next", 1)
    n_validation_episodes: int = setting(60, "of a validation", 1)
    n_validation_images: int = setting(100, "images per validation class", 20)
    patience: int = setting(0, "tasks without a rise of validation that end it; 0: none do", 0)
    model_selection: Literal["last", "best"] = setting("best", "by validation episodes")
    seed: int = setting(0, "of tasks, of the head's first weights, of feature-wise noise", 0)
    head_initialisation: Literal["fresh", "start"] = setting(
        "fresh", "start takes the head of the weights that training starts from, such as its host's"
    )
    heads_first: HeadPhaseSettings = field(default_factory=HeadPhaseSettings)

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def head_phase(self) -> "RivalTrainSettings":
        """The settings of the first phase, as a training of its own."""
        first = self.heads_first
        return replace(
            self,
            n_epochs=first.n_epochs,
            n_tasks=first.n_tasks,
            patience=first.patience,
            head_rate=first.rate,
            rate_decay=first.rate_decay,
            n_views=first.n_views,
            augment=first.n_views > 0,
            validate_every=1,
        )
