"""Settings of the training of the transductive prototype network over tasks."""

from dataclasses import dataclass

from appl.settings.checks import check_ranges, setting


@dataclass(frozen=True)
class TransductiveTrainSettings:
    """How the network learns: on tasks of classes that the encoder has not been trained on."""

    n_steps: int = setting(5000, "outer steps of Adam", 1)
    n_tasks: int = setting(16, "tasks per step, all with as many classes and shots", 1)
    rate: float = setting(1e-2, "of Adam, at its highest; it rises for a twentieth, then falls", 0)
    n_layers: int = setting(8, "steps of the unrolled rule", 1, 64)
    most_ways: int = setting(12, "classes of a task at most", 2)
    most_shots: int = setting(30, "examples per class of a task at most", 1)
    n_images: int = setting(100, "images per class of the source", 20)
    drawn_classes: int = setting(60, "classes of each drawn domain; 0: none of these", 0)
    drawn_images: int = setting(40, "images per drawn class", 20)
    drawn_share: float = setting(0.35, "of the tasks, the others are of the source", 0, 1)
    disturb: bool = setting(True, "noise, dropped and rescaled dimensions, as other domains have")
    image_px: int = setting(84, "side of the images, where there is one encoder", 32)
    n_validation_tasks: int = setting(60, "of each kind, of the validation classes", 2)
    validate_every: int = setting(500, "steps from one validation and checkpoint to the next", 1)
    seed: int = setting(0, "of tasks", 0)

    def __post_init__(self) -> None:
        check_ranges(self)
