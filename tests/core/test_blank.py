import torch
from torch import nn

from appl.core.blank import Blank
from appl.encoders import ENCODERS
from appl.weights import load_pretrained
from tests.conftest import are_equal


def test_only_initialisation_is_left_out():
    weight = torch.full((3, 2), 7.0)
    with Blank():
        assert nn.init.normal_(weight) is weight
        nn.init.kaiming_uniform_(weight)
        assert (weight == 7).all()
        weight += 1  # everything else is as ever
        layer = nn.Linear(2, 3)
    assert (weight == 8).all() and layer.weight.shape == (3, 2)
    nn.init.zeros_(weight)
    assert not weight.any()


def test_weights_that_are_read_do_not_depend_on_it(tmp_path):
    """What a file holds replaces everything, whatever was in memory before."""
    first, second = (load_pretrained("resnet10").encoder.state_dict() for _ in range(2))
    assert are_equal(first, second)


def test_untrained_networks_are_initialised():
    weight = ENCODERS.get("resnet10").build().stages[0][0].weight
    assert 0.5 < weight.std() / (2 / (49 * 64)) ** 0.5 < 2
