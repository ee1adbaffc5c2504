"""Algorithm 1 on a source: the meta-training of encoder and PCN, from pretrained weights.

`method.algorithm1` holds the arithmetic of a task, `training.episodes` the loop.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from appl.datasets.packed import PackedImages
from appl.errors import WeightsError
from appl.method.algorithm1 import MetaTrainer, TaskRecord
from appl.method.classifier import PrototypeClassifier
from appl.method.pcn import PCN
from appl.settings.meta_training import MetaTrainSettings
from appl.training.checkpoint import images_digest, origin_of
from appl.training.distributed import ALONE, Processes
from appl.training.episodes import EpisodicTraining, OnEpoch, OnTask, train_on_episodes
from appl.training.validation import EncodedEpisodes, ValidationEpisodes, check_validation_classes
from appl.training.views import encode_views
from appl.weights import Pretrained, class_mean_pcn, weights_digest


class APPLTrainer(MetaTrainer):
    """Algorithm 1's trainer, with validation on classes of the source."""

    record_type: ClassVar[type[Any]] = TaskRecord
    validation: ValidationEpisodes
    _encoded: EncodedEpisodes | None = None

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        """Encoder and PCN."""
        return self.encoder, self.pcn

    def validate(self) -> tuple[float, float]:
        """Return mean and half-width of the accuracy by the PCN's prototypes."""
        encoded = self._encoded or self.validation.encoded(self.encoder)
        if self.settings.keeps_encoder:
            self._encoded = encoded  # once for all validations
        return encoded.prototype_accuracy(self._prototypes)

    def _prototypes(self, support: Tensor, class_ids: Tensor) -> Tensor:
        device = self.pcn.linear.weight.device
        classifier = PrototypeClassifier(self.pcn, class_ids.to(device), self.settings.prototypes)
        scaled = self.settings.feature_scale * support.to(device)
        classifier.group(scaled)
        return classifier.prototypes(scaled).cpu() / self.settings.feature_scale


def train_meta(
    start: Pretrained,
    source: PackedImages,
    train_classes: list[str],
    validation_classes: list[str],
    settings: MetaTrainSettings,
    folder: Path,
    on_task: OnTask = lambda _done, _total, _record: None,
    on_epoch: OnEpoch = lambda _epoch: None,
    processes: Processes = ALONE,
    cache: Path | None = None,
    on_encoded: Callable[[int, int], None] = lambda _done, _total: None,
) -> EpisodicTraining[APPLTrainer]:
    """Train, or go on from the checkpoint in `folder`; keeps `last.pt` and `best.pt` there.

    Where tasks need no images (`settings.learns_from_features`), features of all views are made
    once, in `cache`.
    """
    check_validation_classes(source, validation_classes)
    origin = origin_of(
        "meta",
        start.encoder,
        settings,
        images_digest(source, train_classes, validation_classes),
        start.record,
        processes.n_processes,
    )
    average = processes.average if processes.n_processes > 1 else None
    trainer = APPLTrainer(start.encoder, _first_pcn(start, settings), settings, average)
    trainer.validation = ValidationEpisodes(
        source, validation_classes, settings.n_validation_episodes, settings.n_validation_images
    )
    features = None
    if settings.learns_from_features:
        with processes.first_goes_ahead():
            features = encode_views(
                start.encoder,
                weights_digest(Pretrained(start.encoder, class_mean_pcn(start.encoder))),
                source,
                train_classes,
                settings.n_views,
                cache or folder / "cache",
                on_encoded,
            )
    return train_on_episodes(
        trainer,
        source,
        train_classes,
        settings,
        folder,
        origin,
        processes,
        on_task,
        on_epoch,
        features,
    )


def _first_pcn(start: Pretrained, settings: MetaTrainSettings) -> PCN:
    n_slots = settings.prototypes.n_slots
    if settings.pcn_initialisation == "start":
        if not start.holds_pcn or start.pcn.n_slots != n_slots:
            raise WeightsError(
                f"pcn_initialisation = 'start', but the weights to start from hold no PCN of "
                f"{n_slots} slots; use 'mean' or 'random'"
            )
        pcn = start.pcn
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            pcn = PCN(
                start.encoder.meta.width,
                n_slots,
                settings.pcn_initialisation,
                rectifies=start.encoder.meta.non_negative,
            )
    return pcn.to(start.encoder.device)
