"""Algorithm 2: fine-tune the encoder on a target task by self-training, the PCN frozen.

What the text leaves open is a setting (docs/deviations.md).
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor

from appl.core.distances import class_probs, squared_distances
from appl.core.episode import Task
from appl.core.seeds import generator_for
from appl.encoders import Encoder
from appl.method.answer import (
    Answer,
    Described,
    InformedAnswer,
    PrototypeAnswer,
    fit_to_pile,
    weigh_together,
)
from appl.method.calibration import confidence_threshold, distance_scale
from appl.method.classifier import PrototypeClassifier
from appl.method.losses import (
    cohesion_loss,
    cross_entropy_loss,
    select_confident,
    self_training_loss,
    separation_loss,
)
from appl.method.outcome import Adaptation, IterationRecord
from appl.method.pcn import PCN
from appl.method.task_model import TaskModel
from appl.method.wma import MovingAverage
from appl.settings.adaptation import AdaptSettings


def adapt(
    encoder: Encoder,
    pcn: PCN,
    task: Task,
    settings: AdaptSettings,
    on_iteration: Callable[[IterationRecord], None] = lambda _record: None,
) -> Adaptation:
    """Solve `task`, starting from a copy of `encoder`.

    A loss or gradient that is not finite ends the adaptation with the last good state, and
    `termination` says so.
    """
    model = TaskModel(encoder, task, settings)
    class_ids = task.class_ids.to(encoder.pixel_mean.device)
    frozen_pcn = deepcopy(pcn).requires_grad_(False)
    classifier = PrototypeClassifier(frozen_pcn, class_ids, settings.prototypes)
    average = MovingAverage(task.n_query, task.n_way, settings.wma)
    threshold = confidence_threshold(task.n_way, settings)
    weighs_all = settings.predict_from in ("propagation", "information")
    information = settings.information
    informs = "information" in (settings.pseudo_from, settings.predict_from)
    is_open = informs and information.evenness != information.least_evenness
    first: list[Described] = []
    if settings.n_iterations and (is_open or (weighs_all and settings.predict_with == "both")):
        first = model.describe()
    if first and is_open:
        # Once, before the encoder moves: features that learn from pseudo-labels come to agree
        # with whatever pull made them, so asking again would only confirm it.
        settings = _fitted(settings, first, class_ids)
    records: list[IterationRecord] = []
    labels = torch.full((task.n_query,), -1)
    termination = "finished"
    scale = 1.0

    for iteration in range(1, settings.n_iterations + 1):
        rows = _drawn_queries(task.n_query, iteration, settings)
        support, query = model.features(rows)
        if (iteration - 1) % settings.recluster_every == 0:
            classifier.group(support)
        prototypes = classifier.prototypes(support)
        h = squared_distances(query, prototypes)  # eq. hx
        if iteration == 1:
            scale = distance_scale(classifier, support, h, settings)
        h = scale * h

        # h̃ (eq. tildehx) and P̃ (eq. pseudo) contain this iteration's h (B13).
        seen = _pseudo_vectors(model, classifier, (support, query), h, scale, settings, rows)
        if not bool(seen.isfinite().all()):
            termination = f"the distances were not finite at iteration {iteration}"
            break
        h_average = average.update(seen, rows)
        pseudo_probs = class_probs(h_average)

        support_distances = squared_distances(support, prototypes)
        own_distances = support_distances
        if settings.support_loss == "leave_one_out":
            own_distances = classifier.left_out_distances(support, support_distances)
        ce_support = cross_entropy_loss(
            scale * own_distances, class_ids, settings.support_reduction
        )
        ce_query = self_training_loss(
            h,
            pseudo_probs,
            threshold,
            pseudo_labels=settings.pseudo_labels,
            reduction=settings.query_reduction,
        )
        dis = separation_loss(prototypes, settings.separation_pairs)
        coh = cohesion_loss(support_distances, class_ids, settings.cohesion_reduction)
        loss = settings.lambda_dis * dis + settings.lambda_coh * coh  # eq. finetune
        if settings.use_support_loss:
            loss = loss + ce_support
        if settings.use_query_loss and iteration >= settings.query_loss_from:
            loss = loss + ce_query

        if not bool(loss.isfinite()):
            termination = f"the loss was not finite at iteration {iteration}"
            break
        if not model.step(loss):
            termination = f"a gradient was not finite at iteration {iteration}"
            break
        before, labels = labels, labels.clone()
        labels[slice(None) if rows is None else rows] = h_average.detach().argmin(1).cpu()
        balance = torch.bincount(labels[labels >= 0], minlength=task.n_way) / (labels >= 0).sum()
        records.append(
            IterationRecord(
                iteration=iteration,
                alpha=float(average.alpha(iteration)) if settings.wma.use else 1.0,
                loss=loss.item(),
                support_loss=ce_support.item(),
                query_loss=ce_query.item(),
                separation_loss=dis.item(),
                cohesion_loss=coh.item(),
                selected_share=select_confident(pseudo_probs, threshold).float().mean().item(),
                n_label_changes=int(((labels != before) & (before >= 0)).sum()),
                class_balance=tuple(balance.tolist()),
                support_accuracy=(own_distances.argmin(1) == class_ids).float().mean().item(),
                labels=labels,
            )
        )
        on_iteration(records[-1])

    if termination != "finished":
        model.roll_back()
    model.predict_mode()
    support, query = model.clean_features()
    if not bool(support.isfinite().all() and query.isfinite().all()):
        termination = f"the features were not finite after iteration {len(records)}"
        model.roll_back()
        support, query = model.clean_features()
    classifier.group(support)
    prototypes = classifier.prototypes(support)
    h = squared_distances(query, prototypes)
    if not records:
        scale = distance_scale(classifier, support, h, settings)
    scores = -scale * h
    answer: Answer = PrototypeAnswer(prototypes, scale)
    described: list[Described] = []
    if settings.predict_from == "average" and records:
        scores = -average.average().to(scores)
    elif weighs_all:
        described = [*(first if settings.predict_with == "both" else []), *model.describe()]
        if settings.predict_from == "information":
            settings = _fitted(settings, described, class_ids)
            answer = InformedAnswer.fit(described, class_ids, settings.information)
            placed = answer.place([kind.query for kind in described])
            scores = torch.log_softmax(answer.scores(placed), 1)
        else:
            scores = -weigh_together("propagation", described, class_ids, settings.information)
    return Adaptation(
        scores=scores,
        prototypes=prototypes,
        encoder=model.encoder,
        answer=answer,
        described=tuple(described),
        information=settings.information,
        mirrored=model.mirrored,
        records=tuple(records),
        termination=termination,
        changes=tuple(model.changes),
        notes=tuple(model.notes),
    )


def _fitted(
    settings: AdaptSettings, described: list[Described], class_ids: Tensor
) -> AdaptSettings:
    """Return the settings with the pull to equal shares that fits; once found, it stays."""
    information = fit_to_pile(described, class_ids, settings.information)
    return replace(settings, information=information)


def _drawn_queries(n_query: int, iteration: int, settings: AdaptSettings) -> Tensor | None:
    """Draw the queries that an iteration takes; None: all of them."""
    if not 0 < settings.query_batch < n_query:
        return None
    generator = generator_for("queries", settings.seed, iteration)
    return torch.randperm(n_query, generator=generator)[: settings.query_batch].sort().values


def _pseudo_vectors(
    model: TaskModel,
    classifier: PrototypeClassifier,
    features: tuple[Tensor, Tensor],
    h: Tensor,
    scale: float,
    settings: AdaptSettings,
    rows: Tensor | None,
) -> Tensor:
    """Return what the moving average takes in (n_query, n_way): smaller is nearer (B2, B22)."""
    if settings.views.wma_on == "clean" and model.has_views:
        support, query = model.clean_features()
        features = (support, query if rows is None else query[rows])
        h = scale * classifier.distances(*features)
    if settings.detach_pseudo_labels:
        features, h = (features[0].detach(), features[1].detach()), h.detach()
    if settings.pseudo_from == "distances":
        return h
    return weigh_together(
        settings.pseudo_from, [Described(*features)], classifier.class_ids, settings.information
    )
