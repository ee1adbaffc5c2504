"""How distances become probabilities that mean something, and from where on they count."""

import torch
from torch import Tensor

from appl.core.features import likeliest_scale, pairwise_gap
from appl.method.classifier import PrototypeClassifier
from appl.settings.adaptation import AdaptSettings


def confidence_threshold(n_way: int, settings: AdaptSettings) -> float:
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
    classifier: PrototypeClassifier, support: Tensor, distances: Tensor, settings: AdaptSettings
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
