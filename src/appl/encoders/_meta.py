"""The metadata record of an encoder: everything the rest of the software knows about it."""

from dataclasses import asdict, dataclass
from typing import Any, Literal


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
    may be frozen and their activations cached while the rest adapts; `advised_frozen_stages` is how
    many the preset `robust` freezes. `pooling` says how the last stage becomes one vector: the mean
    over a map's positions or over patch tokens; the class token; or class token and patch mean side
    by side. The first `n_prefix_tokens` tokens are no patches. `non_negative` says whether every
    feature is >= 0; where not, the prototype network has no ReLU. `texture_stage` names the stage
    whose channels' deviations over positions describe texture and style; none: the encoder has no
    such description. Both sides of an image are at least `min_px`, and multiples of `multiple_px`,
    the patch of a transformer. `label_px` is the size that `appl label` takes, 0: `input_px`;
    `temperature` what the scores of `robust` are divided by before any example has a say, learnt on
    domains that are no target.
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
    multiple_px: int = 1
    advised_frozen_stages: int = 0
    pooling: Literal["mean", "class_token", "class_and_patches"] = "mean"
    n_prefix_tokens: int = 0
    texture_stage: str | None = None
    label_px: int = 0
    temperature: float = 1.0
    weights: WeightsSource | None = None

    @property
    def source(self) -> str:
        """The training data in words, for every result that this encoder has a part in."""
        return self.weights.trained_on if self.weights else "untrained"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as they are written to disk."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "EncoderMeta":
        """Read what `to_dict` gave, through JSON or not."""
        weights = values.get("weights")
        lists = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
        source = WeightsSource(**weights) if weights else None
        return cls(**{**values, **lists, "weights": source})
