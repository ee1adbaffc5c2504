"""Training on episodes of the source: one loop for APPL and for every meta-trained rival.

A trainer contributes what is learnt from a task and how it is validated; tasks, checkpoints and
resuming are here. A task and its augmentation are functions of (seed, epoch, index), and a
checkpoint is written after each epoch, so a run that was killed goes on to the same weights as one
that was not.

Several processes (`training.distributed`) take different tasks of the same step, so an epoch of
n_tasks has n_tasks / n_processes of them. The tasks are those of one process; the number of steps,
and with it the result, is not.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import torch
from torch import nn

from appl.core.draws import generator_draws
from appl.core.episode import Episode, Task
from appl.core.files import write_atomically
from appl.core.seeds import generator_for
from appl.datasets.episodes import draw_episode
from appl.datasets.packed import PackedImages
from appl.encoders import Encoder
from appl.settings.files import to_toml
from appl.training.checkpoint import check_origin
from appl.training.distributed import Processes
from appl.training.views import ViewFeatures, augment, views_of
from appl.weights.checkpoint import read_checkpoint, write_checkpoint


class Record(Protocol):
    """What happened in one task: a dataclass of numbers."""

    loss: float
    query_accuracy: float


class Trainer(Protocol):
    """What learns, task by task."""

    record_type: ClassVar[type[Any]]
    encoder: Encoder

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        """All that is trained, or stands beside it."""

    def start_epoch(self) -> None:
        """Prepare for the tasks of an epoch."""

    def learn(self, episode: Episode) -> Any:
        """Take a step on one task; return its record."""

    def validate(self) -> tuple[float, float]:
        """Return mean and 95 % half-width of the accuracy in % on the validation classes."""

    def state(self) -> dict[str, Any]:
        """Return all that a later trainer needs to go on as this one would, not copied."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Take over what `state` returned."""


class EpisodeSettings(Protocol):
    """What the loop must know of a training's settings."""

    n_way: int
    n_shot: int
    n_query: int
    n_epochs: int
    n_tasks: int
    augment: bool
    n_views: int
    validate_every: int
    seed: int


T = TypeVar("T", bound=Trainer)


@dataclass
class TrainedEpoch:
    """What is known at a validation; epoch 0 is the one before the first task."""

    epoch: int
    validation_accuracy: float
    validation_interval: float
    tasks: Any = None  # means over the tasks since the last one, a trainer's record
    loading_share: float = field(default=0.0, compare=False)


@dataclass
class EpisodicTraining(Generic[T]):
    """The state of a run: modules and optimiser inside the trainer, and the history."""

    trainer: T
    history: list[TrainedEpoch] = field(default_factory=list)


OnTask = Callable[[int, int, Any], None]
OnEpoch = Callable[[TrainedEpoch], None]


def train_on_episodes(
    trainer: T,
    source: PackedImages,
    class_names: list[str],
    settings: Any,
    folder: Path,
    origin: dict[str, Any],
    processes: Processes,
    on_task: OnTask,
    on_epoch: OnEpoch,
    features: ViewFeatures | None = None,
    patience: int = 0,
) -> EpisodicTraining[T]:
    """Train, or go on from the checkpoint in `folder`; keeps `last.pt` and `best.pt` there.

    With the features of all views, tasks hold these in the place of images. After `patience` tasks
    without a rise of validation the training ends (0: never).
    """
    processes.check_divides("n_tasks", settings.n_tasks)
    run = EpisodicTraining(trainer)
    if (folder / "last.pt").exists():
        _restore(run, folder / "last.pt", origin, settings)
    processes.wait()  # no process may write before all have looked
    if processes.is_first:
        write_atomically(folder / "settings.toml", to_toml(settings).encode())
    records: list[Any] = []
    loading_s, began = 0.0, perf_counter()
    first = run.history[-1].epoch + 1 if run.history else 0
    for epoch in range(first, settings.n_epochs + 1):
        if patience and n_tasks_since_best(run.history, settings.n_tasks) >= patience:
            break
        if epoch > 0:
            trainer.start_epoch()
            for index in range(processes.rank, settings.n_tasks, processes.n_processes):
                asked = perf_counter()
                episode = draw_task(source, class_names, settings, epoch, index, features)
                loading_s += perf_counter() - asked
                records.append(trainer.learn(episode))
                done = (epoch - 1) * settings.n_tasks + index - processes.rank
                total = settings.n_epochs * settings.n_tasks
                on_task(done + processes.n_processes, total, records[-1])
        if epoch % settings.validate_every and epoch < settings.n_epochs:
            continue
        loading_share = loading_s / max(perf_counter() - began, 1e-9)
        accuracy, interval = trainer.validate()
        tasks = _mean_record(records, trainer, processes) if records else None
        run.history.append(TrainedEpoch(epoch, accuracy, interval, tasks, loading_share))
        if processes.is_first:
            is_best = accuracy >= max(e.validation_accuracy for e in run.history)
            path, *copies = [folder / name for name in ["best.pt"] * is_best + ["last.pt"]]
            history = {"history": [asdict(e) for e in run.history]}
            write_checkpoint(path, origin | trainer.state() | history, *copies)
        on_epoch(run.history[-1])
        records, loading_s, began = [], 0.0, perf_counter()
    processes.check_equal(*trainer.modules)
    return run


