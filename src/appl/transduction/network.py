"""The transductive prototype calculator network: class weights that are learnt over tasks.

The paper's PCN maps a class's supports to its prototype; its free linear map learns the axes of the
source's classes and loses on others. This one takes the supports of all classes and the pile, and
sees them by inner products only, so that it knows no axes: it is the alternating rule of
`appl.core.information`, unrolled, whose numbers (temperatures, weights, step sizes, …) depend on a
task's facts and are learnt over tens of thousands of tasks. Any encoder, width, number of classes
and of examples will do. Untrained it is the fixed rule, some steps further on.

Before that the task's axes of variation are weighed: the vectors' singular values are raised to a
power, also by the facts. Above one, with few examples, the axes along which the pile falls into
groups count more; below one, with many, all axes count more alike.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from appl.core.distances import class_means, squared_distances
from appl.core.information import (
    divergence_from_equal,
    information_scores,
    information_weights,
    pulled,
)
from appl.settings.solving import InformationSettings

FACTS = (
    "one", "shots", "ways", "pile", "within", "between", "gap", "left_out", "margin", "confidence",
    "evenness", "divergence", "agreement", "neighbours", "single", "axes",
)  # fmt: skip
# Numbers of a step, and where they start: those of the fixed rule.
STEP = {
    "temperature": math.log(15.0),
    "support_weight": math.log(3.0),
    "query_weight": 0.0,
    "pull": -3.5,  # logit of the preference for classes of equal size; see `evenness` below
    "certainty": math.log(0.1),
    "neighbours": 0.0,  # weight of what a query's neighbours in the pile are
    "nearness": math.log(12.0),
    "step": 0.0,  # logit of how far class weights move
}
# Of the whole: between class means and fixed rule at the start, between both rules at the end.
ENDS = {"start": 3.0, "trust": 3.0, "temperature": math.log(15.0), "prior": 0.0, "power": 1.0}
N_STEPS = 8
N_HIDDEN = 24
# What a step sees beside the facts: how even and how sure the answer is by now.
BY_NOW = ("evenness", "confidence")
FIXED = InformationSettings()
LEAST_SHARE = 1e-6  # of the largest squared singular value: what is below is rounding


class Found(NamedTuple):
    """What the network finds for tasks; an image x is seen as x·axes, brought to unit length."""

    axes: Tensor  # (…, width, n_axes)
    class_weights: Tensor  # (…, n_way, n_axes)
    biases: Tensor  # (…, n_way)
    temperature: Tensor  # (…)

    def scores(self, images: Tensor) -> Tensor:
        """Return the scores of unit vectors (…, n, width), each by itself (…, n, n_way)."""
        return self.scores_of(F.normalize(images @ self.axes, dim=-1))

    def scores_of(self, seen: Tensor) -> Tensor:
        """Return the same for images that are seen so already (…, n, n_axes)."""
        distances = squared_distances(seen, self.class_weights)
        return -_wide(self.temperature) / 2 * distances + self.biases[..., None, :]


class TransductivePCN(nn.Module):
    """From unit vectors of supports and queries to axes, class weights, biases and τ."""

    def __init__(self, n_steps: int = N_STEPS) -> None:
        super().__init__()
        n_inputs = len(FACTS) + N_HIDDEN
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.hidden = nn.Parameter(0.3 * torch.randn(N_HIDDEN, len(FACTS)))
        self.steps = nn.Parameter(torch.zeros(n_steps, len(STEP), n_inputs + len(BY_NOW)))
        self.ends = nn.Parameter(torch.zeros(len(ENDS), n_inputs))
        with torch.no_grad():
            self.steps[:, :, 0] = torch.tensor(list(STEP.values()))
            self.steps[:, list(STEP).index("pull"), FACTS.index("evenness")] = 3.5
            self.ends[:, 0] = torch.tensor(list(ENDS.values()))

    def forward(
        self, support: Tensor, class_ids: Tensor, query: Tensor, evenness: float | None = None
    ) -> Found:
        """Find class weights for supports (…, n_support, width) and queries (…, n_query, width).

        Class ids are (…, n_support). `evenness` of the pile, 0 to 1, is estimated unless given.
        """
        labels = F.one_hot(class_ids, int(class_ids.max()) + 1).to(support)
        axes, variances = principal_axes(torch.cat([support, query], -2))
        support, query = support @ axes, query @ axes
        facts, even = task_facts(support, class_ids, query, variances, evenness)
        facts = torch.cat([facts, torch.tanh(facts @ self.hidden.mT)], -1)
        start, trust, temperature, prior, power = torch.einsum("nf,...f->n...", self.ends, facts)
        stretch = variances.pow((power[..., None].clamp(0, 3) - 1) / 2)
        support = F.normalize(support * stretch[..., None, :], dim=-1)
        query = F.normalize(query * stretch[..., None, :], dim=-1)
        fixed = fixed_weights(support.detach(), class_ids, query.detach(), even)
        means = class_means(support, class_ids, labels.shape[-1])
        weights = torch.lerp(means, fixed, torch.sigmoid(_wide(start)))
        # Cosines of queries; itself is no neighbour.
        alike = query @ query.mT - 10 * torch.eye(query.shape[-2]).to(query)
        for step in self.steps:
            known = torch.cat([facts, _by_now(query, weights)], -1)
            numbers = torch.einsum("nf,...f->n...", step, known)
            values = dict(zip(STEP, map(_wide, numbers), strict=True))
            weights = _step(support, labels, query, alike, weights, values)
        # Where the task says so, the fixed rule has the last word.
        weights = torch.lerp(fixed, weights, torch.sigmoid(_wide(trust)))
        tau = temperature.clamp(max=5).exp()
        probs = torch.softmax(-_wide(tau) / 2 * squared_distances(query, weights), -1)
        biases = -prior[..., None] * probs.mean(-2).clamp(min=1e-6).log()
        return Found(axes * stretch[..., None, :], weights, biases, tau)


@torch.no_grad()
def _by_now(query: Tensor, weights: Tensor) -> Tensor:
    """Return how even and how sure an answer is (…, 2), at the fixed rule's temperature."""
    probs = torch.softmax(information_scores(query, weights, FIXED.temperature), -1)
    divergence = divergence_from_equal(probs.mean(-2))
    evenness = torch.exp(-((divergence / FIXED.uneven_at) ** 2))
    return torch.stack([evenness, 2 * probs.amax(-1).mean(-1) - 1], -1)


