"""One of timm's networks as an encoder, by name (an extra: `pip install 'appl[timm]'`).

timm is imported when it is asked for. Its networks are cut into stages where they are made of
stem, blocks and head, so that a frozen prefix can be cached; that the parts give what the whole
gives is checked when the network is built, and where they do not, the whole is one stage.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from appl.encoders._encoder import Encoder
from appl.encoders._import import file_digest, read_state
from appl.encoders._meta import EncoderMeta, WeightsSource
from appl.encoders._spec import EncoderSpec
from appl.errors import WeightsError

PREFIX = "timm:"
# Beside what a model's own record says: the class token is the better description of an image.
OPTIONS: dict[str, dict[str, Any]] = {
    "vit_small_patch16_dinov3": {"global_pool": "token"},
    "vit_base_patch16_dinov3": {"global_pool": "token"},
}


def from_timm(
    name: str, file: Path | None = None, *, pretrained: bool = True, **options: Any
) -> Encoder:
    """Build a network with timm's weights, with those of a file, or without (`pretrained`)."""
    try:
        import timm
    except ImportError as error:
        raise WeightsError("timm is not installed; run: pip install 'appl[timm]'") from error
    chosen = OPTIONS.get(name.split(".")[0], {}) | options
    network = _built(timm, name, pretrained and file is None, chosen)
    if file is not None:
        _load(network, read_state(file), name, file)
    config = network.pretrained_cfg
    source = None
    if pretrained or file is not None:
        source = WeightsSource(
            name=file.name if file else f"{PREFIX}{name}",
            version="as given" if file else f"timm {timm.__version__}",
            licence=config.get("license") or "see the model's card",
            trained_on=config.get("tag") or "see the model's card",
            sha256=file_digest(file) if file else "",
        )
    parts = _parts(network.eval(), config["input_size"][-1])
    # Transformers cut an image into whole patches.
    step = max(getattr(getattr(network, "patch_embed", None), "patch_size", (1,)))
    meta = EncoderMeta(
        name=f"{PREFIX}{name}",
        width=network.num_features,
        input_px=config["input_size"][-1],
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        stages=tuple(parts),
        max_frozen_stages=len(parts) - 1,
        advised_frozen_stages=max(len(parts) - 4, 0),
        non_negative=False,
        multiple_px=step,
        weights=source,
    )
    return Encoder(list(parts.values()), meta, EncoderSpec("timm", name, options)).eval()


def _built(timm: Any, name: str, pretrained: bool, options: dict[str, Any]) -> Any:
    values = {"pretrained": pretrained, "num_classes": 0, **options}
    try:
        try:
            # Transformers with learnt positions take other sizes than their own only so.
            return timm.create_model(name, dynamic_img_size=True, **values)
        except TypeError:
            return timm.create_model(name, **values)
    except RuntimeError as error:
        if "Unknown model" not in str(error):
            raise
        near = ", ".join(timm.list_models(f"*{name.split('.')[0]}*")[:3]) or "timm.list_models()"
        raise WeightsError(f"timm has no model {name!r}; try {near}") from error
    except OSError as error:  # no network, or no such file on the hub
        reason = str(error).strip().splitlines()[0]
        raise WeightsError(
            f"the weights of {PREFIX}{name} could not be fetched: {reason}; bring the file along "
            f"and name it as {PREFIX}{name}@FILE"
        ) from error


def _load(network: nn.Module, state: Mapping[str, Tensor], name: str, file: Path) -> None:
    """Load a file in timm's names; a classifier in it is left out."""
    expected = network.state_dict()
    kept = {key: value for key, value in state.items() if key in expected}
    missing = [key for key in expected if key not in kept and "num_batches_tracked" not in key]
    if missing:
        raise WeightsError(f"{file} is no whole {name}: {missing[0]!r} is missing")
    for key, value in kept.items():
        if value.shape != expected[key].shape:
            raise WeightsError(
                f"{file}: {key!r} has shape {tuple(value.shape)}, "
                f"{name} needs {tuple(expected[key].shape)}"
            )
    network.load_state_dict({key: value.float() for key, value in kept.items()}, strict=False)


class _Front(nn.Module):
    """Patches with their positions and class token, as plain transformers begin."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        for name in ("patch_embed", "pos_drop", "patch_drop", "norm_pre"):
            setattr(self, name, getattr(network, name))
        for name in ("cls_token", "reg_token", "pos_embed"):
            setattr(self, name, getattr(network, name, None))
        self.whole: list[Any] = [network]  # not a submodule: what is used of it is above

    def forward(self, pixels: Tensor) -> Tensor:
        """Return tokens."""
        network = self.whole[0]
        tokens = network._pos_embed(network.patch_embed(pixels))
        found: Tensor = network.norm_pre(network.patch_drop(tokens))
        return found


class _Tail(nn.Module):
    """What comes after the blocks: a norm or convolution, and timm's pooling."""

    def __init__(self, network: Any, names: tuple[str, ...]) -> None:
        super().__init__()
        self.before = nn.ModuleList(getattr(network, n) for n in names if hasattr(network, n))
        for name in ("attn_pool", "fc_norm", "head_drop", "head"):
            setattr(self, name, getattr(network, name, None))
        self.whole: list[Any] = [network]

    def forward(self, maps: Tensor) -> Tensor:
        """Return vectors."""
        for module in self.before:
            maps = module(maps)
        vectors: Tensor = self.whole[0].forward_head(maps, pre_logits=True)
        return vectors


@torch.no_grad()
def _parts(network: Any, size_px: int) -> dict[str, nn.Module]:
    """Cut a network into stages that run one after the other; one, where it is made otherwise."""
    parts: dict[str, nn.Module] = {}
    stem = getattr(network, "stem", getattr(network, "patch_embed", None))
    if hasattr(network, "blocks") and hasattr(network, "_pos_embed"):
        blocks = {f"block{i}": block for i, block in enumerate(network.blocks, 1)}
        parts = {"patches": _Front(network), **blocks, "tail": _Tail(network, ("norm",))}
    elif hasattr(network, "stages") and stem is not None:
        stages = {f"stage{i}": stage for i, stage in enumerate(network.stages, 1)}
        parts = {"stem": stem, **stages, "tail": _Tail(network, ("norm_pre", "final_conv"))}
    if parts:
        pixels = torch.rand(1, 3, size_px, size_px)
        try:
            found = pixels
            for part in parts.values():
                found = part(found)
            if torch.allclose(found, network(pixels), rtol=1e-4, atol=1e-5):
                return parts
        except (TypeError, RuntimeError, AttributeError):
            pass  # its blocks take more than what the one before gives
    return {"whole": network}
