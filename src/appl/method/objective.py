"""What Algorithm 2 lowers (eq. finetune), on distances whose scale is chosen once per task."""

from dataclasses import dataclass

import torch
from torch import Tensor

from appl.core.distances import squared_distances
from appl.core.features import likeliest_scale, pairwise_gap
from appl.method.classifier import PrototypeClassifier
from appl.method.losses import (
    cohesion_loss,
    cross_entropy_loss,
    select_confident,
    self_training_loss,
    separation_loss,
)
from appl.settings.adaptation import ObjectiveSettings, PseudoLabelSettings


@dataclass(frozen=True)
class Losses:
    """The parts of the objective, unweighted, and what they add up to."""

    total: Tensor
    support: Tensor
    query: Tensor
    separation: Tensor
    cohesion: Tensor
    selected_share: float  # of the queries, above ε
    support_accuracy: float  # share of the supports nearest to their own prototype


class Objective:
    """L_ft = L_CE(S) + L_CE^tr(Q) + λ_dis L_dis + λ_coh L_coh^ft."""

    def __init__(
        self,
        classifier: PrototypeClassifier,
        settings: ObjectiveSettings,
        pseudo_labels: PseudoLabelSettings,
    ) -> None:
        self.classifier, self.settings, self.pseudo_labels = classifier, settings, pseudo_labels
        self.threshold = confidence_threshold(classifier.n_way, pseudo_labels)

    def __call__(
        self,
        support: Tensor,
        prototypes: Tensor,
        h: Tensor,
        pseudo_probs: Tensor,
        *,
        scale: float,
        iteration: int,
    ) -> Losses:
        """Return the losses of an iteration; `h` are the queries' scaled distances (eq. hx)."""
        settings, class_ids = self.settings, self.classifier.class_ids
        distances = squared_distances(support, prototypes)
        own_distances = distances
        if settings.support_loss == "leave_one_out":
            own_distances = self.classifier.left_out_distances(support, distances)
        ce_support = cross_entropy_loss(
            scale * own_distances, class_ids, settings.support_reduction
        )
        ce_query = self_training_loss(
            h,
            pseudo_probs,
            self.threshold,
            pseudo_labels=self.pseudo_labels.kind,
            reduction=settings.query_reduction,
        )
        dis = separation_loss(prototypes, settings.separation_pairs)
        coh = cohesion_loss(distances, class_ids, settings.cohesion_reduction)
        total = settings.lambda_dis * dis + settings.lambda_coh * coh
        if settings.use_support_loss:
            total = total + ce_support
        if settings.use_query_loss and iteration >= self.pseudo_labels.from_iteration:
            total = total + ce_query
        return Losses(
            total,
            ce_support,
            ce_query,
            dis,
            coh,
            select_confident(pseudo_probs, self.threshold).float().mean().nan_to_num().item(),
            (own_distances.argmin(1) == class_ids).float().mean().item(),
        )


def confidence_threshold(n_way: int, settings: PseudoLabelSettings) -> float:
    """Return ε for this number of classes (B5).

    By way: ε·5/N, as many times chance as with five classes; with fewer than five that would ask
    for certainty and more, so there it is as far from chance to certainty as with five.
    """
    if settings.threshold_rule == "fixed":
        return settings.threshold
    if n_way >= 5:
        return settings.threshold * 5 / n_way
    return 1 - (1 - settings.threshold) * (1 - 1 / n_way) / (1 - 1 / 5)


def distance_scale(
    classifier: PrototypeClassifier, support: Tensor, distances: Tensor, settings: ObjectiveSettings
) -> float:
    """Return the factor on all distances (A19); raw ones of wide features saturate any softmax."""
    if settings.distance_scale == "width":
        return 1 / support.shape[1]
    has_single = bool((torch.bincount(classifier.class_ids) < 2).any())
    # A single example cannot be left out of its class, so there is nothing to calibrate on.
    if settings.distance_scale == "task" or (
        settings.distance_scale == "calibrated" and has_single
    ):
        return settings.gap / max(float(pairwise_gap(distances.detach())), 1e-12)
    if settings.distance_scale == "calibrated":
        own = classifier.distances(support.detach(), support.detach())
        left_out = classifier.left_out_distances(support.detach(), own)
        return likeliest_scale(left_out, classifier.class_ids)
    return 1.0
