"""The solver against two others, and its derivative against differences."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from appl.rivals._simplex_qp import project_to_simplex, svm_dual


def problem(seed: int, n_shot: int = 2, width: int = 4, scale: float = 1.0):
    generator = torch.Generator().manual_seed(seed)
    z = scale * torch.randn(3 * n_shot, width, generator=generator, dtype=torch.float64)
    class_ids = torch.arange(3).repeat(n_shot)
    return z, class_ids


def kernel_of(z: torch.Tensor, ridge: float = 1.0) -> torch.Tensor:
    return z @ z.mT + ridge * torch.eye(len(z), dtype=z.dtype)


def dual_value(alpha: np.ndarray, kernel: np.ndarray, labels: np.ndarray) -> float:
    return 0.5 * np.einsum("in,ij,jn->", alpha, kernel, alpha) - (alpha * labels).sum()


@pytest.mark.golden
@pytest.mark.parametrize(
    ("seed", "scale", "bound"), [(0, 1.0, 0.1), (1, 3.0, 0.1), (2, 1.0, 1.0), (3, 0.3, 0.3)]
)
def test_it_agrees_with_a_general_solver(seed: int, scale: float, bound: float) -> None:
    z, class_ids = problem(seed, scale=scale)
    kernel, labels = kernel_of(z).numpy(), np.eye(3)[class_ids.numpy()]
    found = minimize(
        lambda a: dual_value(a.reshape(6, 3), kernel, labels),
        np.zeros(18),
        jac=lambda a: (kernel @ a.reshape(6, 3) - labels).ravel(),
        method="SLSQP",
        bounds=[(None, high) for high in (bound * labels).ravel()],
        constraints={
            "type": "eq",
            "fun": lambda a: a.reshape(6, 3).sum(1),
            "jac": lambda _a: np.kron(np.eye(6), np.ones(3)),
        },
        options={"ftol": 1e-16, "maxiter": 1000},
    )  # which may end by finding no better point at this precision, and call that no success
    alpha = svm_dual(kernel_of(z), class_ids, 3, bound).numpy()
    assert dual_value(alpha, kernel, labels) <= found.fun + 1e-10
    np.testing.assert_allclose(alpha, found.x.reshape(6, 3), atol=1e-6)


def test_no_gap_between_primal_and_dual() -> None:
    """½ Σ‖w_n‖² + C Σ_i max_n (w_n·z_i − w_y·z_i + 1[n ≠ y]), in the features of K."""
    z, class_ids = problem(0, n_shot=5, width=8, scale=2.0)
    kernel, labels = kernel_of(z), torch.eye(3, dtype=torch.float64)[class_ids]
    alpha = svm_dual(kernel, class_ids, 3, 0.1)
    scores = kernel @ alpha
    own = (scores * labels).sum(1, keepdim=True)
    slack = (scores - own + 1 - labels).amax(1)
    primal = 0.5 * (alpha * scores).sum() + 0.1 * slack.sum()
    assert primal.item() == pytest.approx(
        -dual_value(alpha.numpy(), kernel.numpy(), labels.numpy()), abs=1e-9
    )
    assert slack.max() > 0  # some support is inside the margin: the bound is at work


@pytest.mark.golden
def test_it_is_scikit_learns_machine_of_crammer_and_singer() -> None:
    z, class_ids = problem(4, n_shot=6, width=30)  # more dimensions than points: K needs no ridge
    machine = LinearSVC(
        C=0.05, multi_class="crammer_singer", fit_intercept=False, tol=1e-10, max_iter=100_000
    ).fit(z.numpy(), class_ids.numpy())
    weights = z.mT @ svm_dual(kernel_of(z, 0.0), class_ids, 3, 0.05)
    np.testing.assert_allclose(weights.mT.numpy(), machine.coef_, atol=1e-5)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_gradient_is_that_of_the_optimum(seed: int) -> None:
    z, class_ids = problem(seed, scale=1.5)
    alpha = svm_dual(kernel_of(z), class_ids, 3, 0.3)
    slack = 0.3 * torch.eye(3, dtype=z.dtype)[class_ids] - alpha
    free = slack > 0
    assert free.any(1).all() and not free.all()
    assert slack[free].min() > 1e-3  # away from a kink
    assert torch.autograd.gradcheck(
        lambda z: svm_dual(kernel_of(z), class_ids, 3, 0.3), (z.requires_grad_(),), atol=1e-6
    )


def test_projection_on_a_simplex() -> None:
    """By its condition: on the kept entries the same is taken off, the others had less than it."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(50, 4, generator=generator, dtype=torch.float64)
    nearest = project_to_simplex(rows, 0.7)
    torch.testing.assert_close(nearest.sum(1), torch.full((50,), 0.7, dtype=torch.float64))
    assert (nearest >= 0).all() and (nearest == 0).any()
    for row, point in zip(rows, nearest, strict=True):
        taken = (row - point)[point > 0]
        assert taken.max() - taken.min() < 1e-12
        assert (row[point == 0] <= taken.max() + 1e-12).all()
