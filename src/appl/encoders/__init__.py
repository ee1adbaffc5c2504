"""Encoders: one file per network, one metadata record each."""

from appl.encoders._custom import from_module
from appl.encoders._encoder import CACHE_BATCH, NORMS, Encoder
from appl.encoders._import import bring, file_digest, import_resnet10
from appl.encoders._meta import EncoderMeta, WeightsSource
from appl.encoders._recommended import BESIDE, RECOMMENDED, Recommended
from appl.encoders._registry import ENCODERS, EncoderEntry, HubFile, from_spec
from appl.encoders._spec import EncoderSpec
from appl.encoders._timm import from_timm
from appl.encoders.describing import Describer, sizes_side_by_side
from appl.encoders.kept import KeptFeatures, Kind, features_of, layers_of

__all__ = [
    "BESIDE",
    "CACHE_BATCH",
    "ENCODERS",
    "NORMS",
    "RECOMMENDED",
    "Describer",
    "Encoder",
    "EncoderEntry",
    "EncoderMeta",
    "EncoderSpec",
    "HubFile",
    "KeptFeatures",
    "Kind",
    "Recommended",
    "WeightsSource",
    "bring",
    "features_of",
    "file_digest",
    "from_module",
    "from_spec",
    "from_timm",
    "import_resnet10",
    "layers_of",
    "sizes_side_by_side",
]
