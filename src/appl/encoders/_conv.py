"""A convolution whose weight gradient is one matrix product, for wide layers on small maps.

oneDNN computes that gradient of ResNet10's last two stages at half the speed of a matrix product
of the same size, on an AVX2 core in fp32 and on one with bf16 units in bf16; written as one
(patches by output gradient) it takes half the time. The values are the same up to rounding. Used
on the CPU in these two precisions; elsewhere the usual one is taken.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.grad import conv2d_input

# Fewer output channels than this make thin products, and the copy of the patches does not pay.
LEAST_CHANNELS = 256
PRECISIONS = {torch.float32, torch.bfloat16}


class WideConv2d(nn.Conv2d):
    """An ordinary square convolution without bias; only its backward pass is arranged otherwise."""

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
        return F.conv2d(x, weight, None, stride, padding)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        # Every operation here is differentiable in turn, so second derivatives come out right.
        x_gradient = None
        if ctx.needs_input_grad[0]:
            x_gradient = conv2d_input(x.shape, weight, gradient, ctx.stride, ctx.padding)
        return x_gradient, _weight_gradient(x, gradient, weight, ctx), None, None


def _weight_gradient(x: Tensor, gradient: Tensor, weight: Tensor, ctx: Any) -> Tensor:
    """Return Σ over positions of output gradient × input patch, in the layout channels_last."""
    n_out, n_in, kernel, _ = weight.shape
    pad = (ctx.padding,) * 4
    padded = F.pad(x.permute(0, 2, 3, 1), (0, 0, *pad))  # (n, h, w, n_in)
    windows = padded.unfold(1, kernel, ctx.stride).unfold(2, kernel, ctx.stride)
    # (n, rows, columns, n_in, kernel, kernel) → one row a position, channels innermost.
    patches = windows.permute(0, 1, 2, 4, 5, 3).reshape(-1, kernel * kernel * n_in)
    by_position = gradient.permute(0, 2, 3, 1).reshape(-1, n_out)
    return (by_position.mT @ patches).view(n_out, kernel, kernel, n_in).permute(0, 3, 1, 2)
