"""A small encoder of maps with texture, registered, for pairs with the one of tokens."""

import torch
from torch import nn

from appl.encoders import ENCODERS, Encoder, EncoderEntry, EncoderMeta

META = EncoderMeta(
    name="test_maps",
    width=6,
    input_px=24,
    mean=(0.4, 0.5, 0.6),
    std=(0.25, 0.25, 0.25),
    stages=("early", "late"),
    max_frozen_stages=1,
    min_px=8,
    texture_stage="early",
    temperature=2.0,
)


def build() -> Encoder:
    early = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU())
    late = nn.Sequential(nn.Conv2d(4, META.width, 3, 2, 1), nn.BatchNorm2d(META.width), nn.ReLU())
    return Encoder([early, late], META)


ENCODERS.register("test_maps")(EncoderEntry(META, build))


def make_map_encoder(seed: int = 0) -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return ENCODERS.get("test_maps")().eval()
