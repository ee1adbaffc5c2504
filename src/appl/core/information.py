"""Information maximisation over a task's features (Boudiaf et al., 2020), in closed-form steps.

Class weights w_n start at the class means and move so that queries are told apart with confidence
and classes are used evenly, while supports stay right:
L = λ·CE(S) − a·H(mean p) + c·mean H(p) with p = softmax(−τ/2·‖z − w_n‖²). Alternating between the
queries' labels q and the weights lowers a bound of L at every step and needs no rate.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from appl.core.distances import class_means, squared_distances


def information_weights(
    support: Tensor,
    class_ids: Tensor,
    query: Tensor,
    *,
    n_iterations: int = 150,
    temperature: float = 15.0,
    support_weight: float = 0.1,
    marginal_weight: float | Tensor = 1.0,
    conditional_weight: float = 0.1,
) -> Tensor:
    """Return the class weights (n_way, width) for unit-length features.

    `support_weight` is λ, `marginal_weight` a, `conditional_weight` c. The smaller a, the less the
    classes of an uneven pile are made equal in size. Several tasks of one size are solved together:
    features (…, n, width) and class ids (…, n) give (…, n_way, width), a may be a tensor (…, 1, 1).
    """
    n_way = int(class_ids.max()) + 1
    weights = class_means(support, class_ids, n_way)
    labels = F.one_hot(class_ids, n_way).to(support)
    preference = marginal_weight / (1 + marginal_weight)
    support_share = support_weight / (1 + conditional_weight)
    query_share = support.shape[-2] / query.shape[-2]
    for _ in range(n_iterations):
        support_probs = torch.softmax(information_scores(support, weights, temperature), -1)
        query_probs = torch.softmax(information_scores(query, weights, temperature), -1)
        sharpened = query_probs ** (1 + conditional_weight)
        q = sharpened / sharpened.sum(-2, keepdim=True).clamp(min=1e-12) ** preference
        q = q / q.sum(-1, keepdim=True).clamp(min=1e-12)
        moved = support_share * pulled(labels, support_probs, support, weights)
        moved = moved + query_share * pulled(q, query_probs, query, weights)
        mass = support_share * labels.sum(-2) + query_share * q.sum(-2)
        weights = moved / mass.clamp(min=1e-12)[..., None]
    return weights


def marginal_weight_for(
    support: Tensor,
    class_ids: Tensor,
    query: Tensor,
    *,
    marginal_weight: float,
    least_marginal_weight: float,
    uneven_at: float,
    **weights_settings: float,
) -> float:
    """Return the weight of the marginal entropy that fits this pile, at most `marginal_weight`.

    The least weight is tried first: a larger one would bring about the equal class sizes that are
    asked for. How far its shares are from equal ones, D = KL(shares ‖ equal), is about half the
    squared relative deviation of a class's share; the weight falls with exp(−(D/D₀)²),
    D₀ = `uneven_at`, to `least_marginal_weight` where the pile is clearly uneven.
    """
    if marginal_weight == least_marginal_weight:  # one weight for all piles, or found before
        return marginal_weight
    weights = information_weights(
        support,
        class_ids,
        query,
        marginal_weight=least_marginal_weight,
        **weights_settings,  # type: ignore[arg-type]
    )
    temperature = weights_settings["temperature"]
    shares = torch.softmax(information_scores(query, weights, temperature), 1).mean(0).detach()
    divergence = float(divergence_from_equal(shares))
    fits = math.exp(-((divergence / uneven_at) ** 2))
    return least_marginal_weight + (marginal_weight - least_marginal_weight) * fits


def divergence_from_equal(shares: Tensor) -> Tensor:
    """Return KL(shares ‖ equal) of class shares (…, n_way)."""
    return (shares * (shares * shares.shape[-1]).clamp(min=1e-12).log()).sum(-1)


def information_scores(features: Tensor, weights: Tensor, temperature: float = 15.0) -> Tensor:
    """Return the scores −τ/2·‖z − w_n‖² (n, n_way)."""
    return -temperature / 2 * squared_distances(features, weights)


def descend(
    objective: Callable[[Tensor], Tensor], weights: Tensor, n_iterations: int, rate: float
) -> Tensor:
    """Return the weights after steps of Adam down an objective of them; a given tensor stays."""
    weights = weights.detach().clone().requires_grad_()
    adam = torch.optim.Adam([weights], lr=rate)
    for _ in range(n_iterations):
        adam.zero_grad()
        objective(weights).backward()
        adam.step()
    return weights.detach()


def pulled(targets: Tensor, probs: Tensor, features: Tensor, weights: Tensor) -> Tensor:
    """Return Σ_i t_in z_i + p_in (w_n − z_i) for every class n (…, n_way, width)."""
    return targets.mT @ features + probs.sum(-2)[..., None] * weights - probs.mT @ features
