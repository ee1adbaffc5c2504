"""Layer-wise relevance propagation (Bach et al., 2015): how much each input supports a prediction.

Relevance is shared out backwards, step by step, in proportion to what every input contributed; but
for the stabiliser ε it is conserved. Biases get none, batch norms and LeakyReLUs pass it on as it
is.
"""

import torch
from torch import Tensor

EPSILON = 0.01


def start_relevance(scores: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Return log(b·(p + ε) / (1 + ε − p)) of scores (…, n_way) with p their softmax.

    b = n_way − 1, so that chance has none, but for ε; the authors' code has 4 for five classes.
    """
    probs = torch.softmax(scores, -1)
    return torch.log((scores.shape[-1] - 1) * (probs + epsilon) / (1 + epsilon - probs))


def stabilised(sums: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Move sums away from zero by ε, as their sign says."""
    return sums + epsilon * torch.where(sums >= 0, 1.0, -1.0)


def through_linear(
    inputs: Tensor, weight: Tensor, relevance: Tensor, epsilon: float = EPSILON
) -> Tensor:
    """Return the relevance of inputs x (…, n_in) from that of Wx (…, n_out)."""
    return inputs * ((relevance / stabilised(inputs @ weight.mT, epsilon)) @ weight)


def through_mixing(
    mixing: Tensor, inputs: Tensor, relevance: Tensor, epsilon: float = EPSILON
) -> Tensor:
    """Return the relevance of nodes x (…, n, d) from that of Ax, A (…, n, n) taken as constant."""
    return inputs * (mixing.mT @ (relevance / stabilised(mixing @ inputs, epsilon)))


def through_sum(parts: Tensor, relevance: Tensor, dim: int, epsilon: float = EPSILON) -> Tensor:
    """Return the relevance of parts from that of their sum over `dim`, kept as a side of 1."""
    return parts / stabilised(parts.sum(dim, keepdim=True), epsilon) * relevance


def relevance_weights(relevance: Tensor, dim: int) -> Tensor:
    """Return 1 + R / max |R| over `dim`: between 0 and 2, and 1 where nothing is relevant."""
    return 1 + relevance / relevance.abs().amax(dim, keepdim=True).clamp(min=1e-12)
