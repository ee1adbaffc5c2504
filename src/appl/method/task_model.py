"""The encoder while it is adapted to one task: what is frozen, cached, learnt and rolled back.

With the first stages frozen, their activations for every view are computed once, and an iteration
pays for the late stages only. Whole-batch statistics need the whole batch in one pass; with fixed
statistics the batch may be cut into micro-batches, which gives the same gradient exactly.
"""

from copy import deepcopy

import torch
from torch import Tensor, nn

from appl.core.draws import content_draws
from appl.core.episode import Task
from appl.encoders import CACHE_BATCH, Encoder
from appl.errors import SettingsError
from appl.method.answer import Described
from appl.method.batch_norm import take_task_statistics, use_batch_statistics
from appl.method.describing import describe, describe_views
from appl.method.views import DRAWS_A_VIEW, PROBES, ViewCache, bearable_changes
from appl.settings.adaptation import AdaptSettings


class TaskModel:
    """A copy of an encoder on its way to fit one task (B14: the original stays as it was)."""

    def __init__(self, encoder: Encoder, task: Task, settings: AdaptSettings) -> None:
        self.encoder = deepcopy(encoder)
        self.settings = settings
        self.notes: list[str] = []
        self.frozen_stages = _frozen_stages(encoder, settings)
        self.parameters = _trainable(self.encoder, self.frozen_stages, settings.adapts)
        self.optimiser = _optimiser(self.parameters, settings)
        self._sizes = [task.n_support, task.n_query]
        batch_norm = settings.batch_norm
        self._apart = batch_norm == "separate"
        self._whole_batch = batch_norm in ("joint", "separate")
        self._micro_batch = settings.micro_batch
        if self._whole_batch and self._micro_batch:
            self._micro_batch = 0
            self.notes.append(
                f"micro_batch was not used: batch_norm = {batch_norm!r} needs all images "
                "in one pass; use 'task' or 'running' to save memory"
            )

        images = self._images = task.images().to(encoder.pixel_mean.device)
        if settings.standardise_images:
            # As released: each image to mean 0 and deviation 1, after the source's normalisation.
            self.encoder.standardise = True
        use_batch_statistics(self.encoder, 0, False)
        # A cached prefix cannot follow each batch, so it takes the task's statistics once.
        if batch_norm == "task" or (self._whole_batch and self.frozen_stages):
            take_task_statistics(self.encoder, images)
        self.changes: list[str] = []
        self._answers_mirrored = settings.views.predict_on == "mirrored"
        n_views = settings.views.n_views if settings.n_iterations else 1
        if n_views > 1 or self._answers_mirrored:
            support = images[: task.n_support]
            self.changes = list(PROBES)
            if settings.views.kinds == "from_task":
                self.changes = bearable_changes(
                    self.encoder, support, task.class_ids.to(images.device)
                )
        n_draws = DRAWS_A_VIEW * (n_views - 1) + settings.n_iterations if n_views > 1 else 0
        self._draws = content_draws(images, n_draws, settings.seed)
        self._cache = ViewCache.fill(
            images,
            lambda view: self.encoder.encode(view, self.frozen_stages),
            n_views=n_views,
            kinds=self.changes,
            draws=self._draws,
        )
        use_batch_statistics(self.encoder, self.frozen_stages, self._whole_batch)
        self._changing: list[Tensor] = [*self.parameters]
        if self._whole_batch:
            self._changing += list(self.encoder.buffers())
        self._last_good = [tensor.detach().clone() for tensor in self._changing]
        self._pending: tuple[Tensor, Tensor] | None = None
        self._mirrors: Tensor | None = None

    @property
    def has_views(self) -> bool:
        """Whether an iteration sees other images than the clean ones."""
        return len(self._cache.maps) > 1

    def features(self, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Encode one view of every support and of every query, or of the queries in `rows`.

        Returns support and query features, with gradients.
        """
        maps = self._cache.pick(self._draws)
        sizes = self._sizes
        if rows is not None:
            sizes = [sizes[0], len(rows)]
            maps = torch.cat([maps[: sizes[0]], maps[sizes[0] + rows]])
        if self._micro_batch:
            # Gradients stop at the features here; `step` carries them on, part by part.
            with torch.no_grad():
                features = torch.cat(
                    [self._late(part, sizes) for part in maps.split(self._micro_batch)]
                )
            features.requires_grad_()
            self._pending = (maps, features)
        else:
            features = self._late(maps, sizes)
        support, query = features.split(sizes)
        return support, query

    @torch.no_grad()
    def clean_features(self) -> tuple[Tensor, Tensor]:
        """Encode the clean images, without gradients."""
        maps = self._cache.clean
        parts = maps.split(self._micro_batch or len(maps))
        features = torch.cat([self._late(part, self._sizes) for part in parts])
        support, query = features.split(self._sizes)
        return support, query

    @property
    def mirrored(self) -> bool:
        """Whether answers are made from an image and its mirror image."""
        return self._answers_mirrored and "mirror" in self.changes

    def describe(self) -> list[Described]:
        """Describe the images for an answer: their features, and their texture if it counts."""
        texture_weight = self.settings.texture_weight
        with_texture = texture_weight > 0
        if self._whole_batch or not 0 < self.frozen_stages <= self.encoder.texture_cut:
            parts: int | list[int] = CACHE_BATCH
            if self._whole_batch:
                parts = self._sizes if self._apart else sum(self._sizes)
            kinds = describe(
                self.encoder,
                self._images,
                mirrored=self.mirrored,
                with_texture=with_texture,
                parts=parts,
            )
        else:
            kinds = describe_views(
                self.encoder,
                self._clean_views(),
                with_texture=with_texture,
                start=self.frozen_stages,
            )
        weights = [1.0, texture_weight]
        return [
            Described(*kind.split(self._sizes), weight)  # type: ignore[call-arg]
            for kind, weight in zip(kinds, weights, strict=False)
        ]

    def _clean_views(self) -> list[Tensor]:
        """Return what the frozen stages make of the images and, if it counts, of their mirrors."""
        if not self.mirrored:
            return [self._cache.clean]
        if self._mirrors is None:
            self._mirrors = self.encoder.encode(self._images.flip(3), self.frozen_stages)
        return [self._cache.clean, self._mirrors]

    def step(self, loss: Tensor) -> bool:
        """Take one step down the loss; without one, return False, if a gradient is not finite."""
        self._remember()
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        if self._pending is not None:
            maps, features = self._pending
            assert features.grad is not None
            for part, gradient in zip(
                maps.split(self._micro_batch), features.grad.split(self._micro_batch), strict=True
            ):
                self._late(part, self._sizes).backward(gradient)
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if not bool(torch.nn.utils.get_total_norm(gradients).isfinite()):
            return False
        self.optimiser.step()
        return True

    @torch.no_grad()
    def _remember(self) -> None:
        for good, tensor in zip(self._last_good, self._changing, strict=True):
            good.copy_(tensor)

    @torch.no_grad()
    def roll_back(self) -> None:
        """Return to the state before the last step."""
        for tensor, good in zip(self._changing, self._last_good, strict=True):
            tensor.copy_(good)

    def predict_mode(self) -> None:
        """Switch to the statistics that predictions are made with (B11)."""
        if self.settings.predict_batch_norm == "running":
            use_batch_statistics(self.encoder, 0, False)

    def _late(self, maps: Tensor, sizes: list[int]) -> Tensor:
        if self._apart and len(maps) == sum(sizes):
            runs = [self.encoder.run(part, self.frozen_stages) for part in maps.split(sizes)]
            return self.encoder.pool(torch.cat(runs))
        return self.encoder.pool(self.encoder.run(maps, self.frozen_stages))


def _frozen_stages(encoder: Encoder, settings: AdaptSettings) -> int:
    if settings.frozen_stages < 0:
        return encoder.meta.advised_frozen_stages
    if settings.frozen_stages > encoder.meta.max_frozen_stages:
        raise SettingsError(
            f"frozen_stages = {settings.frozen_stages}: {encoder.meta.name} can freeze "
            f"{encoder.meta.max_frozen_stages} of its {encoder.n_stages} stages at most"
        )
    return settings.frozen_stages


def _trainable(encoder: Encoder, frozen_stages: int, adapts: str) -> list[nn.Parameter]:
    """Mark what learns (B9) and return it."""
    encoder.requires_grad_(False)
    chosen = []
    for stage in encoder.stages[frozen_stages:]:
        for module in stage.modules():
            is_norm = isinstance(module, nn.BatchNorm2d)
            if adapts == "all" or is_norm == (adapts == "batch_norm"):
                chosen += list(module.parameters(recurse=False))
    for parameter in chosen:
        parameter.requires_grad_()
    if not chosen:
        raise SettingsError(
            f"adapts = {adapts!r}: {encoder.meta.name} has nothing of that kind after "
            f"{frozen_stages} frozen stages; use 'all'"
        )
    return chosen


def _optimiser(parameters: list[nn.Parameter], settings: AdaptSettings) -> torch.optim.Optimizer:
    if settings.optimiser == "adam":
        return torch.optim.Adam(parameters, lr=settings.learning_rate)
    momentum = 0.9 if settings.optimiser == "momentum" else 0.0
    return torch.optim.SGD(parameters, lr=settings.learning_rate, momentum=momentum)