def _step(
    support: Tensor,
    labels: Tensor,
    query: Tensor,
    alike: Tensor,
    weights: Tensor,
    values: dict[str, Tensor],
) -> Tensor:
    """Move class weights as a step of `information_weights` does, with numbers of its own."""
    tau = values["temperature"].clamp(max=5).exp()
    plain = -tau / 2 * squared_distances(query, weights)
    probs = torch.softmax(plain, -1)
    support_probs = torch.softmax(-tau / 2 * squared_distances(support, weights), -1)
    around = torch.softmax(values["nearness"].clamp(max=5).exp() * alike, -1) @ probs
    logits = plain + values["neighbours"] * around.clamp(min=1e-6).log()
    certainty = values["certainty"].clamp(max=3).exp()
    sharpened = (torch.log_softmax(logits, -1) * (1 + certainty)).exp()
    preference = torch.sigmoid(values["pull"])
    q = sharpened / sharpened.sum(-2, keepdim=True).clamp(min=1e-9) ** preference
    q = q / q.sum(-1, keepdim=True).clamp(min=1e-9)
    a = values["support_weight"].clamp(max=5).exp() / (1 + certainty)
    b = values["query_weight"].clamp(max=5).exp() * support.shape[-2] / query.shape[-2]
    moved = a * pulled(labels, support_probs, support, weights)
    moved = moved + b * pulled(q, probs, query, weights)
    mass = a * labels.sum(-2)[..., None] + b * q.sum(-2)[..., None]
    return torch.lerp(weights, moved / mass.clamp(min=1e-9), torch.sigmoid(values["step"]))