def n_tasks_since_best(history: list[TrainedEpoch], n_tasks: int) -> int:
    """Return how many tasks were learnt after the validation that none has exceeded yet."""
    if not history:
        return 0
    best = max(history, key=lambda epoch: epoch.validation_accuracy)  # the first of equals
    return (history[-1].epoch - best.epoch) * n_tasks


def draw_task(
    source: PackedImages,
    class_names: list[str],
    settings: EpisodeSettings,
    epoch: int,
    index: int,
    features: ViewFeatures | None = None,
) -> Episode:
    """Return task number `index` of an epoch (from 1), augmented if the settings say so (A17).

    With `features` the task holds these in the place of its images.
    """
    draw = draw_episode(
        source,
        class_names,
        n_way=settings.n_way,
        n_shot=settings.n_shot,
        n_query=settings.n_query,
        seed=settings.seed,
        index=(epoch - 1) * settings.n_tasks + index,
    )
    place = (settings.seed, "augment", epoch, index)
    images = torch.cat([draw.support, draw.query])
    if features is not None:
        seen = features.of_task(images, settings.n_views, generator_for(*place))
    elif settings.n_views:
        view = torch.randint(settings.n_views, images.shape, generator=generator_for(*place))
        seen = views_of(source, images, view)
    elif settings.augment:
        draws = generator_draws(len(images), generator_for(*place))
        seen = augment(source.images(images).float() / 255, draws)
    else:
        seen = source.images(images)
    support, query = seen.split([len(draw.support), len(draw.query)])
    # Classes count from 0 in the order of the supports.
    first = [int((draw.class_ids == c).nonzero()[0]) for c in range(settings.n_way)]
    names = [source.class_names[i] for i in source.class_ids[draw.support[first]].tolist()]
    source_ids = torch.tensor([class_names.index(name) for name in names])
    return Episode(Task(support, draw.class_ids, query), draw.query_class_ids, source_ids)


def _mean_record(records: list[Any], trainer: Trainer, processes: Processes) -> Any:
    names = [item.name for item in fields(trainer.record_type)]
    rows = [[getattr(record, name) for name in names] for record in records]
    means = torch.tensor(rows, dtype=torch.float64).mean(0).to(trainer.encoder.device)
    processes.average([means])
    return trainer.record_type(**dict(zip(names, means.tolist(), strict=True)))


def _restore(run: EpisodicTraining[T], path: Path, origin: dict[str, Any], settings: Any) -> None:
    saved = read_checkpoint(path)
    check_origin(path, saved, origin, settings)
    run.trainer.load_state(saved)
    for epoch in saved["history"]:
        tasks = run.trainer.record_type(**epoch["tasks"]) if epoch["tasks"] else None
        run.history.append(TrainedEpoch(**(epoch | {"tasks": tasks})))
