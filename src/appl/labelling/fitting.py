"""From examples and a pile to a model: adapt, look at the record, calibrate, set thresholds."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from appl.core.distances import squared_distances
from appl.core.episode import Task
from appl.core.features import directions
from appl.core.seeds import generator_for
from appl.encoders import Encoder
from appl.errors import SettingsError
from appl.labelling.confidence import fit_acceptance, fit_temperature
from appl.labelling.cross_fitting import cross_fitted
from appl.labelling.left_out import LeftOut, how_far, leave_out
from appl.labelling.model import LabelModel
from appl.labelling.novelty import Novelty
from appl.labelling.safety import collapse_reasons, worse_than_frozen
from appl.method.adaptation import adapt
from appl.method.answer import Answer, Described, InformedAnswer, PrototypeAnswer
from appl.method.batch_norm import take_task_statistics, use_batch_statistics
from appl.method.calibration import distance_scale
from appl.method.classifier import PrototypeClassifier
from appl.method.describing import describe
from appl.method.outcome import Adaptation, IterationRecord
from appl.method.pcn import PCN
from appl.settings.adaptation import AdaptSettings
from appl.settings.labelling import LabelSettings

WHOLE_BATCH = 400  # images of an iteration that go through the encoder at once
IMAGES_A_CLASS = 15  # of the pile, where encoders are adapted only to judge examples by them
SURE_ELSEWHERE = 0.8  # confidence with which a left-out example is put into another class


@dataclass(frozen=True)
class Fit:
    """A model and how it came about."""

    model: LabelModel
    pool: Tensor  # the images of the pile that the adaptation knew, index into the pile
    records: tuple[IterationRecord, ...]
    left_out: LeftOut
    frozen_left_out: LeftOut
    fell_back: tuple[str, ...]  # why the adaptation was not used; empty: it was, or was not wanted
    doubtful_examples: tuple[
        tuple[int, int, float], ...
    ]  # example, class it looks like, confidence
    changes: tuple[str, ...]
    before: Tensor  # (n_support + n_pool, width): the frozen encoder's features, for a picture
    after: Tensor  # the same by the model's encoder


def draw_pool(n_pile: int, settings: LabelSettings) -> Tensor:
    """Draw the images of a pile that the adaptation knows: all, or as many as the budget allows."""
    if n_pile <= settings.pool_images:
        return torch.arange(n_pile)
    drawn = torch.randperm(n_pile, generator=generator_for("pool", settings.seed))
    return drawn[: settings.pool_images].sort().values


def fit_model(
    encoder: Encoder,
    pcn: PCN,
    task: Task,
    pool: Tensor,
    settings: LabelSettings,
    *,
    class_names: tuple[str, ...],
    example_names: tuple[str, ...],
    prior_temperature: float,
    on_iteration: Callable[[IterationRecord], None] = lambda _record: None,
) -> Fit:
    """Fit a model to a task whose queries are the `pool` of the pile."""
    chosen = _adaptation_settings(settings, task)
    frozen = adapt(encoder, pcn, task, replace(chosen, n_iterations=0))
    # How even the pile is was found there, on all of it; no refit on a part finds it anew.
    chosen = replace(chosen, information=frozen.information)
    refit = partial(_refit, pcn=pcn, settings=chosen)
    frozen_kinds = _describe(frozen, task, chosen)
    frozen_left_out = leave_out(frozen_kinds, task.class_ids, refit)
    used, kinds, left_out = frozen, frozen_kinds, frozen_left_out
    reasons: list[str] = []
    records: tuple[IterationRecord, ...] = ()
    if settings.adapt:
        adapted = adapt(encoder, pcn, task, chosen, on_iteration)
        records = adapted.records
        _fix_statistics(adapted, task, chosen)
        adapted_kinds = _describe(adapted, task, chosen)

        def adapt_again(reduced: Task) -> Adaptation:
            again = adapt(encoder, pcn, reduced, chosen, on_iteration)
            _fix_statistics(again, reduced, chosen)
            return again

        crossed = cross_fitted(
            task,
            min(settings.batch_images, IMAGES_A_CLASS * task.n_way),
            frozen_kinds,
            adapt_again,
            partial(_describe, settings=chosen),
            refit,
        )
        reasons = collapse_reasons(records, adapted.termination, task.n_query)
        worse = worse_than_frozen(crossed.adapted, crossed.frozen)
        reasons += [worse] if worse else []
        if not reasons:
            used, kinds, left_out = adapted, adapted_kinds, crossed.left_out
    answer = refit(kinds, task.class_ids)
    temperature = fit_temperature(left_out, prior_temperature)
    confidence, judged = torch.softmax(left_out.scores / temperature, 1).max(1)
    examples = directions(kinds[0].support)
    pile = answer.place([kind.query for kind in kinds])
    distances = how_far(answer, pile, directions(kinds[0].query), examples)
    model = LabelModel(
        encoder=used.encoder,
        answer=answer,
        class_names=class_names,
        size_px=task.query.shape[-1],
        mirrored=used.mirrored,
        with_texture=len(kinds) > 1,
        temperature=temperature,
        acceptance=fit_acceptance(confidence, judged == left_out.class_ids, settings.target_error),
        novelty=Novelty.of(left_out, *distances),
        example_names=example_names,
        example_class_ids=tuple(task.class_ids.tolist()),
        examples=answer.place([kind.support for kind in kinds]),
        example_directions=examples,
        is_adapted=used is not frozen,
        provenance={},
    )
    return Fit(
        model=model,
        pool=pool,
        records=records,
        left_out=left_out,
        frozen_left_out=frozen_left_out,
        fell_back=tuple(reasons),
        doubtful_examples=_doubtful(left_out, confidence, judged),
        changes=used.changes,
        before=_features(frozen_kinds),
        after=_features(kinds),
    )


def _adaptation_settings(settings: LabelSettings, task: Task) -> AdaptSettings:
    chosen = settings.adaptation
    if chosen.predict_from == "propagation" or chosen.predict_with == "both":
        raise SettingsError(
            "labelling needs a rule that judges each image by itself: predict_from = 'propagation' "
            "and predict_with = 'both' have none; use the preset robust"
        )
    if chosen.prototypes.few_shots == "error":
        # The paper's text knows five examples a class; here there are as many as there are, and
        # fewer while some are left out.
        chosen = replace(chosen, prototypes=replace(chosen.prototypes, few_shots="class_mean"))
    query_batch = chosen.query_batch or settings.batch_images
    micro_batch = chosen.micro_batch
    if task.n_support + min(query_batch, task.n_query) > WHOLE_BATCH:
        # The same gradient with a third more work, so that many classes do not fill the memory.
        micro_batch = micro_batch or WHOLE_BATCH // 2
    return replace(chosen, query_batch=query_batch, micro_batch=micro_batch, seed=settings.seed)


def _describe(adaptation: Adaptation, task: Task, settings: AdaptSettings) -> list[Described]:
    weighs_all = isinstance(adaptation.answer, InformedAnswer)
    is_fixed = settings.batch_norm not in ("joint", "separate")
    known = [(len(kind.support), len(kind.query)) for kind in adaptation.described[:1]]
    if is_fixed and known == [(task.n_support, task.n_query)]:
        return list(adaptation.described)  # adapted on this very task: described already
    kinds = describe(
        adaptation.encoder,
        torch.cat([task.support, task.query]),
        mirrored=adaptation.mirrored,
        with_texture=weighs_all and settings.texture_weight > 0,
    )
    sizes = [task.n_support, task.n_query]
    weights = [1.0, settings.texture_weight]
    return [
        Described(*kind.split(sizes), weight)  # type: ignore[call-arg]
        for kind, weight in zip(kinds, weights, strict=False)
    ]


@torch.no_grad()
def _refit(
    kinds: list[Described], class_ids: Tensor, *, pcn: PCN, settings: AdaptSettings
) -> Answer:
    """Find the rule of the preset on these vectors."""
    if settings.predict_from == "information":
        return InformedAnswer.fit(kinds, class_ids, settings.information)
    classifier = PrototypeClassifier(pcn, class_ids, settings.prototypes)
    support = kinds[0].support
    classifier.group(support)
    prototypes = classifier.prototypes(support)
    distances = squared_distances(kinds[0].query, prototypes)
    calibrated = replace(settings, distance_scale="calibrated")
    return PrototypeAnswer(prototypes, distance_scale(classifier, support, distances, calibrated))


def _fix_statistics(adaptation: Adaptation, task: Task, settings: AdaptSettings) -> None:
    """Give an encoder that normalised by each batch fixed statistics.

    A label must not depend on the images that are judged beside it.
    """
    if settings.batch_norm in ("joint", "separate"):
        take_task_statistics(adaptation.encoder, torch.cat([task.support, task.query]))
    use_batch_statistics(adaptation.encoder, 0, False)


def _doubtful(
    left_out: LeftOut, confidence: Tensor, judged: Tensor
) -> tuple[tuple[int, int, float], ...]:
    firm = (judged != left_out.class_ids) & (confidence >= SURE_ELSEWHERE)
    return tuple(
        (int(left_out.rows[i]), int(judged[i]), float(confidence[i]))
        for i in firm.nonzero().flatten().tolist()
    )


def _features(kinds: list[Described]) -> Tensor:
    return torch.cat([kinds[0].support, kinds[0].query]).cpu()
