"""What meta-trained methods share: an episode's features in one batch, the usual loss, a check."""

import torch
import torch.nn.functional as F
from torch import Tensor

from appl.core.episode import Episode, Task
from appl.encoders import Encoder
from appl.errors import SettingsError, TaskError


def task_vectors(encoder: Encoder, task: Task) -> tuple[Tensor, Tensor]:
    """Return the features of supports and queries, with gradients.

    They are one batch, so that a batch norm in training mode sees the whole episode.
    """
    return _parted(encoder(encoder.normalise(task.images())), task)


def task_maps(encoder: Encoder, task: Task) -> tuple[Tensor, Tensor]:
    """Return the maps before pooling (n, width, h, w), as `task_vectors`; never less than fp32."""
    maps = encoder.run(encoder.normalise(task.images()))
    if maps.dim() != 4:
        raise SettingsError(
            f"{encoder.meta.name} gives vectors, this method compares maps; take another encoder"
        )
    return _parted(maps.to(torch.promote_types(maps.dtype, torch.float32)), task)


def task_layers(encoder: Encoder, task: Task, n_layers: int) -> list[tuple[Tensor, Tensor]]:
    """Return the pooled outputs of the last stages, as `task_vectors` for each of them."""
    layers = encoder.layers(encoder.normalise(task.images()), n_layers)
    return [_parted(layer, task) for layer in layers]


def query_cross_entropy(scores: Tensor, query_class_ids: Tensor) -> Tensor:
    """Return the mean cross-entropy of the queries."""
    return F.cross_entropy(scores, query_class_ids.to(scores.device))


def source_classes(episode: Episode, n_source_classes: int) -> Tensor:
    """Return which of the source's classes the task's classes are (n_way,), for a training."""
    if episode.source_ids is None:
        raise TaskError("the episode does not say which classes of the source it holds")
    if int(episode.source_ids.max()) >= n_source_classes:
        raise SettingsError(
            f"the source has more than n_source_classes = {n_source_classes} training classes; "
            "raise it in method_settings"
        )
    return episode.source_ids


def check_n_way(n_way: int, task: Task) -> None:
    """Refuse a task of another number of classes than the head was built for."""
    if task.n_way != n_way:
        raise TaskError(
            f"the head was trained for {n_way} classes, the task has {task.n_way}; "
            f"train one for {task.n_way}"
        )


def _parted(features: Tensor, task: Task) -> tuple[Tensor, Tensor]:
    support, query = features.split([task.n_support, task.n_query])
    return support, query
