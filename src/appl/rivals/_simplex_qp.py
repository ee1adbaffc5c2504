"""The multi-class support vector machine of Crammer and Singer, differentiable in its kernel.

    min_α  ½ Σ_n α_nᵀ K α_n − Σ_i α_{i,y_i}   with   α_{in} ≤ C·1[n = y_i],  Σ_n α_{in} = 0

With β_i = C·e_{y_i} − α_i each row of β lies on a simplex: β ≥ 0, Σ_n β_{in} = C. So FISTA solves
it by projections of rows and products with K (n, n), never with the Kronecker matrix of n·N rows.
In float64: the answer is meant to be exact.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

MAX_STEPS = 20_000  # reached only if K is close to singular; kernels of features take some hundred


def svm_dual(kernel: Tensor, class_ids: Tensor, n_way: int, bound: float) -> Tensor:
    """Return α (n, n_way) of a positive definite kernel K (n, n) in float64 and C = `bound`.

    Its gradient is that of the optimum, exact wherever no coordinate is about to become free.
    """
    kernel = (kernel + kernel.mT) / 2
    labels = F.one_hot(class_ids, n_way).to(kernel)
    return _Optimum.apply(kernel, labels, bound)  # type: ignore[no-any-return, no-untyped-call]


def project_to_simplex(rows: Tensor, total: float) -> Tensor:
    """Return the nearest points to the rows with entries ≥ 0 that sum to `total`."""
    falling = rows.sort(dim=1, descending=True).values
    counts = torch.arange(1, rows.shape[1] + 1, device=rows.device)
    excess = (falling.cumsum(1) - total) / counts
    n_kept = (falling > excess).sum(1, keepdim=True)
    return (rows - excess.gather(1, n_kept - 1)).clamp(min=0)


class _Optimum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernel: Tensor, labels: Tensor, bound: float) -> Tensor:
        slack = _fista(kernel, labels, bound)
        alpha = bound * labels - slack
        # The projection writes exact zeros, so this tells the free coordinates.
        ctx.save_for_backward(kernel, alpha, slack > 0)
        return alpha

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Differentiate the optimality condition on the free coordinates.

        There Kα − Y is constant along a row, elsewhere α is fixed. With P the projection on
        changes that live on free coordinates and sum to zero in each row: P(dK α + K dα) = 0.
        So dL = −⟨u, dK α⟩ with P K u = P ∂L/∂α and u = P u.
        """
        kernel, alpha, free = ctx.saved_tensors
        mask = free.to(kernel)

        def project(values: Tensor) -> Tensor:
            values = values * mask
            mean = values.sum(1, keepdim=True) / mask.sum(1, keepdim=True)
            projected: Tensor = mask * (values - mean)
            return projected

        u = _conjugate_gradient(lambda values: project(kernel @ values), project(gradient))
        return -u @ alpha.mT, None, None


def _fista(kernel: Tensor, labels: Tensor, bound: float) -> Tensor:
    """Return β by projected gradient steps 1/L with the momentum for strongly convex problems."""
    eigenvalues = torch.linalg.eigvalsh(kernel)
    steepest, flattest = eigenvalues[-1], eigenvalues[0].clamp(min=0)
    root = (flattest / steepest).sqrt()
    momentum = (1 - root) / (1 + root)
    slack = point = torch.full_like(labels, bound / labels.shape[1])
    for _ in range(MAX_STEPS):
        downhill = kernel @ (bound * labels - point) - labels
        after = project_to_simplex(point + downhill / steepest, bound)
        is_done = (after - point).abs().max() <= 1e-14 * bound
        point, slack = after + momentum * (after - slack), after
        if is_done:
            break
    return slack


def _conjugate_gradient(product: Any, right: Tensor) -> Tensor:
    """Solve product(u) = right for a symmetric positive product."""
    u, residual = torch.zeros_like(right), right
    direction, square = residual, residual.square().sum()
    least = 1e-28 * square
    for _ in range(right.numel()):
        if square <= least:
            break
        image = product(direction)
        step = square / (direction * image).sum()
        u, residual = u + step * direction, residual - step * image
        before, square = square, residual.square().sum()
        direction = residual + square / before * direction
    return u
