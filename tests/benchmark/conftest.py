"""A small benchmark: two targets of coloured noise, a ResNet10 with random weights at 32 px."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from appl.encoders import ENCODERS, WeightsSource
from appl.method.pcn import PCN
from appl.settings.benchmark import BenchSettings
from appl.settings.files import structure_settings
from appl.weights import Pretrained, save_weights

ROWS = [
    {"method": "prototypical"},
    {"method": "tim", "settings": {"n_iterations": 5}},
    {
        "method": "appl",
        "title": "APPL",
        "n_episodes": 2,
        "settings": {"preset": "robust", "changes": {"adaptation": {"n_iterations": 2}}},
    },
]


def write_target(root: Path, n_classes: int, n_images: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    for number in range(n_classes):
        folder = root / f"class{number}"
        folder.mkdir(parents=True)
        colour = random.integers(60, 200, 3)
        for image in range(n_images):
            noise = random.integers(-60, 60, (32, 32, 3))
            pixels = np.clip(colour + noise, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{image}.png")


@pytest.fixture(scope="session")
def bench_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bench")
    write_target(root / "data" / "noise", 4, 9, seed=0)
    write_target(root / "data" / "more", 3, 9, seed=1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = ENCODERS.get("resnet10")().eval()
    source = WeightsSource("random", "0", "none", "nothing")
    encoder.meta = replace(encoder.meta, weights=source)
    save_weights(root / "weights.safetensors", Pretrained(encoder, PCN(512)))
    return root


@pytest.fixture
def bench_settings(bench_root: Path) -> BenchSettings:
    return structure_settings(
        BenchSettings,
        {
            "targets": {"noise": "Noise", "more": "More"},
            "rows": ROWS,
            "weights": str(bench_root / "weights.safetensors"),
            "image_px": 32,
            "n_episodes": 4,
            "protocol": {"n_way": 3, "n_shot": 2, "n_query": 3},
        },
    )
