"""What every registered encoder must do."""

import numpy as np
import pytest
import torch

from appl.core.compute import Compute
from appl.encoders import ENCODERS, from_spec
from appl.errors import TaskError


def home_of(name):
    """The module that an encoder is registered in."""
    build = ENCODERS.get(name).build
    return getattr(build, "func", build).__module__


# Those of the package; a test may have registered one of its own.
NAMES = [n for n in ENCODERS.names() if not home_of(n).startswith("tests.")]


@pytest.fixture(scope="module", params=NAMES)
def encoder(request):
    return ENCODERS.get(request.param)().eval()


@pytest.fixture(scope="module")
def images(encoder):
    side = 40 if encoder.meta.multiple_px == 1 else 3 * encoder.meta.multiple_px
    return torch.rand(3, 3, side, side, generator=torch.Generator().manual_seed(0))


def test_name_is_the_file_name_or_begins_with_it(encoder):
    """One file for a family: `efficientnet_lite` holds lite0 to lite2."""
    entry = ENCODERS.get(encoder.meta.name)
    assert encoder.meta.name.startswith(home_of(encoder.meta.name).removeprefix("appl.encoders."))
    assert entry.meta == encoder.meta


def test_without_its_weights_it_is_the_same_network(encoder):
    entry = ENCODERS.get(encoder.meta.name)
    bare = entry.build().state_dict()
    shapes = {name: value.shape for name, value in encoder.state_dict().items()}
    assert {name: value.shape for name, value in bare.items()} == shapes
    built_alike = from_spec(encoder.spec, encoder.meta.to_dict())
    assert built_alike.meta == encoder.meta and built_alike.spec == encoder.spec
    assert {name: value.shape for name, value in built_alike.state_dict().items()} == shapes


def test_features_have_the_recorded_width_and_sign(encoder, images):
    features = encoder.encode(images)
    assert features.shape == (3, encoder.meta.width)
    assert features.dtype == torch.float32
    assert features.isfinite().all() and features.std() > 0
    assert (features >= 0).all() == encoder.meta.non_negative


def test_an_image_is_encoded_alike_alone_and_in_a_batch(encoder, images):
    torch.testing.assert_close(
        encoder.encode(images[1:2]), encoder.encode(images)[1:2], rtol=1e-4, atol=1e-5
    )


def test_cutting_at_any_stage_gives_the_same_features(encoder, images):
    whole = encoder.encode(images)
    for stop in range(encoder.n_stages):
        maps = encoder.encode(images, stop)
        with torch.no_grad():
            late = encoder.pool(encoder.run(maps, stop))
        torch.testing.assert_close(late, whole, rtol=1e-4, atol=1e-5)


def test_a_description_is_the_features_and_the_deviations_of_an_earlier_map(encoder, images):
    with torch.no_grad():
        features, *texture = encoder.describe(encoder.normalise(images))
        outputs = encoder.stage_outputs(encoder.normalise(images))
    torch.testing.assert_close(features, encoder.encode(images), rtol=1e-4, atol=1e-5)
    assert len(texture) == (encoder.meta.texture_stage is not None)
    if texture:
        expected = np.std(outputs[encoder.meta.texture_stage].numpy(), axis=(2, 3))
        np.testing.assert_allclose(texture[0].numpy(), expected, rtol=1e-3, atol=1e-4)


def test_stage_outputs_end_in_the_map_before_pooling(encoder, images):
    with torch.no_grad():
        outputs = encoder.stage_outputs(encoder.normalise(images))
    assert tuple(outputs) == encoder.meta.stages
    torch.testing.assert_close(
        encoder.pool(outputs[encoder.meta.stages[-1]]), encoder.encode(images)
    )


def test_uint8_and_float_pixels_are_the_same_image(encoder, images):
    whole = (images * 255).round().to(torch.uint8)
    torch.testing.assert_close(encoder.encode(whole), encoder.encode(whole.float() / 255))


def test_weights_and_maps_are_channels_last(encoder, images):
    layout = torch.channels_last
    weights = [p for p in encoder.parameters() if p.dim() == 4 and min(p.shape[1:3]) > 1]
    assert weights and all(p.is_contiguous(memory_format=layout) for p in weights)
    maps = encoder.encode(images, 2)
    assert maps.dim() == 3 or maps.is_contiguous(memory_format=layout)  # tokens have no such layout


def test_state_dict_round_trip(encoder, images):
    fresh = type(encoder)(list(encoder.stages), encoder.meta)
    assert "pixel_mean" not in encoder.state_dict()
    fresh.load_state_dict(encoder.state_dict())
    assert torch.equal(fresh.eval().encode(images), encoder.encode(images))


def test_bf16_is_near_fp32_and_features_stay_fp32(encoder, images):
    exact = encoder.encode(images)
    try:
        encoder.place(Compute(torch.device("cpu"), torch.bfloat16))
        rounded = encoder.encode(images)
    finally:
        encoder.place(Compute(torch.device("cpu"), None))
    assert rounded.dtype == torch.float32
    assert not torch.equal(rounded, exact)
    assert (rounded - exact).norm() / exact.norm() < 0.1


def test_bad_images_are_named(encoder):
    with pytest.raises(TaskError, match="too small"):
        encoder.normalise(torch.rand(1, 3, 16, 16))
    step = encoder.meta.multiple_px
    if step > 1:
        with pytest.raises(TaskError, match=f"such as {3 * step} or {4 * step}"):
            encoder.normalise(torch.rand(1, 3, 3 * step, 3 * step + 1))
    with pytest.raises(TaskError, match=r"\(n, 3, height, width\)"):
        encoder.normalise(torch.rand(1, 1, 64, 64))


def test_the_record_says_where_the_weights_come_from(encoder):
    weights = encoder.meta.weights
    if weights is None:
        assert encoder.meta.source == "untrained"
    else:
        assert weights.name and weights.version and weights.licence and len(weights.sha256) == 64
