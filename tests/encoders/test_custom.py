import json

import pytest
import torch
from torch import nn

from appl.encoders import EncoderMeta, EncoderSpec, WeightsSource, from_module, from_spec
from appl.errors import WeightsError
from tests.conftest import small_meta


def test_a_users_module_of_vectors_is_an_encoder():
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 6))
    encoder = from_module(network, small_meta(stages=("whole",), max_frozen_stages=0))
    assert encoder.encode(torch.rand(2, 3, 12, 12)).shape == (2, 6)


def test_stages_must_match_their_names():
    with pytest.raises(ValueError, match="1 stages, 2 names"):
        from_module(nn.Identity(), small_meta())


@pytest.mark.parametrize("weights", [None, WeightsSource("ours", "1", "MIT", "leaves", "ab")])
def test_a_record_survives_the_trip_through_json(weights):
    meta = small_meta(
        weights=weights, pooling="class_and_patches", n_prefix_tokens=5, non_negative=False
    )
    again = EncoderMeta.from_dict(json.loads(json.dumps(meta.to_dict())))
    assert again == meta and hash(again) == hash(meta)
    assert EncoderMeta.from_dict(meta.to_dict()) == meta


def test_a_specification_of_your_own_module_needs_that_module():
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 6))
    meta = small_meta(stages=("whole",), max_frozen_stages=0)
    encoder = from_module(network, meta)
    assert encoder.spec == EncoderSpec("custom", "small")
    assert EncoderSpec(**json.loads(json.dumps(encoder.spec.to_dict()))) == encoder.spec
    with pytest.raises(WeightsError, match="'small' was a module of your own; register it"):
        from_spec(encoder.spec)
    other = from_module(network, small_meta(name="b", stages=("whole",), max_frozen_stages=0))
    with pytest.raises(WeightsError, match="'small' was a module of your own"):
        from_spec(encoder.spec, own=other)
    assert from_spec(encoder.spec, own=encoder) is encoder
    record = small_meta(stages=("whole",), max_frozen_stages=0, input_px=64).to_dict()
    assert from_spec(encoder.spec, record, encoder).meta.input_px == 64
