"""Classification on the source's training classes: what the encoder starts from (A15).

Every random draw is a function of (seed, epoch, step), and a checkpoint is written at the end of
each epoch, so a run that was killed goes on to the same weights as one that was not.

Several processes (`training.distributed`) share out every batch: order, crops and colours are
those of one process. What does depend on their number: batch norms see a share of the batch at a
time, telling the turn is weighed within a share, and sums are rounded in another order.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from appl.core.distances import class_means
from appl.core.files import write_atomically
from appl.core.seeds import generator_for
from appl.datasets.packed import PackedImages
from appl.encoders import Encoder
from appl.errors import DataError, SettingsError
from appl.settings.files import to_toml
from appl.settings.pretraining import PretrainSettings
from appl.training.batches import Batch, load_batch
from appl.training.checkpoint import check_origin, images_digest, origin_of
from appl.training.distillation import Teacher
from appl.training.distributed import ALONE, Processes
from appl.training.validation import N_WAY, ValidationEpisodes, check_validation_classes
from appl.weights import Pretrained
from appl.weights.checkpoint import read_checkpoint, write_checkpoint


@dataclass
class Epoch:
    """What is known after an epoch: the history is a list of these."""

    epoch: int
    loss: float
    train_accuracy: float
    validation_accuracy: float
    validation_interval: float
    rate: float
    # Of the training's time, the part spent on making batches; 0 where it was not measured yet.
    loading_share: float = field(default=0.0, compare=False)


@dataclass
class Pretraining:
    """The state of a run: the encoder, its two heads, the optimiser and the history."""

    encoder: Encoder
    class_head: nn.Linear
    turn_head: nn.Linear
    teacher: Teacher | None
    optimiser: torch.optim.SGD
    history: list[Epoch] = field(default_factory=list)


def pretrain(
    encoder: Encoder,
    source: PackedImages,
    train_classes: list[str],
    validation_classes: list[str],
    settings: PretrainSettings,
    folder: Path,
    on_step: Callable[[int, int, float], None] = lambda _step, _total, _loss: None,
    on_epoch: Callable[[Epoch], None] = lambda _epoch: None,
    start: Pretrained | None = None,
    processes: Processes = ALONE,
) -> Pretraining:
    """Train, or go on from the checkpoint in `folder`; keeps `last.pt` and `best.pt` there.

    `start` says where the encoder's weights come from, where they are not fresh.
    """
    index, class_ids = _training_images(source, train_classes, settings)
    check_validation_classes(source, validation_classes)
    processes.check_divides("batch_size", settings.batch_size)
    origin = origin_of(
        "pretrain",
        encoder,
        settings,
        images_digest(source, train_classes, validation_classes),
        start.record if start else None,
        processes.n_processes,
    )
    if settings.distillation_weight and start is None:
        raise SettingsError(
            "distillation_weight: fresh weights cannot teach; give weights to start from (--from), "
            "or set it to 0"
        )
    validation = ValidationEpisodes(
        source, validation_classes, settings.n_validation_episodes, settings.n_validation_images
    )
    run = _start(encoder, len(train_classes), settings)
    if (folder / "last.pt").exists():
        _restore(run, folder / "last.pt", origin, settings)
    processes.wait()  # no process may write before all have looked
    if processes.is_first:
        write_atomically(folder / "settings.toml", to_toml(settings).encode())
    steps_per_epoch = len(index) // settings.batch_size
    n_steps = settings.n_epochs * steps_per_epoch
    for epoch in range(len(run.history), settings.n_epochs):
        run.encoder.train()
        order = torch.randperm(len(index), generator=generator_for(settings.seed, "order", epoch))
        losses, hits, loading_s, began = [], 0.0, 0.0, perf_counter()
        for step, part in enumerate(order.split(settings.batch_size)[:steps_per_epoch]):
            asked = perf_counter()
            generator = generator_for(settings.seed, epoch, step)
            batch = load_batch(source, index[part], class_ids[part], generator, settings, processes)
            loading_s += perf_counter() - asked
            rate = one_cycle(epoch * steps_per_epoch + step, n_steps, settings)
            for group in run.optimiser.param_groups:
                group["lr"] = rate
            loss, accuracy = _step(run, batch, settings, processes)
            losses.append(loss)
            hits += accuracy
            on_step(epoch * steps_per_epoch + step + 1, n_steps, loss)
        loading_share = loading_s / (perf_counter() - began)
        # Gradients are the same everywhere, what the batch norms remember is not.
        processes.average(_running_statistics(run.encoder))
        means = encoder.pixel_mean.new_tensor(
            [sum(losses) / len(losses), hits / len(losses)], dtype=torch.float64
        )
        processes.average([means])
        accuracy, interval = validation.prototype_accuracy(
            run.encoder, partial(class_means, n_way=N_WAY)
        )
        loss, hit_share = means.tolist()
        run.history.append(
            Epoch(epoch + 1, loss, hit_share, accuracy, interval, rate, loading_share)
        )
        if processes.is_first:
            is_best = accuracy >= max(e.validation_accuracy for e in run.history)
            first, *copies = [folder / name for name in ["best.pt"] * is_best + ["last.pt"]]
            write_checkpoint(first, origin | _state(run), *copies)
        on_epoch(run.history[-1])
    processes.check_equal(run.encoder, run.class_head, run.turn_head)
    return run


def one_cycle(step: int, n_steps: int, settings: PretrainSettings) -> float:
    """Return the rate of a step: a straight rise, then half a cosine down to zero."""
    rise = max(1, round(settings.warmup_share * n_steps))
    if step < rise:
        return settings.peak_rate * (step + 1) / rise
    return settings.peak_rate * 0.5 * (1 + math.cos(math.pi * (step - rise) / (n_steps - rise)))


def squared_singular_values(features: Tensor) -> Tensor:
    """Return Σ σ_i² of a batch's features (n, width): what BSR holds down.

    It is the sum of all squared entries; no decomposition is needed.
    """
    return features.square().sum()


def _training_images(
    source: PackedImages, class_names: list[str], settings: PretrainSettings
) -> tuple[Tensor, Tensor]:
    members = [source.members(name) for name in class_names]
    class_ids = torch.repeat_interleave(torch.tensor([len(m) for m in members]))
    if len(class_ids) < settings.batch_size:
        raise DataError(
            f"{len(class_ids)} training images do not fill a batch; "
            f"lower batch_size = {settings.batch_size} or add images"
        )
    return torch.cat(members), class_ids


def _start(encoder: Encoder, n_classes: int, settings: PretrainSettings) -> Pretraining:
    torch.manual_seed(settings.seed)
    device = encoder.device
    class_head = nn.Linear(encoder.meta.width, n_classes).to(device)
    turn_head = nn.Linear(encoder.meta.width, 4).to(device)
    modules: list[nn.Module] = [encoder, class_head, turn_head]
    teacher = None
    if settings.distillation_weight:
        teacher = Teacher(encoder, n_classes).to(device)
        modules.append(teacher)
    parameters = [p for module in modules for p in module.parameters()]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.SGD(groups, lr=0.0, momentum=settings.momentum, nesterov=True)
    return Pretraining(encoder, class_head, turn_head, teacher, optimiser)


def _step(
    run: Pretraining, batch: Batch, settings: PretrainSettings, processes: Processes
) -> tuple[float, float]:
    pixels = run.encoder.normalise(batch.views)
    features = run.encoder(pixels)
    targets = batch.class_ids.to(features.device)
    scores = run.class_head(features)
    loss = F.cross_entropy(scores, targets, label_smoothing=settings.label_smoothing)
    if settings.rotation_weight and settings.rotated_share:
        # Telling the turn weighs every kind of turn alike, though most images are upright.
        share = settings.rotated_share
        weight = features.new_tensor([0.25 / max(1 - share, 1e-6), *[0.75 / share] * 3])
        quarters = batch.quarters.to(features.device)
        turn_loss = F.cross_entropy(run.turn_head(features), quarters, weight)
        loss = loss + settings.rotation_weight * turn_loss
    if settings.spectral_weight:
        loss = loss + settings.spectral_weight * squared_singular_values(features) / len(features)
    if run.teacher is not None:
        head_loss, distance = run.teacher.losses(
            pixels, targets, scores, settings.distillation_temperature
        )
        loss = loss + head_loss + settings.distillation_weight * distance
    run.optimiser.zero_grad(set_to_none=True)
    loss.backward()
    parameters = [p for group in run.optimiser.param_groups for p in group["params"]]
    processes.average([p.grad for p in parameters if p.grad is not None])
    run.optimiser.step()
    return loss.item(), (scores.argmax(1) == targets).float().mean().item()


def _running_statistics(encoder: Encoder) -> list[Tensor]:
    kept = encoder.state_dict()  # without the constants of the metadata
    return [b for name, b in encoder.named_buffers() if name in kept and b.is_floating_point()]


def _state(run: Pretraining) -> dict[str, Any]:
    return {
        **({"teacher": run.teacher.state_dict()} if run.teacher is not None else {}),
        "encoder": run.encoder.state_dict(),
        "class_head": run.class_head.state_dict(),
        "turn_head": run.turn_head.state_dict(),
        "optimiser": run.optimiser.state_dict(),
        "history": [asdict(epoch) for epoch in run.history],
    }


def _restore(
    run: Pretraining, path: Path, origin: dict[str, Any], settings: PretrainSettings
) -> None:
    saved = read_checkpoint(path)
    check_origin(path, saved, origin, settings)
    run.encoder.load_state_dict(saved["encoder"])
    run.class_head.load_state_dict(saved["class_head"])
    run.turn_head.load_state_dict(saved["turn_head"])
    if run.teacher is not None:
        run.teacher.load_state_dict(saved["teacher"])
    run.optimiser.load_state_dict(saved["optimiser"])
    run.history = [Epoch(**epoch) for epoch in saved["history"]]
