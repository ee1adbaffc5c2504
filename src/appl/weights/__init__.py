"""The one door to weights: encoder, PCN, preprocessing and provenance, from anywhere."""

from appl.weights.file import Pretrained, class_mean_pcn, load_weights, save_weights
from appl.weights.loading import export_weights, load_file, load_pretrained, weights_digest

__all__ = [
    "Pretrained",
    "class_mean_pcn",
    "export_weights",
    "load_file",
    "load_pretrained",
    "load_weights",
    "save_weights",
    "weights_digest",
]
