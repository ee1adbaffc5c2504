import torch
import torch.nn.functional as F
from torch import nn

from appl.core.seeds import generator_for
from appl.settings.pretraining import PretrainSettings
from appl.training.batches import load_batch
from appl.training.distributed import Processes

SETTINGS = PretrainSettings(crop_px=32, rotated_share=0.5)


def batch(source, *process):
    index = torch.arange(0, 160, 10)
    return load_batch(
        source, index, source.class_ids[index], generator_for(1), SETTINGS, Processes(*process)
    )


def test_two_processes_have_the_views_of_one(source):
    whole, halves = batch(source), [batch(source, rank, 2) for rank in range(2)]
    for name in ("views", "quarters", "class_ids"):
        both = torch.empty_like(getattr(whole, name))
        both[0::2], both[1::2] = (getattr(half, name) for half in halves)
        assert torch.equal(both, getattr(whole, name)), name
    assert len(set(whole.quarters.tolist())) > 1
    assert whole.views.shape == (16, 3, 32, 32)


def test_the_mean_of_the_halves_gradients_is_the_gradient_of_the_batch(source):
    """Without batch norm; with it, each process normalises by its own share."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(8))
    model(batch(source).views)

    def gradients(part):
        loss = F.cross_entropy(model(part.views), part.class_ids, label_smoothing=0.1)
        return torch.autograd.grad(loss, list(model.parameters()))

    halves = [gradients(batch(source, rank, 2)) for rank in range(2)]
    for whole, first, second in zip(gradients(batch(source)), *halves, strict=True):
        torch.testing.assert_close((first + second) / 2, whole, rtol=1e-4, atol=1e-6)
        assert not torch.allclose(first, second)
