"""Classification on the source's training classes: what the encoder starts from (A15).

Every random draw is a function of (seed, epoch, step), and a checkpoint is written at the end of
each epoch, so a run that was killed goes on to the same weights as one that was not.
"""

import io
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from appl.core.distances import class_means, squared_distances
from appl.core.draws import generator_draws
from appl.core.files import write_atomically
from appl.core.images import colour_jitter, random_resized_crop, turn
from appl.core.seeds import generator_for
from appl.datasets.packed import PackedImages
from appl.encoders import Encoder
from appl.errors import WeightsError
from appl.settings.pretraining import PretrainSettings


@dataclass
class Epoch:
    """What is known after an epoch: the history is a list of these."""

    epoch: int
    loss: float
    train_accuracy: float
    validation_accuracy: float
    validation_interval: float
    rate: float


@dataclass
class Pretraining:
    """The state of a run: the encoder, its two heads, the optimiser and the history."""

    encoder: Encoder
    class_head: nn.Linear
    turn_head: nn.Linear
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
) -> Pretraining:
    """Train, or go on from the checkpoint in `folder`; keeps `last.pt` and `best.pt` there."""
    index, class_ids = _training_images(source, train_classes)
    run = _start(encoder, len(train_classes), settings)
    if (folder / "last.pt").exists():
        _restore(run, folder / "last.pt", settings)
    steps_per_epoch = len(index) // settings.batch_size
    n_steps = settings.n_epochs * steps_per_epoch
    for epoch in range(len(run.history), settings.n_epochs):
        run.encoder.train()
        losses, hits = [], 0.0
        for step, (images, targets) in enumerate(
            _batches(source, index, class_ids, epoch, settings)
        ):
            rate = one_cycle(epoch * steps_per_epoch + step, n_steps, settings)
            for group in run.optimiser.param_groups:
                group["lr"] = rate
            loss, accuracy = _step(
                run, images, targets, generator_for(settings.seed, epoch, step), settings
            )
            losses.append(loss)
            hits += accuracy
            on_step(epoch * steps_per_epoch + step + 1, n_steps, loss)
        accuracy, interval = validate(run.encoder, source, validation_classes, settings)
        run.history.append(
            Epoch(
                epoch + 1, sum(losses) / len(losses), hits / len(losses), accuracy, interval, rate
            )
        )
        is_best = accuracy >= max(e.validation_accuracy for e in run.history)
        for name in ["best.pt"] * is_best + ["last.pt"]:
            write_atomically(folder / name, _snapshot(run, settings))
        on_epoch(run.history[-1])
    return run


def one_cycle(step: int, n_steps: int, settings: PretrainSettings) -> float:
    """Return the rate of a step: a straight rise, then half a cosine down to zero."""
    rise = max(1, round(settings.warmup_share * n_steps))
    if step < rise:
        return settings.peak_rate * (step + 1) / rise
    return settings.peak_rate * 0.5 * (1 + math.cos(math.pi * (step - rise) / (n_steps - rise)))


@torch.no_grad()
def validate(
    encoder: Encoder, source: PackedImages, class_names: list[str], settings: PretrainSettings
) -> tuple[float, float]:
    """Return mean and 95 % half-width of ProtoNet's accuracy on 5-way 5-shot episodes, in %."""
    encoder.eval()
    features = torch.stack(
        [
            torch.cat(
                [
                    encoder(encoder.normalise(source.images(part))).cpu()
                    for part in source.members(name)[: settings.n_validation_images].split(100)
                ]
            )
            for name in class_names
        ]
    )  # (class, image, width)
    accuracies = []
    for episode in range(settings.n_validation_episodes):
        generator = generator_for("validation", episode)
        chosen = torch.randperm(len(features), generator=generator)[:5]
        picked = torch.stack(
            [
                features[c][torch.randperm(features.shape[1], generator=generator)[:20]]
                for c in chosen
            ]
        )
        labels = torch.arange(5).repeat_interleave(5)
        prototypes = class_means(picked[:, :5].flatten(0, 1), labels, 5)
        answers = squared_distances(picked[:, 5:].flatten(0, 1), prototypes).argmin(1)
        accuracies.append((answers == torch.arange(5).repeat_interleave(15)).float().mean() * 100)
    values = torch.stack(accuracies)
    return values.mean().item(), (1.96 * values.std(correction=0) / len(values) ** 0.5).item()


