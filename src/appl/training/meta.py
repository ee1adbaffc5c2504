"""Algorithm 1 on a source: the meta-training of encoder and PCN, from pretrained weights.

`method.meta_training` holds the arithmetic of a task; here are tasks, validation and checkpoints.
A task and its augmentation are functions of (seed, epoch, index), and a checkpoint is written
after each epoch, so a run that was killed goes on to the same weights as one that was not.

Several processes (`training.distributed`) take different tasks of the same outer step, so an
epoch of n_tasks has n_tasks / n_processes outer steps. The tasks are those of one process; the
number of steps, and with it the result, is not.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from appl.core.draws import generator_draws
from appl.core.episode import Episode, Task
from appl.core.files import write_atomically
from appl.core.images import colour_jitter, random_resized_crop
from appl.core.seeds import generator_for
from appl.datasets.episodes import draw_episode
from appl.datasets.packed import PackedImages
from appl.errors import WeightsError
from appl.method.classifier import PrototypeClassifier
from appl.method.meta_training import MetaTrainer, TaskRecord
from appl.method.pcn import PCN
from appl.settings.files import to_toml
from appl.settings.meta_training import MetaTrainSettings
from appl.training.checkpoint import (
    check_origin,
    images_digest,
    origin_of,
    read_checkpoint,
    write_checkpoint,
)
from appl.training.distributed import ALONE, Processes
from appl.training.start import Start
from appl.training.validation import check_validation_classes, validate

# A17: the benchmark's strength of colours. Its crops go down to 8 % of the area; pretraining's
# 20 % keep the object of a small image in view.
JITTER, CROP_SCALE = 0.4, (0.2, 1.0)


@dataclass
class MetaEpoch:
    """What is known after an epoch; epoch 0 is the validation before the first task."""

    epoch: int
    validation_accuracy: float
    validation_interval: float
    tasks: TaskRecord | None = None  # means over the epoch's tasks
    loading_share: float = field(default=0.0, compare=False)


@dataclass
class MetaTraining:
    """The state of a run: encoder, PCN and optimiser inside the trainer, and the history."""

    trainer: MetaTrainer
    history: list[MetaEpoch] = field(default_factory=list)


def train_meta(
    start: Start,
    source: PackedImages,
    train_classes: list[str],
    validation_classes: list[str],
    settings: MetaTrainSettings,
    folder: Path,
    on_task: Callable[[int, int, TaskRecord], None] = lambda _done, _total, _record: None,
    on_epoch: Callable[[MetaEpoch], None] = lambda _epoch: None,
    processes: Processes = ALONE,
) -> MetaTraining:
    """Train, or go on from the checkpoint in `folder`; keeps `last.pt` and `best.pt` there."""
    check_validation_classes(source, validation_classes)
    processes.check_divides("n_tasks", settings.n_tasks)
    origin = origin_of(
        "meta",
        start.encoder,
        settings,
        images_digest(source, train_classes, validation_classes),
        start.record,
        processes.n_processes,
    )
    run = _start(start, settings, processes)
    if (folder / "last.pt").exists():
        _restore(run, folder / "last.pt", origin, settings)
    processes.wait()  # no process may write before all have looked
    if processes.is_first:
        write_atomically(folder / "settings.toml", to_toml(settings).encode())
    for epoch in range(len(run.history), settings.n_epochs + 1):
        records: list[TaskRecord] = []
        loading_s, began = 0.0, perf_counter()
        if epoch > 0:
            run.trainer.start_epoch()
            for index in range(processes.rank, settings.n_tasks, processes.n_processes):
                asked = perf_counter()
                episode = draw_task(source, train_classes, settings, epoch, index)
                loading_s += perf_counter() - asked
                records.append(run.trainer.learn(episode))
                done = (epoch - 1) * settings.n_tasks + index - processes.rank
                total = settings.n_epochs * settings.n_tasks
                on_task(done + processes.n_processes, total, records[-1])
        loading_share = loading_s / max(perf_counter() - began, 1e-9)
        accuracy, interval = validate(
            run.trainer.encoder,
            source,
            validation_classes,
            _prototypes_of(run.trainer.pcn, settings),
            n_episodes=settings.n_validation_episodes,
            n_images=settings.n_validation_images,
        )
        tasks = _mean_record(records, run.trainer.pcn, processes) if records else None
        run.history.append(MetaEpoch(epoch, accuracy, interval, tasks, loading_share))
        if processes.is_first:
            is_best = accuracy >= max(e.validation_accuracy for e in run.history)
            for name in ["best.pt"] * is_best + ["last.pt"]:
                history = {"history": [asdict(e) for e in run.history]}
                write_checkpoint(folder / name, origin | run.trainer.state() | history)
        on_epoch(run.history[-1])
    processes.check_equal(run.trainer.encoder, run.trainer.pcn)
    return run


def draw_task(
    source: PackedImages,
    class_names: list[str],
    settings: MetaTrainSettings,
    epoch: int,
    index: int,
) -> Episode:
    """Return task number `index` of an epoch (from 1), augmented if the settings say so (A17)."""
    episode = draw_episode(
        source,
        class_names,
        n_way=settings.n_way,
        n_shot=settings.n_shot,
        n_query=settings.n_query,
        seed=settings.seed,
        index=(epoch - 1) * settings.n_tasks + index,
    ).load(source)
    if not settings.augment:
        return episode
    task = episode.task
    images = task.images()
    draws = generator_draws(len(images), generator_for(settings.seed, "augment", epoch, index))
    views = random_resized_crop(images, images.shape[-1], draws, scale=CROP_SCALE)
    views = colour_jitter(views, JITTER, draws)
    support, query = views.split([task.n_support, task.n_query])
    return Episode(Task(support, task.class_ids, query), episode.query_class_ids)


def _start(start: Start, settings: MetaTrainSettings, processes: Processes) -> MetaTraining:
    n_slots = settings.prototypes.n_slots
    if settings.pcn_initialisation == "start":
        if start.pcn is None or start.pcn.n_slots != n_slots:
            raise WeightsError(
                f"pcn_initialisation = 'start', but the weights to start from hold no PCN of "
                f"{n_slots} slots; use 'mean' or 'random'"
            )
        pcn = start.pcn
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            pcn = PCN(start.encoder.meta.width, n_slots, settings.pcn_initialisation)
    pcn.to(start.encoder.pixel_mean.device)
    average = processes.average if processes.n_processes > 1 else None
    return MetaTraining(MetaTrainer(start.encoder, pcn, settings, average))


def _prototypes_of(pcn: PCN, settings: MetaTrainSettings) -> Callable[[Tensor, Tensor], Tensor]:
    device = pcn.linear.weight.device

    def prototypes(support: Tensor, class_ids: Tensor) -> Tensor:
        classifier = PrototypeClassifier(pcn, class_ids.to(device), settings.prototypes)
        classifier.group(support.to(device))
        return classifier.prototypes(support.to(device)).cpu()

    return prototypes


def _mean_record(records: list[TaskRecord], pcn: PCN, processes: Processes) -> TaskRecord:
    names = [item.name for item in fields(TaskRecord)]
    rows = [[getattr(record, name) for name in names] for record in records]
    means = torch.tensor(rows, dtype=torch.float64).mean(0).to(pcn.linear.weight.device)
    processes.average([means])
    return TaskRecord(**dict(zip(names, means.tolist(), strict=True)))


def _restore(
    run: MetaTraining, path: Path, origin: dict[str, Any], settings: MetaTrainSettings
) -> None:
    saved = read_checkpoint(path)
    check_origin(path, saved, origin, settings)
    run.trainer.load_state(saved)
    for epoch in saved["history"]:
        tasks = TaskRecord(**epoch["tasks"]) if epoch["tasks"] else None
        run.history.append(MetaEpoch(**(epoch | {"tasks": tasks})))
