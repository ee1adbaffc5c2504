"""A row of a benchmark: a method, its settings, its weights, how many episodes it gets."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from appl.core.methods import METHODS, FeatureMethod, FrozenMethod, LayerMethod, Method
from appl.errors import SettingsError
from appl.settings.benchmark import BenchSettings, RowSettings
from appl.settings.files import structure_settings
from appl.weights import Pretrained


@dataclass(frozen=True)
class Row:
    """A method made ready, and how many episodes it gets."""

    method: Method
    name: str
    title: str
    n_episodes: int
    weights: str  # their name or file
    weights_digest: str
    encoder: str
    precision: Literal["fp32", "bf16"] = "fp32"
    quote: str = ""  # the paper's row of the same method

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that decide the results: presets are resolved to their values."""
        resolve = getattr(self.method, "settings", None)
        values: Any = resolve() if resolve is not None else self.method
        precision = {} if self.precision == "fp32" else {"precision": self.precision}
        return asdict(values) | precision

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers of the encoder that it stands on; none: pooled features, or images."""
        return self.method.layers if isinstance(self.method, LayerMethod) else ()

    @property
    def takes(self) -> str:
        """What enters an answer beside the query itself: none, batchnorm or transductive."""
        return str(getattr(self.method, "takes", self.method.card.takes))


def make_row(
    row: RowSettings,
    settings: BenchSettings,
    weights: dict[str, Pretrained],
    digests: dict[str, str],
) -> Row:
    """Make the method of a row ready and check that the weights are its own."""
    kind = METHODS.get(row.method)
    method = structure_settings(kind, row.settings, f"row {row.method!r}")
    name = row.weights or settings.weights
    if kind.card.is_meta_trained and name in weights:
        _check_head(row, weights[name], settings)
    takes_several = isinstance(method, FeatureMethod) or kind.card.takes_several
    if name in weights and weights[name].beside and not takes_several:
        raise SettingsError(
            f"row {row.method!r} works on one encoder, and the weights are several side by side; "
            "give the row weights of its own"
        )
    if name in weights and isinstance(method, LayerMethod):
        _check_layers(row, method, weights[name])
    if row.precision != "fp32" and isinstance(method, FrozenMethod):
        raise SettingsError(
            f"row {row.method!r}: precision = {row.precision!r} is for rows that run the encoder, "
            "and this one works on frozen features, which are fp32; take it out"
        )
    title = row.title or kind.card.title
    return Row(
        method,
        row.method,
        title if row.precision == "fp32" else f"{title}, {row.precision}",
        row.n_episodes or settings.n_episodes,
        name,
        digests[name],
        weights.get(name, weights[settings.weights]).name,
        row.precision,
        row.quote,
    )


def _check_layers(row: RowSettings, method: LayerMethod, pretrained: Pretrained) -> None:
    """Refuse a row on logits without the head that classified the source."""
    if "logits" in method.layers and pretrained.class_head is None:
        raise SettingsError(
            f"row {row.method!r} takes the source's logits, and its weights hold no head that "
            "classifies the source; give it weights of `appl train pretrain`, or other layers"
        )


def _check_head(row: RowSettings, pretrained: Pretrained, settings: BenchSettings) -> None:
    """Refuse a meta-trained row without the weights of its own training."""
    train = f"`appl train meta --method {row.method}` makes them"
    head = pretrained.head
    if head is None or head.name != row.method:
        found = "a head of " + head.name if head else "no head"
        raise SettingsError(
            f"row {row.method!r}: {row.weights or settings.weights} holds {found}; give the row "
            f"weights of its own (weights = FILE), {train}"
        )
