import sys

import pytest
import torch
from torch import nn

from appl.encoders import from_module, from_timm
from appl.errors import WeightsError
from tests.conftest import small_meta


def test_a_users_module_of_vectors_is_an_encoder():
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 6))
    encoder = from_module(network, small_meta(stages=("whole",), max_frozen_stages=0))
    assert encoder.encode(torch.rand(2, 3, 12, 12)).shape == (2, 6)


def test_stages_must_match_their_names():
    with pytest.raises(ValueError, match="1 stages, 2 names"):
        from_module(nn.Identity(), small_meta())


def test_timm_is_not_imported_until_asked_for(monkeypatch):
    assert "timm" not in sys.modules
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(WeightsError, match=r"pip install 'appl\[timm\]'"):
        from_timm("resnet18")