@torch.no_grad()
def principal_axes(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the axes of vectors (…, n, width) as (…, width, n_axes), and their variances.

    n_axes is n or the width, whichever is less; axes of no variance are zero.
    """
    n, width = vectors.shape[-2:]
    exact = vectors.double()  # where dimensions are dropped, the solver fails in single precision
    if width <= n:
        variances, axes = torch.linalg.eigh(exact.mT @ exact)
    else:
        variances, sides = torch.linalg.eigh(exact @ exact.mT)
        axes = exact.mT @ sides / variances.clamp(min=1e-12).sqrt()[..., None, :]
    variances = variances / variances.amax(-1, keepdim=True).clamp(min=1e-12)
    is_real = variances > LEAST_SHARE
    axes = axes * is_real[..., None, :]
    return axes.to(vectors), variances.clamp(min=LEAST_SHARE).to(vectors)


@torch.no_grad()
def fixed_weights(support: Tensor, class_ids: Tensor, query: Tensor, evenness: Tensor) -> Tensor:
    """Return the class weights (…, n_way, width) that the fixed rule finds for an evenness (…)."""
    least, most = FIXED.least_marginal_weight, FIXED.marginal_weight
    weight = _wide(least + (most - least) * evenness)
    return _fixed(support, class_ids, query, weight)


def _fixed(support: Tensor, class_ids: Tensor, query: Tensor, weight: float | Tensor) -> Tensor:
    return information_weights(
        support,
        class_ids,
        query,
        n_iterations=FIXED.n_iterations,
        temperature=FIXED.temperature,
        support_weight=FIXED.support_weight,
        conditional_weight=FIXED.conditional_weight,
        marginal_weight=weight,
    )


@torch.no_grad()
def task_facts(
    support: Tensor,
    class_ids: Tensor,
    query: Tensor,
    variances: Tensor,
    evenness: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return what every task shows of itself (…, n_facts), each about as large as one.

    Beside it the evenness of the pile (…), 0 to 1: as given, or as the fixed rule estimates it, by
    an answer with hardly any class prior. `variances` are those of the task's axes.
    """
    n_query = query.shape[-2]
    means = class_means(support, class_ids, int(class_ids.max()) + 1)
    n_way = means.shape[-2]
    first = _fixed(support, class_ids, query, FIXED.least_marginal_weight)
    probs = torch.softmax(information_scores(query, first, FIXED.temperature), -1)
    divergence = divergence_from_equal(probs.mean(-2))
    even = torch.exp(-((divergence / FIXED.uneven_at) ** 2))
    if evenness is not None:
        even = torch.full_like(even, evenness)

    labels = F.one_hot(class_ids, n_way).to(support)
    counts = labels.sum(-2)  # (…, n_way)
    own_counts = (labels @ counts[..., None])[..., 0]  # (…, n_support)
    own = labels @ means
    # A support's class without it: (K·mean − x) / (K − 1).
    rest = (own_counts[..., None] * own - support) / (own_counts - 1).clamp(min=1)[..., None]
    own_distance = (support - rest).square().sum(-1)
    other = (squared_distances(support, means) + 1e3 * labels).amin(-1)
    spared = (own_counts > 1).to(support)
    n_spared = spared.sum(-1).clamp(min=1)
    right = ((own_distance < other).to(support) * spared).sum(-1) / n_spared
    margin = ((other - own_distance) * spared).sum(-1) / n_spared
    any_spared = (spared.sum(-1) > 0).to(support)
    within = (support - own).square().sum(-1).mean(-1)
    between = squared_distances(means, means).sum((-2, -1)) / (n_way * (n_way - 1))
    nearest = (query @ means.mT).topk(2, -1).values
    gap = (nearest[..., 0] - nearest[..., 1]).mean(-1)
    answers = probs.argmax(-1)
    agreement = (squared_distances(query, means).argmin(-1) == answers).to(support).mean(-1)
    alike = query @ query.mT - 10 * torch.eye(n_query).to(query)
    beside = answers.gather(-1, alike.argmax(-1))
    n_axes = variances.sum(-1).square() / variances.square().sum(-1)  # that count, by their share
    one = torch.ones_like(gap)
    facts = [
        one,
        counts.mean(-1).div(5).log(),
        one * math.log(n_way / 5),
        one * math.log(n_query / (15 * n_way)) / 2,
        2 * within - 1,
        2 * between - 1,
        4 * gap - 0.5,
        (2 * right - 1) * any_spared,
        2 * margin * any_spared,
        2 * probs.amax(-1).mean(-1) - 1,
        even,
        (4 * divergence).clamp(max=2),
        2 * agreement - 1,
        2 * (beside == answers).to(support).mean(-1) - 1,
        1 - any_spared,
        n_axes.log() / 2 - 1,
    ]
    return torch.stack(facts, -1), even


def _wide(values: Tensor) -> Tensor:
    """Return per-task values (…) so that they multiply matrices of tasks (…, n, m)."""
    return values[..., None, None]
