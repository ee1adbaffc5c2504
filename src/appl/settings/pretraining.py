"""Settings of the source classification that the encoder starts from (ambiguity A15)."""

from dataclasses import dataclass

from appl.settings.checks import check_ranges, setting


@dataclass(frozen=True)
class PretrainSettings:
    """Supervised classification on the source's training classes."""

    seed: int = setting(0, "orders, crops and initial weights", 0)
    n_epochs: int = setting(32, "passes over the training images", 1)
    batch_size: int = setting(128, "images per step", 2)
    crop_px: int = setting(
        64, "side of the random crops; validation uses the images' own, larger size", 32
    )
    crop_scale_low: float = setting(0.2, "smallest share of the area that a crop keeps", 0.01, 1)
    jitter: float = setting(0.4, "brightness, contrast and colour change by up to this share", 0, 1)
    rotated_share: float = setting(0.25, "share of images turned by 90, 180 or 270 degrees", 0, 1)
    rotation_weight: float = setting(0.5, "weight of telling the turn, beside the class", 0)
    peak_rate: float = setting(0.2, "learning rate at the top of the one-cycle schedule", 0)
    warmup_share: float = setting(0.15, "share of the steps in which the rate rises", 0, 1)
    momentum: float = setting(0.9, "of SGD with Nesterov's correction", 0, 1)
    weight_decay: float = setting(5e-4, "on every weight that is not a norm or a bias", 0)
    label_smoothing: float = setting(0.1, "probability spread over the other classes", 0, 1)
    spectral_weight: float = setting(
        0.0,
        "of the squared singular values of a batch's features, summed, per image (BSR); published: "
        "0.001 on the sum over 16 images, here 0.016",
        0,
    )
    distillation_weight: float = setting(
        0.0, "weight of the starting weights' class probabilities, beside the true classes", 0
    )
    distillation_temperature: float = setting(4.0, "softens both sides of that comparison", 1e-3)
    n_validation_episodes: int = setting(200, "5-way 5-shot episodes after each epoch", 1)
    n_validation_images: int = setting(100, "images per validation class", 20)

    def __post_init__(self) -> None:
        check_ranges(self)
