"""Settings of labelling a pile: what `appl label` has as options."""

from dataclasses import dataclass, field
from typing import Literal

from appl.settings.checks import check_ranges, setting
from appl.settings.solving import SolveSettings


def _robust() -> SolveSettings:
    return SolveSettings.preset("robust")


@dataclass(frozen=True)
class LabelSettings:
    """From a few examples and a pile to labels."""

    encoder: str = setting(
        "efficientnet_lite0",
        "see `appl encoders`: a name, NAME@FILE, timm:MODEL, a file of `appl train`, A+B",
    )
    size_px: int = setting(0, "side that images are brought to; 0: as advised for labelling", 0)
    adapt: bool = setting(True, "false: judge by the encoder as it is")
    target_error: float = setting(
        0.05, "at most this share of images may be accepted with a wrong label", 0, 1
    )
    pool_images: int = setting(
        1000, "images of the pile that the adaptation knows; drawn where there are more", 1
    )
    batch_images: int = setting(
        300, "images of the pile that one iteration takes; drawn where there are more", 1
    )
    sort: Literal["no", "copy", "link"] = setting(
        "no", "also put the images into one folder per class"
    )
    seed: int = setting(0, "of the draws from a large pile", 0)
    solving: SolveSettings = field(default_factory=_robust)

    def __post_init__(self) -> None:
        check_ranges(self)
