import numpy as np
import pytest
import torch

from appl.datasets.packed import PackedImages
from appl.encoders import Encoder
from appl.images.store import ImageArray
from appl.method.pcn import PCN
from appl.weights import Pretrained, class_mean_pcn
from tests.conftest import make_small_encoder

CLASSES = [f"c{i}" for i in range(8)]
TRAIN, VALIDATION = CLASSES[:3], CLASSES[3:]


@pytest.fixture(scope="session")
def source():
    """Eight classes of 20 images; a class is a pattern of 4 × 4 colours with some noise."""
    draw = np.random.default_rng(0)
    patterns = draw.integers(0, 200, (8, 1, 4, 4, 3))
    small = patterns + draw.integers(0, 56, (8, 20, 4, 4, 3))
    pixels = small.repeat(9, axis=2).repeat(9, axis=3).reshape(160, 36, 36, 3).astype(np.uint8)
    class_ids = torch.arange(8).repeat_interleave(20)
    return PackedImages(ImageArray(pixels), class_ids, tuple(CLASSES), "x")


def start_from(
    sha256: str = "a1",
    provenance: dict | None = None,
    encoder: Encoder | None = None,
    pcn: PCN | None = None,
) -> Pretrained:
    """Weights to start from, as read from a file; without `pcn` it had none."""
    encoder = encoder or make_small_encoder()
    return Pretrained(
        encoder,
        pcn or class_mean_pcn(encoder),
        provenance or {},
        holds_pcn=pcn is not None,
        sha256=sha256,
    )


def assert_same_state(a, b):
    """Every tensor of two state dicts is equal to the bit."""
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name
