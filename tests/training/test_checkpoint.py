"""What a checkpoint and an encoder's record say about the training behind them."""

from dataclasses import replace

from appl.encoders import ENCODERS, WeightsSource
from appl.training.checkpoint import trained_on


def test_the_record_names_every_source_once():
    encoder = ENCODERS.get("resnet10")()
    for name in ("birds", "birds", "ships"):
        trained_on(encoder, name, 48)
    assert encoder.meta.source == "birds, then ships" and encoder.meta.input_px == 48
    encoder.meta = replace(encoder.meta, weights=WeightsSource("x", "1", "MIT", "plants"))
    trained_on(encoder, "ships", 48)
    assert encoder.meta.weights.licence == "MIT, then as the source's images"


def test_a_source_that_the_record_words_otherwise_is_named_once():
    encoder = ENCODERS.get("resnet10")()
    known = WeightsSource("appl", "1", "x", "miniImageNet, 64 training classes")
    encoder.meta = replace(encoder.meta, weights=known)
    trained_on(encoder, "miniimagenet", 84)
    assert encoder.meta.source == "miniImageNet, 64 training classes"
