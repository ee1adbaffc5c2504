"""Fixtures: a small encoder and small tasks, so that a test of the method takes milliseconds."""

import pytest
import torch
from torch import nn

from appl.core.episode import Episode, Task
from appl.encoders import Encoder, EncoderMeta, from_module
from tests import fake_torchvision

torch.set_num_threads(1)
# timm, and torchmetrics where timm is installed, import torchvision, which may not fit this torch.
fake_torchvision.install()

WIDTH = 6


def small_meta(**changes) -> EncoderMeta:
    values = dict(
        name="small",
        width=WIDTH,
        input_px=12,
        mean=(0.5, 0.5, 0.5),
        std=(0.25, 0.25, 0.25),
        stages=("early", "late"),
        max_frozen_stages=1,
        min_px=8,
        texture_stage="early",
    )
    return EncoderMeta(**(values | changes))


def make_small_encoder(seed: int = 0, **changes) -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        early = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU())
        late = nn.Sequential(nn.Conv2d(4, WIDTH, 3, 2, 1), nn.BatchNorm2d(WIDTH), nn.ReLU())
        return from_module([early, late], small_meta(**changes))


def encoder_of_width(width: int) -> Encoder:
    """An encoder that only says how wide its features are."""
    return Encoder([nn.Identity(), nn.Identity()], small_meta(width=width))


def make_episode(
    n_way: int = 3, shots: int | list[int] = 5, n_query: int = 4, seed: int = 0, noise: float = 0.1
) -> Episode:
    """Classes are random patterns; their images are noisy copies."""
    generator = torch.Generator().manual_seed(seed)
    shots = [shots] * n_way if isinstance(shots, int) else shots
    patterns = torch.rand(n_way, 3, 12, 12, generator=generator)

    def draw(counts: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        ids = torch.repeat_interleave(torch.arange(n_way), torch.tensor(counts))
        images = patterns[ids] + noise * torch.randn(len(ids), 3, 12, 12, generator=generator)
        return images.clamp(0, 1), ids

    support, class_ids = draw(shots)
    query, query_class_ids = draw([n_query] * n_way)
    task = Task(support, class_ids, query)
    return Episode(task, query_class_ids, source_ids=torch.arange(n_way))


def weights_of(encoder: Encoder) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in encoder.state_dict().items()}


def are_equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture
def small_encoder() -> Encoder:
    return make_small_encoder()
