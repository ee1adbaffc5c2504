"""A user's own network, or one of timm's, as an encoder: by the same metadata record."""

from typing import Any

from torch import nn

from appl.encoders._encoder import Encoder
from appl.encoders._meta import EncoderMeta, WeightsSource
from appl.encoders._spec import EncoderSpec
from appl.errors import WeightsError


def from_module(module: nn.Module | list[nn.Module], meta: EncoderMeta) -> Encoder:
    """Wrap a network that gives maps (n, width, h, w), tokens (n, n, width) or vectors.

    A list of modules becomes the stages, so that a frozen prefix can be cached; a single module
    is one stage.
    """
    stages = module if isinstance(module, list) else [module]
    return Encoder(stages, meta, EncoderSpec("custom", meta.name)).eval()


def from_timm(name: str, *, pretrained: bool = True, **options: Any) -> Encoder:
    """Build an encoder from timm (an extra: `pip install appl[timm]`)."""
    try:
        import timm
    except ImportError as error:
        raise WeightsError("timm is not installed; run: pip install 'appl[timm]'") from error
    network = timm.create_model(name, pretrained=pretrained, num_classes=0, **options)
    config = network.pretrained_cfg
    meta = EncoderMeta(
        name=f"timm/{name}",
        width=network.num_features,
        input_px=config["input_size"][-1],
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        stages=("whole",),
        max_frozen_stages=0,
        non_negative=False,
        weights=WeightsSource(
            name=f"timm/{name}",
            version=timm.__version__,
            licence=config.get("license") or "see the model's card",
            trained_on=config.get("tag") or "see the model's card",
        )
        if pretrained
        else None,
    )
    return Encoder([network], meta, EncoderSpec("timm", name, options)).eval()
