"""The encoder while it is adapted to one task: which parameters move, which views it sees.

With the first stages frozen, their activations for every view are computed once, and an iteration
pays for the late stages only. Whole-batch statistics need the whole batch in one pass; with fixed
statistics the batch may be cut into micro-batches, which gives the same gradient exactly.
"""

import math
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor, nn

from appl.core.draws import content_draws
from appl.core.episode import Task
from appl.encoders import CACHE_BATCH, Describer, Encoder
from appl.encoders.batch_statistics import take_task_statistics, use_batch_statistics
from appl.encoders.describing import describe_maps
from appl.encoders.low_rank import add_low_rank, merge_low_rank
from appl.encoders.views import DRAWS_PER_VIEW, PROBES, ViewCache, tolerated_augmentations
from appl.errors import SettingsError
from appl.settings.adaptation import AdaptSettings, ParameterSettings

WARM_UP = 5  # iterations in which the rate rises


class TaskLearner:
    """A copy of an encoder on its way to fit one task (B14: the original stays as it was)."""

    def __init__(
        self, encoder: Encoder, task: Task, settings: AdaptSettings, *, ask_mirror: bool = False
    ) -> None:
        """Copy the encoder and cache what stays fixed.

        `ask_mirror` finds out which augmentations the task tolerates even where no views are made.
        """
        self.encoder = deepcopy(encoder).requires_grad_(False)
        self.settings = settings
        self.notes: list[str] = []
        self.n_query = task.n_query
        self.frozen_stages = _frozen_stages(encoder, settings.parameters)
        self.parameters: list[nn.Parameter] = []
        if settings.n_iterations:
            self.parameters = _moving(self.encoder, self.frozen_stages, settings)
            self.optimiser = _optimiser(self.parameters, settings)
            self._course = torch.optim.lr_scheduler.LambdaLR(
                self.optimiser, partial(_rate_factor, settings=settings)
            )
        self._sizes = [task.n_support, task.n_query]
        batch_norm = settings.parameters.batch_norm
        self._apart = batch_norm == "separate"
        self._whole_batch = batch_norm in ("joint", "separate")
        self._micro_batch = settings.micro_batch
        if self._whole_batch and self._micro_batch:
            self._micro_batch = 0
            self.notes.append(
                f"micro_batch was not used: batch_norm = {batch_norm!r} needs all images "
                "in one pass; use 'task' or 'running' to save memory"
            )

        images = self._images = task.images().to(encoder.device)
        if settings.standardise_images:
            # As released: each image to mean 0 and deviation 1, after the source's normalisation.
            self.encoder.standardise = True
        use_batch_statistics(self.encoder, 0, False)
        # A cached prefix cannot follow each batch, so it takes the task's statistics once.
        if batch_norm == "task" or (self._whole_batch and self.frozen_stages):
            take_task_statistics(self.encoder, images)
        self.augmentations: list[str] = []
        n_views = settings.views.n_views if settings.n_iterations else 1
        if n_views > 1 or ask_mirror:
            support = images[: task.n_support]
            self.augmentations = list(PROBES)
            if settings.views.kinds == "from_task":
                self.augmentations = tolerated_augmentations(
                    self.encoder, support, task.class_ids.to(images.device)
                )
        n_draws = DRAWS_PER_VIEW * (n_views - 1) + settings.n_iterations if n_views > 1 else 0
        self._draws = content_draws(images, n_draws, settings.seed)
        self._cache = ViewCache.fill(
            images,
            lambda view: self.encoder.encode(view, self.frozen_stages),
            n_views=n_views,
            kinds=self.augmentations,
            draws=self._draws,
        )
        use_batch_statistics(self.encoder, self.frozen_stages, self._whole_batch)
        self._changing: list[Tensor] = [*self.parameters]
        if self._whole_batch:
            self._changing += list(self.encoder.buffers())
        self._last_good = [tensor.detach().clone() for tensor in self._changing]
        self._averages = [p.detach().clone() for p in self.parameters if settings.weight_average]
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
    def tolerates_mirroring(self) -> bool:
        """Whether a mirror image is of the same class, as far as the task was asked."""
        return "mirror" in self.augmentations

    def describer(self, *, texture_weight: float, mirrored: bool) -> Describer:
        """Return how images are described by this encoder as it is now."""
        return Describer((self.encoder,), (0,), mirrored, texture_weight)

    def describe(self, *, texture_weight: float, mirrored: bool) -> list[Tensor]:
        """Describe supports, then queries, by what is cached of them: one tensor per kind."""
        describer = self.describer(texture_weight=texture_weight, mirrored=mirrored)
        if self._whole_batch or not 0 < self.frozen_stages <= self.encoder.texture_cut:
            parts: int | list[int] = CACHE_BATCH
            if self._whole_batch:
                parts = self._sizes if self._apart else sum(self._sizes)
            return describer.in_parts(self._images, parts)
        views = [self._cache.clean, *([self._mirror_maps()] if mirrored else [])]
        with_texture = len(describer.weights) > 1
        return describe_maps(self.encoder, views, self.frozen_stages, with_texture=with_texture)

    def _mirror_maps(self) -> Tensor:
        """Return what the frozen stages make of the mirror images, once."""
        if self._mirrors is None:
            self._mirrors = self.encoder.encode(self._images.flip(3), self.frozen_stages)
        return self._mirrors

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
        self._course.step()
        for average, parameter in zip(self._averages, self.parameters, strict=False):
            average.lerp_(parameter.detach(), self.settings.weight_average)
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

    def unmoved(self) -> Encoder:
        """Return a copy of the encoder as it is now."""
        encoder = deepcopy(self.encoder)
        merge_low_rank(encoder)
        return encoder.requires_grad_(False)

    def settle(self) -> None:
        """Make plain weights of what has been learnt; nothing moves after that."""
        merge_low_rank(self.encoder)

    @torch.no_grad()
    def predict_mode(self) -> None:
        """Switch to the weights and statistics that predictions are made with (B11)."""
        for average, parameter in zip(self._averages, self.parameters, strict=False):
            parameter.copy_(average)
        if self.settings.parameters.predict_batch_norm == "running":
            use_batch_statistics(self.encoder, 0, False)

    def _late(self, maps: Tensor, sizes: list[int]) -> Tensor:
        parts = maps.split(sizes) if self._apart and len(maps) == sum(sizes) else [maps]
        runs = [self.encoder.run(part, self.frozen_stages) for part in parts]
        return self.settings.feature_scale * self.encoder.pool(torch.cat(runs))


