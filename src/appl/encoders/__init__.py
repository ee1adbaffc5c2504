"""Encoders: one file a network, one metadata record each."""

from appl.encoders._custom import from_module, from_timm
from appl.encoders._encoder import CACHE_BATCH, Encoder
from appl.encoders._import import import_resnet10
from appl.encoders._meta import EncoderMeta, WeightsSource
from appl.encoders._registry import ENCODERS

__all__ = [
    "CACHE_BATCH",
    "ENCODERS",
    "Encoder",
    "EncoderMeta",
    "WeightsSource",
    "from_module",
    "from_timm",
    "import_resnet10",
]
