"""Algorithm 2: fine-tune the encoder on a target task by self-training, the PCN frozen.

`self_train` is the loop of the paper's box. Its four parts can be exchanged: what it learns from
(the pseudo-labeller), its objective, and, in the learner, which parameters move and how views are
made. What the text leaves open is a setting (docs/deviations.md).
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from appl.core.distances import class_probs, squared_distances
from appl.core.episode import Task
from appl.core.seeds import generator_for
from appl.encoders import Encoder
from appl.method.classifier import PrototypeClassifier, PrototypeRule
from appl.method.learner import TaskLearner
from appl.method.objective import Objective, distance_scale
from appl.method.pcn import PCN
from appl.method.wma import MovingAverage
from appl.settings.adaptation import AdaptSettings

# From features of supports and queries, the queries' distances h and which queries these are (None:
# all) to vectors (n_query, n_way) whose moving average gives the pseudo-labels P̃ = softmax(−h̃).
PseudoLabeller = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]


class Learner(Protocol):
    """What Algorithm 2 trains: it gives the features of a task and takes steps down a loss."""

    n_query: int

    @property
    def has_views(self) -> bool:
        """Whether an iteration sees other images than the unchanged ones."""

    def features(self, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return features of all supports and of the queries in `rows`, with gradients."""

    def clean_features(self) -> tuple[Tensor, Tensor]:
        """Return features of the unchanged images, without gradients."""

    def step(self, loss: Tensor) -> bool:
        """Take one step down the loss; False, and no step, where a gradient is not finite."""

    def roll_back(self) -> None:
        """Return to the state before the last step."""


@dataclass(frozen=True)
class IterationRecord:
    """What happened in one iteration; the losses are those before its step, unweighted."""

    iteration: int
    alpha: float
    loss: float
    support_loss: float
    query_loss: float
    separation_loss: float
    cohesion_loss: float
    selected_share: float  # of the queries, above ε
    n_label_changes: int  # pseudo-labels that differ from the iteration before
    class_balance: tuple[float, ...]  # share of each class among the pseudo-labels
    support_accuracy: float  # share of the supports nearest to their own prototype
    labels: Tensor  # (n_query,) pseudo-labels; −1: no iteration has taken this query yet


OnIteration = Callable[[IterationRecord], None]


@dataclass(frozen=True)
class SelfTraining:
    """What the loop leaves beside the learner's new state."""

    records: tuple[IterationRecord, ...]
    average: MovingAverage
    scale: float  # factor on all distances
    termination: str  # "finished", or why it stopped early


@dataclass(frozen=True)
class Adaptation:
    """The answer to a task, the adapted encoder, and how it came about."""

    scores: Tensor  # (n_query, n_way), higher is better
    rule: PrototypeRule  # the same for images that come later
    encoder: Encoder
    records: tuple[IterationRecord, ...]
    termination: str  # "finished", or why it stopped early
    augmentations: tuple[str, ...]  # that the task tolerates, where it was asked
    notes: tuple[str, ...]

    @property
    def prototypes(self) -> Tensor:
        """The prototypes of the adapted encoder (n_way, width)."""
        return self.rule.prototypes

    @property
    def probs(self) -> Tensor:
        """Class probabilities of the queries (n_query, n_way)."""
        return torch.softmax(self.scores, 1)


def nearest_prototypes(
    _support: Tensor, _query: Tensor, h: Tensor, _rows: Tensor | None = None
) -> Tensor:
    """Label queries by their distances to the prototypes: the paper's own way (eq. hx)."""
    return h


def adapt(
    encoder: Encoder,
    pcn: PCN,
    task: Task,
    settings: AdaptSettings,
    on_iteration: OnIteration = lambda _record: None,
) -> Adaptation:
    """Solve `task` as the paper does, starting from a copy of `encoder`.

    A loss or gradient that is not finite ends the adaptation with the last good state, and
    `termination` says so.
    """
    learner = TaskLearner(encoder, task, settings)
    classifier = task_classifier(encoder, pcn, task, settings)
    run = self_train(learner, classifier, settings, nearest_prototypes, on_iteration)
    return conclude(learner, classifier, settings, run)


def task_classifier(
    encoder: Encoder, pcn: PCN, task: Task, settings: AdaptSettings
) -> PrototypeClassifier:
    """Return the classifier of a task, its PCN a frozen copy on the encoder's device."""
    frozen_pcn = deepcopy(pcn).requires_grad_(False)
    return PrototypeClassifier(frozen_pcn, task.class_ids.to(encoder.device), settings.prototypes)


