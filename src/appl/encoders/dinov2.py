"""DINOv2 (Oquab et al., 2023): transformers that learnt from 142 million images without labels.

The weights are not in any package: `appl encoders get NAME` fetches a file, or NAME@FILE takes one
that was brought along. Three forms of names are read: the authors' `.pth`, timm's, and the hub's.
Not for the paper's tables: CUB, Cars and ImageNet were among the seeds that its training images
were gathered with.
"""

import re
from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from appl.encoders._encoder import Encoder
from appl.encoders._meta import EncoderMeta, WeightsSource
from appl.encoders._registry import ENCODERS, EncoderEntry, HubFile
from appl.encoders._vit import ViTShape, stage_names, vision_transformer
from appl.errors import WeightsError

PATCH_PX = 14

SHAPES = {
    "dinov2_vits14": ViTShape(384, 12, 6),
    "dinov2_vits14_reg": ViTShape(384, 12, 6, n_registers=4),
    "dinov2_vitb14": ViTShape(768, 12, 12),
    "dinov2_vitb14_reg": ViTShape(768, 12, 12, n_registers=4),
}
FILES = {
    "dinov2_vits14": HubFile(
        "facebook/dinov2-small",
        "model.safetensors",
        "ed25f3a31f01632728cabb09d1542f84ab7b0056",
        "ae1e99fcefd534ed978cdeb8326f08030c96e28b7a81ffcbc98a857c84d14be1",
        88,
    ),
}

# From the forms of names to ours, inside a block.
_PARTS = {
    "attn.qkv": "attention.qkv",
    "attn.proj": "attention.proj",
    "mlp.fc1": "fc1",
    "mlp.fc2": "fc2",
    "norm1": "norm1",
    "norm2": "norm2",
    "ls1.gamma": "scale1",
    "ls2.gamma": "scale2",
    # The hub's.
    "attention.output.dense": "attention.proj",
    "layer_scale1.lambda1": "scale1",
    "layer_scale2.lambda1": "scale2",
}
_OUTSIDE = {
    "patch_embed.proj.weight": "stages.0.cut.weight",
    "patch_embed.proj.bias": "stages.0.cut.bias",
    "cls_token": "class_token",
    "pos_embed": "positions",
    "register_tokens": "registers",
    "reg_token": "registers",
    "embeddings.patch_embeddings.projection.weight": "stages.0.cut.weight",
    "embeddings.patch_embeddings.projection.bias": "stages.0.cut.bias",
    "embeddings.cls_token": "class_token",
    "embeddings.position_embeddings": "positions",
    "embeddings.register_tokens": "registers",
}
_LEFT_OUT = ("mask_token", "embeddings.mask_token")  # of the training, not of the encoder
_HUB_QKV = re.compile(r"attention\.attention\.(query|key|value)\.(weight|bias)")


def meta_of(name: str) -> EncoderMeta:
    """Return the record of one of the four."""
    shape = SHAPES[name]
    return EncoderMeta(
        name=name,
        width=shape.width,
        input_px=224,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        stages=stage_names(shape.depth),
        max_frozen_stages=shape.depth + 1,
        non_negative=False,
        min_px=2 * PATCH_PX,
        multiple_px=PATCH_PX,
        advised_frozen_stages=shape.depth - 2,
        pooling="class_token",
        n_prefix_tokens=1 + shape.n_registers,
        label_px=154,
    )


def untrained(name: str) -> Encoder:
    """Build the network of one of the four alone."""
    return vision_transformer(SHAPES[name], meta_of(name))


def our_names(state: Mapping[str, Tensor], shape: ViTShape) -> dict[str, Tensor]:
    """Return the tensors of a file in any of the three forms under our names, as fp32."""
    ours: dict[str, Tensor] = {}
    apart: dict[str, Tensor] = {}
    hub: dict[tuple[int, str], dict[str, Tensor]] = {}
    for name, value in state.items():
        value = value.float()
        block = re.fullmatch(r"(?:blocks|encoder\.layer)\.(\d+)\.(.+)", name)
        if name in _LEFT_OUT:
            continue
        if block:
            number, inside = int(block[1]), block[2]
            if part := _HUB_QKV.fullmatch(inside):
                hub.setdefault((number, part[2]), {})[part[1]] = value
            else:
                ours[f"stages.{number + 1}.{_inside(inside, name)}"] = value
        elif last := re.fullmatch(r"(?:norm|layernorm)\.(weight|bias)", name):
            ours[f"stages.{shape.depth + 1}.{last[1]}"] = value
        elif name in _OUTSIDE and _OUTSIDE[name].startswith("stages"):
            ours[_OUTSIDE[name]] = value
        elif name in _OUTSIDE:
            apart[_OUTSIDE[name]] = value
        else:
            raise WeightsError(f"{name!r} belongs to no DINOv2 that we know")
    for (number, kind), parts in hub.items():
        if parts.keys() != {"query", "key", "value"}:
            raise WeightsError(f"block {number} has no whole attention")
        joined = torch.cat([parts[part] for part in ("query", "key", "value")])
        ours[f"stages.{number + 1}.attention.qkv.{kind}"] = joined
    return ours | _tokens(apart, shape)


def _inside(part: str, name: str) -> str:
    for theirs, mine in _PARTS.items():
        if part == theirs:
            return mine
        if part.startswith(f"{theirs}."):
            return f"{mine}.{part.removeprefix(f'{theirs}.')}"
    raise WeightsError(f"{name!r} belongs to no DINOv2 that we know")


def _tokens(apart: dict[str, Tensor], shape: ViTShape) -> dict[str, Tensor]:
    """Return class token, registers and positions; the class token takes its position along."""
    for name in ("class_token", "positions"):
        if name not in apart:
            raise WeightsError(f"there is no {name.replace('_', ' ')} in it")
    class_token, positions = apart["class_token"], apart["positions"]
    if positions.shape[1] == shape.grid**2 + 1:  # timm's files with registers have none for it
        class_token = class_token + positions[:, :1]
        positions = positions[:, 1:]
    registers = apart.get("registers", torch.zeros(1, 0, shape.width))
    tokens = {"class_token": class_token, "positions": positions, "registers": registers}
    return {f"stages.0.{name}": value for name, value in tokens.items()}


for _name, _shape in SHAPES.items():
    ENCODERS.register(_name)(
        EncoderEntry(
            meta_of(_name),
            partial(untrained, _name),
            convert=partial(our_names, shape=_shape),
            published=WeightsSource(_name, "2023", "Apache-2.0", "LVD-142M (no labels)"),
            hub=FILES.get(_name),
        )
    )
