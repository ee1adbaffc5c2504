"""Algorithm 1: meta-training on source tasks.

Inner steps fit θ to the supports; an outer step teaches φ to place prototypes where the queries
are. `meta_train` is the whole loop, `MetaTrainer.learn` one task of it; validation and checkpoints
belong to the caller.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from appl.core.distances import squared_distances
from appl.core.episode import Episode, Task
from appl.encoders import Encoder
from appl.encoders.batch_statistics import use_batch_statistics
from appl.method.classifier import PrototypeClassifier
from appl.method.losses import cohesion_loss, cross_entropy_loss, separation_loss
from appl.method.pcn import PCN
from appl.settings.meta_training import MetaTrainSettings


@dataclass(frozen=True)
class TaskRecord:
    """What happened in one task; the losses are unweighted, before the outer step."""

    loss: float
    support_loss: float  # of the last inner step, before it; zero without inner steps
    query_loss: float
    separation_loss: float
    cohesion_loss: float
    query_accuracy: float


class MetaTrainer:
    """θ and φ on their way through the source's tasks; both are updated in place."""

    def __init__(
        self,
        encoder: Encoder,
        pcn: PCN,
        settings: MetaTrainSettings,
        average: Callable[[list[Tensor]], None] | None = None,
    ) -> None:
        """Prepare; `average` replaces tensors by their mean over all trainers that learn together.

        Each of them takes another task of the same outer step, and all keep the same θ and φ.
        """
        self.encoder, self.pcn, self.settings = encoder, pcn, settings
        self.scale = 1 / encoder.meta.width if settings.distance_scale == "width" else 1.0
        self._average = average
        self._first_weights: dict[str, Tensor] = {}
        if settings.encoder_between_tasks == "reset_epoch":
            self._first_weights = deepcopy(encoder.state_dict())
        groups: list[dict[str, Any]] = []
        if settings.trains != "encoder":
            groups.append({"params": list(pcn.parameters()), "lr": settings.outer_rate})
        if settings.trains != "pcn":
            groups.append({"params": list(encoder.parameters()), "lr": settings.encoder_rate})
        # A9: Adam's L2 by the text; decoupled decay otherwise, towards zero or the first weights.
        if settings.decay_form == "adam":
            self.optimiser: torch.optim.Optimizer = torch.optim.Adam(
                groups, weight_decay=settings.weight_decay, fused=True
            )
        else:
            decay = settings.weight_decay if settings.decay_form == "adamw" else 0.0
            self.optimiser = torch.optim.AdamW(groups, weight_decay=decay, fused=True)
        self._anchors: list[Tensor] = []
        if settings.decay_form == "initial":
            self._anchors = [p.detach().clone() for group in groups for p in group["params"]]
        self._set_batch_norm()

    def start_epoch(self) -> None:
        """Take θ back to where training started, if the settings say so (A6).

        Also brings batch norms back into their mode of training, which a validation may change.
        """
        self._set_batch_norm()
        if self.settings.encoder_between_tasks == "reset_epoch":
            self.encoder.load_state_dict(self._first_weights)

    def state(self) -> dict[str, Any]:
        """Return all that a later trainer needs to go on as this one would, not copied."""
        return {
            "encoder": self.encoder.state_dict(),
            "pcn": self.pcn.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "first_weights": self._first_weights,
            "anchors": self._anchors,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Take over what `state` returned."""
        self.encoder.load_state_dict(state["encoder"])
        self.pcn.load_state_dict(state["pcn"])
        self.optimiser.load_state_dict(state["optimiser"])
        self._first_weights = state["first_weights"]
        for anchor, saved in zip(self._anchors, state["anchors"], strict=True):
            anchor.copy_(saved)

    def learn(self, episode: Episode) -> TaskRecord:
        """Take the inner steps on S and one outer step on Q.

        Where the encoder stays as it is (`settings.keeps_encoder`), the episode may hold features
        (n, width) in the place of images: the same step, without encoding them again.
        """
        settings, task = self.settings, episode.task
        class_ids = task.class_ids.to(self.encoder.device)
        query_class_ids = episode.query_class_ids.to(class_ids.device)
        classifier = PrototypeClassifier(self.pcn, class_ids, settings.prototypes)
        resets = settings.encoder_between_tasks == "reset_task" and not settings.keeps_encoder
        before = deepcopy(self.encoder.state_dict()) if resets else {}
        earlier = None
        if settings.outer_prototypes == "before":
            with torch.no_grad():
                earlier, _ = self._features(task, None)

        support_loss, fast_weights = self._inner_steps(task, classifier)

        # The outer loss (eq. train_loss), with prototypes of the encoder just trained (A13).
        support, query = self._features(task, fast_weights)
        support = support if earlier is None else earlier
        classifier.group(support)
        prototypes = classifier.prototypes(support)
        distances = squared_distances(query, prototypes)
        ce = cross_entropy_loss(self.scale * distances, query_class_ids, settings.ce_reduction)
        dis = separation_loss(prototypes, settings.separation_pairs)
        # The box of Algorithm 1 prints λ_coh L_dis here: a slip, eq. train_loss has L_coh (A4).
        coh = cohesion_loss(distances, query_class_ids, settings.cohesion_reduction)
        loss = ce + settings.lambda_dis * dis + settings.lambda_coh * coh
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        if resets:
            self.encoder.load_state_dict(before)
        elif fast_weights is not None:
            detached = {name: weight.detach() for name, weight in fast_weights.items()}
            self.encoder.load_state_dict(detached, strict=False)
        self._agree()
        self.optimiser.step()
        self._decay_towards_start()
        return TaskRecord(
            loss=loss.item(),
            support_loss=support_loss,
            query_loss=ce.item(),
            separation_loss=dis.item(),
            cohesion_loss=coh.item(),
            query_accuracy=episode.accuracy(-distances.detach()),
        )

    def _inner_steps(
        self, task: Task, classifier: PrototypeClassifier
    ) -> tuple[float, dict[str, Tensor] | None]:
        """θ ← θ − γ1 ∇θ L_CE(S), maxiniters times; weights that know φ for the second order."""
        settings = self.settings
        second = settings.derivative == "second"
        weights: dict[str, Tensor] = dict(self.encoder.named_parameters())
        adam = None
        if settings.inner_optimiser == "adam":
            adam = torch.optim.Adam(weights.values(), lr=settings.inner_rate)
        value = 0.0
        for _ in range(settings.inner_steps):
            loss = self._support_loss(task, classifier, weights)
            gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=second)
            value = loss.item()
            if second:
                weights = {
                    name: weight - settings.inner_rate * gradient
                    for (name, weight), gradient in zip(weights.items(), gradients, strict=True)
                }
                continue
            for weight, gradient in zip(weights.values(), gradients, strict=True):
                weight.grad = gradient
            if adam is not None:
                adam.step()
                continue
            with torch.no_grad():
                for weight, gradient in zip(weights.values(), gradients, strict=True):
                    weight -= settings.inner_rate * gradient
        return value, weights if second and settings.inner_steps else None

    def _support_loss(
        self, task: Task, classifier: PrototypeClassifier, weights: dict[str, Tensor]
    ) -> Tensor:
        pixels = self.encoder.normalise(task.support)
        features: Tensor = functional_call(self.encoder, weights, (pixels,))
        support = self.settings.feature_scale * features
        classifier.group(support)
        distances = squared_distances(support, classifier.prototypes(support))
        if self.settings.support_loss == "leave_one_out":
            distances = classifier.left_out_distances(support, distances)
        return cross_entropy_loss(
            self.scale * distances, classifier.class_ids, self.settings.ce_reduction
        )

    def _features(self, task: Task, weights: dict[str, Tensor] | None) -> tuple[Tensor, Tensor]:
        """Encode S and Q with θ or the given weights, in one batch or apart (A12)."""
        scale = self.settings.feature_scale
        if task.support.dim() == 2:
            device = self.encoder.device
            return scale * task.support.to(device), scale * task.query.to(device)
        if weights is None:
            weights = dict(self.encoder.named_parameters())
        if self.settings.trains == "pcn" and self.settings.derivative == "first":
            weights = {name: weight.detach() for name, weight in weights.items()}
        batches = [task.support, task.query]
        if self.settings.batch_norm != "separate":
            batches = [task.images()]
        parts = [
            functional_call(self.encoder, weights, (self.encoder.normalise(batch),))
            for batch in batches
        ]
        support, query = (scale * torch.cat(parts)).split([task.n_support, task.n_query])
        return support, query

    def _set_batch_norm(self) -> None:
        use_batch_statistics(self.encoder, 0, self.settings.batch_norm != "running")

    def _agree(self) -> None:
        """Average the outer gradients, and θ where the task has changed it."""
        if self._average is None:
            return
        parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
        tensors = [p.grad for p in parameters if p.grad is not None]
        settings = self.settings
        changes = settings.inner_steps > 0 or settings.batch_norm != "running"
        if changes and settings.encoder_between_tasks != "reset_task":
            state = self.encoder.state_dict().values()  # weights and running statistics
            tensors += [value for value in state if value.is_floating_point()]
        self._average(tensors)

    @torch.no_grad()
    def _decay_towards_start(self) -> None:
        if self.settings.decay_form != "initial":
            return
        parameters = [
            (p, group["lr"]) for group in self.optimiser.param_groups for p in group["params"]
        ]
        for (parameter, rate), anchor in zip(parameters, self._anchors, strict=True):
            parameter.lerp_(anchor, rate * self.settings.weight_decay)


def meta_train(
    encoder: Encoder,
    pcn: PCN,
    draw_episode: Callable[[int, int], Episode],
    settings: MetaTrainSettings,
    on_task: Callable[[int, TaskRecord], None] = lambda _epoch, _record: None,
) -> None:
    """Meta-train θ and φ in place on the episodes that `draw_episode(epoch, index)` gives."""
    trainer = MetaTrainer(encoder, pcn, settings)
    for epoch in range(settings.n_epochs):
        trainer.start_epoch()
        for index in range(settings.n_tasks):
            on_task(epoch, trainer.learn(draw_episode(epoch, index)))