def _training_images(source: PackedImages, class_names: list[str]) -> tuple[Tensor, Tensor]:
    members = [source.members(name) for name in class_names]
    class_ids = torch.repeat_interleave(torch.tensor([len(m) for m in members]))
    return torch.cat(members), class_ids


def _start(encoder: Encoder, n_classes: int, settings: PretrainSettings) -> Pretraining:
    torch.manual_seed(settings.seed)
    class_head = nn.Linear(encoder.meta.width, n_classes)
    turn_head = nn.Linear(encoder.meta.width, 4)
    parameters = [p for m in (encoder, class_head, turn_head) for p in m.parameters()]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.SGD(groups, lr=0.0, momentum=settings.momentum, nesterov=True)
    return Pretraining(encoder, class_head, turn_head, optimiser)


def _batches(
    source: PackedImages, index: Tensor, class_ids: Tensor, epoch: int, settings: PretrainSettings
) -> Iterator[tuple[Tensor, Tensor]]:
    order = torch.randperm(len(index), generator=generator_for(settings.seed, "order", epoch))
    for part in order.split(settings.batch_size):
        if len(part) == settings.batch_size:
            yield source.images(index[part]), class_ids[part]


def _step(
    run: Pretraining,
    images: Tensor,
    targets: Tensor,
    generator: torch.Generator,
    settings: PretrainSettings,
) -> tuple[float, float]:
    draws = generator_draws(len(images), generator)
    views = random_resized_crop(
        images.float() / 255, settings.crop_px, draws, scale=(settings.crop_scale_low, 1.0)
    )
    views = colour_jitter(views, settings.jitter, draws)
    quarters = torch.randint(1, 4, (len(views),), generator=generator)
    quarters *= torch.rand(len(views), generator=generator) < settings.rotated_share
    features = run.encoder(run.encoder.normalise(turn(views, quarters)))
    scores = run.class_head(features)
    loss = F.cross_entropy(scores, targets, label_smoothing=settings.label_smoothing)
    if settings.rotation_weight and settings.rotated_share:
        # Telling the turn weighs every kind of turn alike, though most images are upright.
        share = settings.rotated_share
        weight = torch.tensor([0.25 / max(1 - share, 1e-6), *[0.75 / share] * 3])
        turn_loss = F.cross_entropy(run.turn_head(features), quarters, weight)
        loss = loss + settings.rotation_weight * turn_loss
    run.optimiser.zero_grad(set_to_none=True)
    loss.backward()
    run.optimiser.step()
    return loss.item(), (scores.argmax(1) == targets).float().mean().item()


def _snapshot(run: Pretraining, settings: PretrainSettings) -> bytes:
    buffer = io.BytesIO()
    torch.save(
        {
            "settings": asdict(settings),
            "encoder": run.encoder.state_dict(),
            "class_head": run.class_head.state_dict(),
            "turn_head": run.turn_head.state_dict(),
            "optimiser": run.optimiser.state_dict(),
            "history": [asdict(epoch) for epoch in run.history],
        },
        buffer,
    )
    return buffer.getvalue()


def _restore(run: Pretraining, path: Path, settings: PretrainSettings) -> None:
    saved = torch.load(path, weights_only=True)
    if saved["settings"] != asdict(settings):
        raise WeightsError(f"{path} was made with other settings; choose another folder")
    run.encoder.load_state_dict(saved["encoder"])
    run.class_head.load_state_dict(saved["class_head"])
    run.turn_head.load_state_dict(saved["turn_head"])
    run.optimiser.load_state_dict(saved["optimiser"])
    run.history = [Epoch(**epoch) for epoch in saved["history"]]
