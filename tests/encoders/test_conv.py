import pytest
import torch
from torch import nn

from appl.encoders import _conv
from appl.encoders._conv import LEAST_CHANNELS, WideConv2d


def pair(kernel, stride, padding):
    ours = WideConv2d(8, LEAST_CHANNELS, kernel, stride, padding, bias=False)
    theirs = nn.Conv2d(8, LEAST_CHANNELS, kernel, stride, padding, bias=False)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(3, 1, 1), (3, 2, 1), (1, 2, 0), (3, 1, 0)]
)
@pytest.mark.parametrize("side", [5, 6])
@pytest.mark.parametrize("n_images", [2, 60])
def test_values_and_gradients_are_those_of_torchs_convolution(
    kernel, stride, padding, side, n_images, monkeypatch
):
    monkeypatch.setattr(_conv, "MANY_POSITIONS", 300)  # 60 images have more, two have fewer
    ours, theirs = pair(kernel, stride, padding)
    x = torch.randn(n_images, 8, side, side).to(memory_format=torch.channels_last)
    inputs = [x.clone().requires_grad_(), x.clone().requires_grad_()]
    outputs = [ours(inputs[0]), theirs(inputs[1])]
    assert type(outputs[0].grad_fn).__name__ == "_ConvolutionBackward"
    assert outputs[0].is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-4, atol=1e-5)
    for y in outputs:
        (y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("stride", [1, 2])
def test_under_autocast_values_and_gradients_are_those_of_torchs_convolution_in_bf16(stride):
    ours, theirs = pair(3, stride, 1)
    x = torch.randn(2, 8, 6, 6)
    inputs = [x.clone().requires_grad_(), x.clone().requires_grad_()]
    with torch.autocast("cpu", torch.bfloat16):
        outputs = [ours(inputs[0]), theirs(inputs[1])]
    assert type(outputs[0].grad_fn).__name__ == "_ConvolutionBackward"
    assert outputs[0].dtype == torch.bfloat16
    assert torch.equal(outputs[0], outputs[1])
    for y in outputs:
        (y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum().backward()
    assert ours.weight.grad.dtype == inputs[0].grad.dtype == torch.float32
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("of", ["weight", "input"])
@pytest.mark.parametrize("n_images", [1, 40])
def test_second_derivatives_are_right_too(of, n_images):
    ours, theirs = pair(3, 1, 1)
    x = torch.randn(n_images, 8, 4, 4, requires_grad=True)
    found = []
    for layer in (ours, theirs):
        leaf = layer.weight if of == "weight" else x
        (first,) = torch.autograd.grad(layer(x).pow(3).mean(), leaf, create_graph=True)
        found.append(torch.autograd.grad(first.pow(2).sum(), [layer.weight, x]))
    for mine, right in zip(*found, strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-3, atol=1e-4 * right.abs().max().item())


@pytest.mark.parametrize("why", ["narrow", "no gradient", "frozen", "double", "half precision"])
def test_elsewhere_the_usual_convolution_is_taken(why):
    n_out = 4 if why == "narrow" else LEAST_CHANNELS
    layer = WideConv2d(8, n_out, 3, 1, 1, bias=False)
    x = torch.randn(1, 8, 4, 4).requires_grad_()
    if why == "frozen":
        layer.requires_grad_(False)
    if why == "double":
        layer, x = layer.double(), x.double()
    with (
        torch.set_grad_enabled(why != "no gradient"),
        torch.autocast("cpu", torch.float16, enabled=why == "half precision"),
    ):
        y = layer(x)
    assert "_ConvolutionBackward" not in type(y.grad_fn).__name__
