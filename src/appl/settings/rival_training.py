"""Settings of a rival's meta-training on the source's episodes."""

from dataclasses import dataclass, field
from typing import Any, Literal

from appl.settings.checks import check_ranges, setting


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
    model_selection: Literal["last", "best"] = setting("best", "by validation episodes")
    seed: int = setting(0, "of tasks, of the head's first weights, of feature-wise noise", 0)

    def __post_init__(self) -> None:
        check_ranges(self)
