"""The metadata record of an encoder: everything the rest of the software knows about it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class WeightsSource:
    """Where trained weights come from and what may be done with them."""

    name: str
    version: str
    licence: str
    trained_on: str
    sha256: str = ""


@dataclass(frozen=True)
class EncoderMeta:
    """What an encoder takes, gives, and where it may be cut.

    `stages` names the parts that run one after the other; the first `max_frozen_stages` of them
    may be frozen and their activations cached while the rest adapts. `non_negative` says whether
    every feature is >= 0, which makes the mean-initialised prototype network equal to ProtoNet.
    `advised_frozen_stages` is how many the preset `robust` freezes. `texture_stage` names the stage
    whose channels' deviations describe texture and style; none: the encoder gives no such thing.
    `label_px` is the size that `appl label` takes, 0: `input_px`; `temperature` what `robust`'s
    scores are divided by before any example speaks, learnt on domains that are no target.
    """

    name: str
    width: int
    input_px: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    stages: tuple[str, ...]
    max_frozen_stages: int
    non_negative: bool = True
    min_px: int = 32
    advised_frozen_stages: int = 0
    texture_stage: str | None = None
    label_px: int = 0
    temperature: float = 1.0
    weights: WeightsSource | None = None

    @property
    def source(self) -> str:
        """The training data in words, for every result that this encoder has a part in."""
        return self.weights.trained_on if self.weights else "untrained"
