"""The registry of encoders, and the one function that builds an encoder from its specification."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from appl.core.blank import Blank
from appl.core.registry import Registry
from appl.encoders._encoder import Encoder
from appl.encoders._meta import EncoderMeta, WeightsSource
from appl.encoders._spec import EncoderSpec
from appl.errors import WeightsError


@dataclass(frozen=True)
class HubFile:
    """A weights file that `appl encoders get` can fetch, at one revision and with one digest."""

    repository: str
    file: str
    revision: str
    sha256: str
    megabytes: int


@dataclass(frozen=True)
class EncoderEntry:
    """A network by name: how it is built, and where its weights come from.

    They travel in a package (`packaged_weights`), can be fetched (`hub`), or are brought along in a
    file whose tensors `convert` gives our names; `published` says what such a file holds.
    """

    meta: EncoderMeta
    build: Callable[[], Encoder]  # without trained weights
    packaged_weights: Callable[[], dict[str, Tensor]] | None = None
    convert: Callable[[Mapping[str, Tensor]], dict[str, Tensor]] | None = None
    published: WeightsSource | None = None
    hub: HubFile | None = None

    def __call__(self) -> Encoder:
        """Build the encoder, with its packaged weights if there are some."""
        if self.packaged_weights is None:
            return self.build()
        with Blank():
            encoder = self.build()
        encoder.load_state_dict(self.packaged_weights())
        return encoder.eval()


ENCODERS: Registry[EncoderEntry] = Registry("encoder", "appl.encoders")


def from_spec(
    spec: EncoderSpec, meta: dict[str, Any] | None = None, own: Encoder | None = None
) -> Encoder:
    """Build the network of a specification, without trained weights, with the given record.

    `own` is the encoder that a custom specification stands for.
    """
    if spec.kind == "custom":
        if own is None or own.meta.name != spec.name:
            raise WeightsError(
                f"the encoder {spec.name!r} was a module of your own; register it in ENCODERS "
                "under that name, or hand it over again"
            )
        encoder = own
    elif spec.kind == "timm":
        from appl.encoders._timm import from_timm

        encoder = from_timm(spec.name, pretrained=False, **spec.options)
    else:
        encoder = ENCODERS.get(spec.name).build()
    if meta is not None:
        encoder.meta = EncoderMeta.from_dict(meta)
    return encoder