def self_train(
    learner: Learner,
    classifier: PrototypeClassifier,
    settings: AdaptSettings,
    pseudo_labeller: PseudoLabeller = nearest_prototypes,
    on_iteration: OnIteration = lambda _record: None,
) -> SelfTraining:
    """Run the loop of Algorithm 2: θ ← θ − η ∇θ L_ft, with averaged pseudo-labels."""
    objective = Objective(classifier, settings.objective, settings.pseudo_labels)
    average = MovingAverage(learner.n_query, classifier.n_way, settings.pseudo_labels.wma)
    records: list[IterationRecord] = []
    labels = torch.full((learner.n_query,), -1)
    scale = 1.0

    def stopped(reason: str) -> SelfTraining:
        return SelfTraining(tuple(records), average, scale, reason)

    for iteration in range(1, settings.n_iterations + 1):
        rows = _drawn_queries(learner.n_query, iteration, settings)
        support, query = learner.features(rows)
        if (iteration - 1) % settings.recluster_every == 0:
            classifier.group(support)
        prototypes = classifier.prototypes(support)  # eq. prototypes
        h = squared_distances(query, prototypes)  # eq. hx
        if iteration == 1:
            scale = distance_scale(classifier, support, h, settings.objective)
        h = scale * h

        # h̃ (eq. tildehx) and P̃ (eq. pseudo) contain this iteration's h (B13).
        seen = (support, query, h)
        if settings.pseudo_labels.views == "clean" and learner.has_views:
            seen = _seen_unchanged(learner, classifier, scale, rows)
        if settings.pseudo_labels.detach:
            seen = (seen[0].detach(), seen[1].detach(), seen[2].detach())
        labelled = pseudo_labeller(*seen, rows)
        if not bool(labelled.isfinite().all()):
            return stopped(f"the distances were not finite at iteration {iteration}")
        h_average = average.update(labelled, rows)
        pseudo_probs = class_probs(h_average)

        losses = objective(  # eq. finetune
            support, prototypes, h, pseudo_probs, scale=scale, iteration=iteration
        )
        if not bool(losses.total.isfinite()):
            return stopped(f"the loss was not finite at iteration {iteration}")
        if not learner.step(losses.total):
            return stopped(f"a gradient was not finite at iteration {iteration}")

        before, labels = labels, labels.clone()
        labels[slice(None) if rows is None else rows] = h_average.detach().argmin(1).cpu()
        n_labelled = (labels >= 0).sum().clamp(min=1)
        balance = torch.bincount(labels[labels >= 0], minlength=classifier.n_way) / n_labelled
        wma = settings.pseudo_labels.wma
        records.append(
            IterationRecord(
                iteration=iteration,
                alpha=float(average.alpha(iteration)) if wma.use else 1.0,
                loss=losses.total.item(),
                support_loss=losses.support.item(),
                query_loss=losses.query.item(),
                separation_loss=losses.separation.item(),
                cohesion_loss=losses.cohesion.item(),
                selected_share=losses.selected_share,
                n_label_changes=int(((labels != before) & (before >= 0)).sum()),
                class_balance=tuple(balance.tolist()),
                support_accuracy=losses.support_accuracy,
                labels=labels,
            )
        )
        on_iteration(records[-1])
    return stopped("finished")


@torch.no_grad()
def conclude(
    learner: TaskLearner,
    classifier: PrototypeClassifier,
    settings: AdaptSettings,
    run: SelfTraining,
) -> Adaptation:
    """Answer by the nearest prototype of the last good state (B11, B12)."""
    termination = run.termination
    if termination != "finished":
        learner.roll_back()
    learner.predict_mode()
    support, query = learner.clean_features()
    if not bool(support.isfinite().all() and query.isfinite().all()):
        termination = f"the features were not finite after iteration {len(run.records)}"
        learner.roll_back()
        support, query = learner.clean_features()
    learner.settle()
    classifier.group(support)
    prototypes = classifier.prototypes(support)
    h = squared_distances(query, prototypes)
    scale, s = run.scale, settings.feature_scale
    if not run.records:
        scale = distance_scale(classifier, support, h, settings.objective)
    scores = -scale * h
    if settings.answer == "average" and run.records:
        scores = -run.average.average().to(scores)
    return Adaptation(
        scores=scores,
        # For features as the encoder gives them: d(s·x, p) = s² d(x, p / s).
        rule=PrototypeRule(prototypes / s, scale * s**2),
        encoder=learner.encoder,
        records=run.records,
        termination=termination,
        augmentations=tuple(learner.augmentations),
        notes=tuple(learner.notes),
    )


def _drawn_queries(n_query: int, iteration: int, settings: AdaptSettings) -> Tensor | None:
    """Draw the queries that an iteration takes; None: all of them."""
    if not 0 < settings.query_batch < n_query:
        return None
    generator = generator_for("queries", settings.seed, iteration)
    return torch.randperm(n_query, generator=generator)[: settings.query_batch].sort().values


def _seen_unchanged(
    learner: Learner, classifier: PrototypeClassifier, scale: float, rows: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return supports, queries and distances of the unchanged images (B22)."""
    support, query = learner.clean_features()
    query = query if rows is None else query[rows]
    return support, query, scale * classifier.distances(support, query)
