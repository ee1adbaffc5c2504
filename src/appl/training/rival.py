"""The meta-training of a rival: its method gives scores and a loss, Adam lowers it task by task."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from appl.core.episode import Episode
from appl.core.methods import TaskAugmentation
from appl.core.seeds import generator_for
from appl.datasets.packed import PackedImages
from appl.encoders import Encoder, KeptFeatures, Kind
from appl.errors import SettingsError, WeightsError
from appl.settings.rival_training import RivalTrainSettings
from appl.training.checkpoint import images_digest, origin_of
from appl.training.distributed import ALONE, Processes
from appl.training.episodes import EpisodicTraining, OnEpoch, OnTask, train_on_episodes
from appl.training.noise import FeatureNoise
from appl.training.validation import EncodedEpisodes, ValidationEpisodes, check_validation_classes
from appl.training.views import encode_views
from appl.weights import Pretrained, class_mean_pcn, weights_digest
from appl.weights.checkpoint import read_checkpoint
from appl.weights.file import load_state
from appl.weights.heads import Head, new_head

OnEncoded = Callable[[int, int], None]


@dataclass(frozen=True)
class RivalRecord:
    """What happened in one task, before its step."""

    loss: float
    query_accuracy: float


class RivalTrainer:
    """Encoder and head on their way through the source's tasks; both are updated in place.

    With `kept` the encoder stays as it is, and tasks hold features in the place of images.
    """

    record_type: ClassVar[type[Any]] = RivalRecord

    def __init__(
        self,
        encoder: Encoder,
        head: Head,
        settings: RivalTrainSettings,
        validation: ValidationEpisodes | EncodedEpisodes,
        processes: Processes = ALONE,
        kept: KeptFeatures | None = None,
    ) -> None:
        self.encoder, self.head, self.settings = encoder, head, settings
        self._validation, self._processes = validation, processes
        self._seen: Any = kept or encoder  # what the method is handed as its encoder
        self._augmentation: TaskAugmentation | None
        groups: list[dict[str, Any]] = []
        if kept is None:
            groups.append({"params": list(encoder.parameters()), "lr": settings.encoder_rate})
            self._augmentation = getattr(head.method, "task_augmentation", None)
        else:
            # Noise in the encoder and steps on pixels have no place here; they come afterwards.
            first = settings.heads_first
            self._augmentation = FeatureNoise(first.noise, first.dropout)
        if list(head.module.parameters()):
            groups.append({"params": list(head.module.parameters()), "lr": settings.head_rate})
        self._parameters = [p for group in groups for p in group["params"]]
        self._rates = [group["lr"] for group in groups]
        self.optimiser = torch.optim.Adam(groups)
        self._n_learnt = 0

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        """Encoder, or what stands in for it, and head."""
        return self._seen, self.head.module

    def start_epoch(self) -> None:
        """Batch norms follow the batch while a rival learns, as in the field's code."""
        for module in self.modules:
            module.train().requires_grad_()

    def learn(self, episode: Episode) -> RivalRecord:
        """Add a task's gradients, and take a step after every few tasks."""
        if self._n_learnt % self.settings.tasks_a_step == 0:
            self.optimiser.zero_grad(set_to_none=True)
        with self._augmented(episode) as learnt:
            found = self.head.training_loss(self._seen, learnt)
        found.loss.backward()
        self._n_learnt += 1
        if self._n_learnt % self.settings.tasks_a_step == 0:
            self._processes.average([p.grad for p in self._parameters if p.grad is not None])
            self._set_rates()
            self.optimiser.step()
            self._processes.average(
                [b for module in self.modules for b in module.buffers() if b.is_floating_point()]
            )
        return RivalRecord(found.loss.item(), episode.accuracy(found.scores.detach()))

    @torch.no_grad()
    def validate(self) -> tuple[float, float]:
        """Return mean and half-width of the accuracy in %, scored as a benchmark would."""
        for module in self.modules:
            module.eval()
        return self._validation.accuracy(lambda task: self.head.answer(self._seen, task))

    def state(self) -> dict[str, Any]:
        """Return all that a later trainer needs to go on as this one would, not copied."""
        return {
            "encoder": self.encoder.state_dict(),
            "head": self.head.module.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "n_learnt": self._n_learnt,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Take over what `state` returned."""
        self.encoder.load_state_dict(state["encoder"])
        self.head.module.load_state_dict(state["head"])
        self.optimiser.load_state_dict(state["optimiser"])
        self._n_learnt = state["n_learnt"]

    def _augmented(self, episode: Episode) -> AbstractContextManager[Episode]:
        """Make of the task what the method's row learns from (FWT, ATA); most learn it as it is."""
        augmentation = self._augmentation
        if augmentation is None:
            return nullcontext(episode)
        parts = (augmentation.name, self.settings.seed, self._processes.rank, self._n_learnt)
        return augmentation.augmented(
            self._seen,
            self.head.module,
            lambda task: self.head.training_loss(self._seen, task).loss,
            episode,
            generator_for(*parts),
        )

    def _set_rates(self) -> None:
        settings = self.settings
        n_tasks = settings.n_epochs * settings.n_tasks / self._processes.n_processes
        done = (self._n_learnt - 1) / max(n_tasks, 1)
        factor = 0.5 * (1 + math.cos(math.pi * done)) if settings.rate_decay == "cosine" else 1.0
        for group, rate in zip(self.optimiser.param_groups, self._rates, strict=True):
            group["lr"] = factor * rate


def train_rival(
    start: Pretrained,
    source: PackedImages,
    train_classes: list[str],
    validation_classes: list[str],
    settings: RivalTrainSettings,
    folder: Path,
    on_task: OnTask = lambda _done, _total, _record: None,
    on_epoch: OnEpoch = lambda _epoch: None,
    processes: Processes = ALONE,
    cache: Path | None = None,
    on_encoded: OnEncoded = lambda _done, _total: None,
) -> EpisodicTraining[RivalTrainer]:
    """Train, or go on from the checkpoint in `folder`; keeps `last.pt` and `best.pt` there.

    Where the settings say so the head learns first, alone, in `folder/heads`, on features that are
    kept in `cache`; the training goes on from its best state, and keeps its history beside its own.
    """
    check_validation_classes(source, validation_classes)
    if settings.n_tasks % (settings.tasks_a_step * processes.n_processes):
        raise SettingsError(
            f"n_tasks = {settings.n_tasks} is no multiple of the {settings.tasks_a_step} tasks of "
            f"a step in {processes.n_processes} process(es); change one of them"
        )
    origin = origin_of(
        f"meta --method {settings.method}",
        start.encoder,
        settings,
        images_digest(source, train_classes, validation_classes),
        start.record,
        processes.n_processes,
    )
    head = new_head(
        settings.method, settings.method_settings, settings.n_way, settings.seed, start.encoder
    )
    if settings.head_initialisation == "start":
        if start.head is None:
            raise WeightsError(
                "head_initialisation = 'start', but the weights to start from hold no head; "
                "use 'fresh'"
            )
        complaint = f"the head of {start.head.name} does not fit {settings.method}"
        load_state(head.module, start.head.module.state_dict(), complaint)
    if processes.n_processes > 1 and any(b.dtype == torch.bool for b in head.module.buffers()):
        raise SettingsError(
            f"{head.name} keeps a memory of classes, and several processes would each have their "
            "own; train it in one"
        )
    validation = ValidationEpisodes(
        source,
        validation_classes,
        settings.n_validation_episodes,
        settings.n_validation_images,
        settings.n_way,
        settings.n_shot,
    )
    run = partial(
        train_on_episodes,
        source=source,
        class_names=train_classes,
        processes=processes,
        on_task=on_task,
        on_epoch=on_epoch,
    )
    if settings.heads_first.n_epochs:
        phase, place = settings.head_phase, folder / "heads"
        kind = _kind_of(head)
        if not (folder / "last.pt").exists():
            encoder = start.encoder.eval()
            digest = weights_digest(Pretrained(encoder, class_mean_pcn(encoder)))
            with processes.first_goes_ahead():
                features = encode_views(
                    encoder,
                    digest,
                    source,
                    train_classes,
                    phase.n_views,
                    cache or folder / "cache",
                    on_encoded,
                    kind,
                    settings.heads_first.shifted_share,
                )
            encoded = validation.encoded(encoder, kind)
            kept = KeptFeatures(encoder, kind)
            run(
                RivalTrainer(encoder, head, phase, encoded, processes, kept),
                settings=phase,
                folder=place,
                origin=origin | {"settings": asdict(phase)},
                features=features,
                patience=phase.patience,
            )
        best, last = (read_checkpoint(place / name) for name in ("best.pt", "last.pt"))
        head.module.load_state_dict(best["head"])
        origin["head_history"] = last["history"]
    trainer = RivalTrainer(start.encoder, head, settings, validation, processes)
    return run(trainer, settings=settings, folder=folder, origin=origin, patience=settings.patience)


def _kind_of(head: Head) -> Kind:
    """Return which features a head can learn on while its encoder stays as it is."""
    needs = head.method.card.needs
    if needs == "weights":
        raise SettingsError(
            f"{head.name} changes the encoder's weights and cannot learn on kept features; "
            "set heads_first.n_epochs = 0"
        )
    if not list(head.module.parameters()):
        raise SettingsError(
            f"{head.name} has no head of its own to train first; set heads_first.n_epochs = 0"
        )
    return needs