def _frozen_stages(encoder: Encoder, settings: ParameterSettings) -> int:
    if settings.frozen_stages < 0:
        return encoder.meta.advised_frozen_stages
    if settings.frozen_stages > encoder.meta.max_frozen_stages:
        raise SettingsError(
            f"frozen_stages = {settings.frozen_stages}: {encoder.meta.name} can freeze "
            f"{encoder.meta.max_frozen_stages} of its {encoder.n_stages} stages at most"
        )
    return settings.frozen_stages


def _moving(encoder: Encoder, frozen_stages: int, settings: AdaptSettings) -> list[nn.Parameter]:
    """Mark what learns (B9) and return it."""
    move, rank = settings.parameters.move, settings.parameters.rank
    if move in ("low_rank", "low_rank_attention"):
        chosen = add_low_rank(
            list(encoder.stages[frozen_stages:]),
            rank,
            attention_only=move == "low_rank_attention",
            seed=settings.seed,
        )
    else:
        chosen = encoder.parameters_of(move, frozen_stages)
    for parameter in chosen:
        parameter.requires_grad_()
    if not chosen:
        raise SettingsError(
            f"move = {move!r}: {encoder.meta.name} has nothing of that kind after "
            f"{frozen_stages} frozen stages; use 'all'"
        )
    return chosen


def _rate_factor(iteration: int, settings: AdaptSettings) -> float:
    """Return the factor on η before iteration `iteration` + 1."""
    if settings.rate_decay == "none":
        return 1.0
    warm_up = min(1.0, (iteration + 1) / WARM_UP)
    return warm_up * 0.5 * (1 + math.cos(math.pi * iteration / settings.n_iterations))


def _optimiser(parameters: list[nn.Parameter], settings: AdaptSettings) -> torch.optim.Optimizer:
    if settings.optimiser == "adam":
        return torch.optim.Adam(parameters, lr=settings.learning_rate)
    momentum = 0.9 if settings.optimiser == "momentum" else 0.0
    return torch.optim.SGD(parameters, lr=settings.learning_rate, momentum=momentum)
