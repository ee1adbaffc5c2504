"""How to build an encoder again: small plain values that travel with weights and runs."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class EncoderSpec:
    """Where a network's architecture comes from, its weights apart.

    `registered` networks are built by their name, `timm` ones by timm's name and options. A
    `custom` module was handed over in Python and has to be handed over again.
    """

    kind: Literal["registered", "timm", "custom"]
    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as they are written to disk."""
        return asdict(self)
