"""A user's own network as an encoder, by the same metadata record."""

from torch import nn

from appl.encoders._encoder import Encoder
from appl.encoders._meta import EncoderMeta
from appl.encoders._spec import EncoderSpec


def from_module(module: nn.Module | list[nn.Module], meta: EncoderMeta) -> Encoder:
    """Wrap a network that gives maps (n, width, h, w), tokens (n, n, width) or vectors.

    A list of modules becomes the stages, so that a frozen prefix can be cached; a single module
    is one stage.
    """
    stages = module if isinstance(module, list) else [module]
    return Encoder(stages, meta, EncoderSpec("custom", meta.name)).eval()
