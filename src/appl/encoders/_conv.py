"""A convolution by matrix products, for wide layers on small maps that learn on the CPU.

oneDNN computes the weight gradient of ResNet10's last two stages at half the speed of a matrix
product of the same size, on an AVX2 core in fp32 and on one with bf16 units in bf16. And where a
batch has few positions, as in fine-tuning with four images per step, it spends much of a wide
layer's time on bringing the weights, changed by every step, into a layout of its own; a product
takes them as they lie. On an AVX2 core in fp32 a whole step takes 0.82 of the time with torch's own
convolutions for four images, 0.89 for 75 (benchmarks/wide_conv.py). The values are the same up to
rounding.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.grad import conv2d_input

# Fewer output channels than this make thin products, and the copy of the patches does not pay.
LEAST_CHANNELS = 256
# From this many positions in a batch's output on, oneDNN's own passes are as fast or faster.
MANY_POSITIONS = 512
PRECISIONS = {torch.float32, torch.bfloat16}


class WideConv2d(nn.Conv2d):
    """An ordinary square convolution without bias; only how it is computed differs."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the same map as nn.Conv2d."""
        casts = torch.is_autocast_enabled("cpu")
        dtype = torch.get_autocast_dtype("cpu") if casts else x.dtype
        if (
            x.device.type != "cpu"
            or not {x.dtype, dtype} <= PRECISIONS
            or self.out_channels < LEAST_CHANNELS
            or not (torch.is_grad_enabled() and self.weight.requires_grad)
        ):
            return super().forward(x)
        stride, padding = self.stride[0], int(self.padding[0])
        # Autocast does not know a function of our own: what it would cast is cast here.
        x, weight = x.to(dtype), self.weight.to(dtype)
        return _Convolution.apply(x, weight, stride, padding)  # type: ignore[no-any-return, no-untyped-call]


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.padding = stride, padding
        kernel = weight.shape[2]
        height, width = ((side + 2 * padding - kernel) // stride + 1 for side in x.shape[2:])
        n_positions = len(x) * height * width
        # Forward and input gradient by products were not measured in bf16.
        ctx.by_products = x.dtype == torch.float32 and n_positions < MANY_POSITIONS
        if not ctx.by_products:
            return F.conv2d(x, weight, None, stride, padding)
        maps = _patches(x, kernel, stride, padding) @ _as_matrix(weight).mT
        return maps.view(len(x), height, width, -1).permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        # Every operation here is differentiable in turn, so second derivatives come out right.
        x_gradient = None
        if ctx.needs_input_grad[0] and ctx.by_products:
            x_gradient = _input_gradient(x, gradient, weight, ctx)
        elif ctx.needs_input_grad[0]:
            x_gradient = conv2d_input(x.shape, weight, gradient, ctx.stride, ctx.padding)
        return x_gradient, _weight_gradient(x, gradient, weight, ctx), None, None


def _as_matrix(weight: Tensor) -> Tensor:
    """Return one row an output channel, input channels innermost: no copy in channels_last."""
    return weight.permute(0, 2, 3, 1).reshape(len(weight), -1)


def _by_position(gradient: Tensor) -> Tensor:
    """Return one row a position of the output."""
    return gradient.permute(0, 2, 3, 1).reshape(-1, gradient.shape[1])


def _patches(x: Tensor, kernel: int, stride: int, padding: int) -> Tensor:
    """Return what the kernel sees, one row a position, input channels innermost."""
    padded = F.pad(x.permute(0, 2, 3, 1), (0, 0, *(padding,) * 4))  # (n, h, w, n_in)
    windows = padded.unfold(1, kernel, stride).unfold(2, kernel, stride)
    # (n, rows, columns, n_in, kernel, kernel), with the channels moved behind the kernel.
    return windows.permute(0, 1, 2, 4, 5, 3).reshape(-1, kernel * kernel * x.shape[1])


def _weight_gradient(x: Tensor, gradient: Tensor, weight: Tensor, ctx: Any) -> Tensor:
    """Return Σ over positions of output gradient × input patch, in the layout channels_last."""
    n_out, n_in, kernel, _ = weight.shape
    product = _by_position(gradient).mT @ _patches(x, kernel, ctx.stride, ctx.padding)
    return product.view(n_out, kernel, kernel, n_in).permute(0, 3, 1, 2)


def _input_gradient(x: Tensor, gradient: Tensor, weight: Tensor, ctx: Any) -> Tensor:
    """Return what every position sends back through the kernel, added up where patches overlap."""
    _, n_in, kernel, _ = weight.shape
    n, _, height, width = gradient.shape
    stride, padding = ctx.stride, ctx.padding
    sent = (_by_position(gradient) @ _as_matrix(weight)).view(n, height, width, kernel, kernel, -1)
    padded = sent.new_zeros(n, x.shape[2] + 2 * padding, x.shape[3] + 2 * padding, n_in)
    for i in range(kernel):
        for j in range(kernel):
            rows, columns = (
                slice(start, start + stride * (count - 1) + 1, stride)
                for start, count in ((i, height), (j, width))
            )
            padded[:, rows, columns] += sent[:, :, :, i, j]
    inner = padded[:, padding : padding + x.shape[2], padding : padding + x.shape[3]]
    return inner.permute(0, 3, 1, 2)
