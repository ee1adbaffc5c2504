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
from appl.encoders import Describer
from appl.encoders.batch_statistics import take_task_statistics, use_batch_statistics
from appl.encoders.describing import resized
from appl.errors import SettingsError
from appl.labelling.confidence import fit_acceptance, fit_temperature
from appl.labelling.cross_fitting import cross_fitted, spread
from appl.labelling.left_out import LeftOut, how_far, leave_out
from appl.labelling.model import LabelModel
from appl.labelling.novelty import Novelty
from appl.labelling.safety import collapse_reasons, worse_than_frozen
from appl.method.algorithm2 import IterationRecord
from appl.method.classifier import PrototypeClassifier, PrototypeRule
from appl.method.objective import distance_scale
from appl.method.pcn import PCN
from appl.settings.files import with_changes
from appl.settings.labelling import LabelSettings
from appl.settings.solving import InformationSettings, SolveSettings
from appl.solver.solve import Rule, Solved, solve_task
from appl.transduction.answer import fit_rule, hold_class_prior
from appl.transduction.learnt import LearntRule
from appl.transduction.placing import Described, described
from appl.weights import Pretrained

WHOLE_BATCH = 400  # images of an iteration that go through the encoder at once
IMAGES_PER_CLASS = 15  # of the pile, where encoders are adapted only to judge examples by them
# Of a class: the weight of the examples was chosen for so many. Left at that, 20 or more pull their
# classes about so hard that one swallows another (benchmarks/studio_reviewer.py).
USUAL_EXAMPLES = 5
LEAST_SUPPORT_WEIGHT = 0.3
SURE_ELSEWHERE = 0.8  # confidence with which a left-out example is put into another class

OnIteration = Callable[[IterationRecord], None]


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
    augmentations: tuple[str, ...]  # that the task tolerates
    before: Tensor  # (n_support + n_pool, width): the frozen encoder's features, for a picture
    after: Tensor  # the same by the model's encoder


def draw_pool(n_pile: int, settings: LabelSettings) -> Tensor:
    """Draw the images of a pile that the adaptation knows: all, or as many as the budget allows."""
    if n_pile <= settings.pool_images:
        return torch.arange(n_pile)
    drawn = torch.randperm(n_pile, generator=generator_for("pool", settings.seed))
    return drawn[: settings.pool_images].sort().values


class Fitter:
    """A task to fit models to: one by the encoder as it is, one by the encoder adapted to it."""

    def __init__(
        self,
        start: Pretrained,
        task: Task,
        pool: Tensor,
        settings: LabelSettings,
        *,
        class_names: tuple[str, ...],
        example_names: tuple[str, ...],
    ) -> None:
        """Describe the task by the frozen encoder; its queries are the `pool` of the pile."""
        self.start, self.task, self.pool, self.settings = start, task, pool, settings
        self.class_names, self.example_names = class_names, example_names
        chosen = _solve_settings(settings, task)
        self._frozen = solve_task(
            start.encoder,
            start.pcn,
            task,
            with_changes(chosen, adaptation={"n_iterations": 0}),
            beside=start.beside,
        )
        # The class prior was estimated there, on all of the pool; no refit on a part does it anew.
        held = replace(chosen.answer, information=self._frozen.information)
        self._chosen = replace(chosen, answer=held)
        self._refit = partial(_refit, pcn=start.pcn, settings=self._chosen)
        self._frozen_kinds = _describe(self._frozen, task, self._chosen)
        self._frozen_left_out = leave_out(self._frozen_kinds, task.class_ids, self._refit)

    def frozen(self) -> Fit:
        """Fit a model to the features of the encoder as it is."""
        return self._fit(self._frozen, self._frozen_kinds, self._frozen_left_out)

    def adapted(self, on_iteration: OnIteration = lambda _record: None) -> Fit:
        """Adapt the encoder and fit a model to it; to the frozen one where that went wrong."""
        task, chosen = self.task, self._chosen

        def adapt(reduced: Task) -> Solved:
            start = self.start
            solved = solve_task(
                start.encoder, start.pcn, reduced, chosen, on_iteration, start.beside
            )
            _fix_statistics(solved, reduced, chosen)
            return solved

        solved = adapt(task)
        crossed = cross_fitted(
            task,
            min(self.settings.batch_images, IMAGES_PER_CLASS * task.n_way),
            self._frozen_kinds,
            adapt,
            partial(_describe, settings=chosen),
            self._refit,
        )
        reasons = collapse_reasons(solved.records, solved.termination, task.n_query)
        worse = worse_than_frozen(crossed.adapted, crossed.frozen)
        reasons += [worse] if worse else []
        if reasons:
            return replace(self.frozen(), records=solved.records, fell_back=tuple(reasons))
        kinds = _describe(solved, task, chosen)
        return replace(self._fit(solved, kinds, crossed.left_out), records=solved.records)

    def _fit(self, used: Solved, kinds: list[Described], left_out: LeftOut) -> Fit:
        task = self.task
        describer = used.describer
        # One encoder sees images as they are kept, and so does its unmoved copy.
        sizes_px = tuple(size_px or task.query.shape[-1] for size_px in describer.sizes_px)
        describer = replace(describer, sizes_px=sizes_px)
        model, doubtful = _model_on(
            kinds,
            task.class_ids,
            left_out,
            self._refit,
            self.settings,
            describer=describer,
            pcn=self.start.pcn,
            class_names=self.class_names,
            example_names=self.example_names,
            is_adapted=used is not self._frozen,
            n_unmoved=len(describer.encoders) - len(used.encoders),
        )
        return Fit(
            model=model,
            pool=self.pool,
            records=(),
            left_out=left_out,
            frozen_left_out=self._frozen_left_out,
            fell_back=(),
            doubtful_examples=doubtful,
            augmentations=used.adaptation.augmentations,
            before=_features(self._frozen_kinds),
            after=_features(kinds),
        )


def fit_on_vectors(
    model: LabelModel,
    support: list[Tensor],
    class_ids: Tensor,
    query: list[Tensor],
    pool: Tensor,
    settings: LabelSettings,
    *,
    class_names: tuple[str, ...],
    example_names: tuple[str, ...],
) -> Fit:
    """Fit another model to what the encoders of `model` say: no image goes through them.

    `support` and `query` hold a tensor (n, width) per kind of vector, as `model.describe` gives
    them; the queries are the `pool` of the pile.
    """
    chosen = _weighed(settings.solving, class_ids)
    weights = model.describer.weights
    vectors = [torch.cat(parts) for parts in zip(support, query, strict=True)]
    kinds = described(vectors, weights, len(class_ids))
    if chosen.answer.scores_one_by_one:
        information = _settled_prior(kinds, class_ids, chosen.answer.information)
        chosen = replace(chosen, answer=replace(chosen.answer, information=information))
    refit = partial(_refit, pcn=model.pcn, settings=chosen)
    # As in cross-fitting: how far examples can be told apart takes no large pile.
    some = spread(len(pool), IMAGES_PER_CLASS * len(class_names))
    small = [Described(kind.support, kind.query[some], kind.weight) for kind in kinds]
    left_out = leave_out(small, class_ids, refit)
    found, doubtful = _model_on(
        kinds,
        class_ids,
        left_out,
        refit,
        settings,
        describer=model.describer,
        pcn=model.pcn,
        class_names=class_names,
        example_names=example_names,
        is_adapted=model.is_adapted,
        n_unmoved=model.n_unmoved,
    )
    features = _features(kinds)
    return Fit(found, pool, (), left_out, left_out, (), doubtful, (), features, features)


def _model_on(
    kinds: list[Described],
    class_ids: Tensor,
    left_out: LeftOut,
    refit: Callable[[list[Described], Tensor], Rule],
    settings: LabelSettings,
    *,
    describer: Describer,
    pcn: PCN,
    class_names: tuple[str, ...],
    example_names: tuple[str, ...],
    is_adapted: bool,
    n_unmoved: int,
) -> tuple[LabelModel, tuple[tuple[int, int, float], ...]]:
    """Find rule, temperature and thresholds; also return the examples that are doubtful."""
    rule = refit(kinds, class_ids)
    temperature = fit_temperature(left_out, _usual_temperature(rule, describer))
    confidence, judged = torch.softmax(left_out.scores / temperature, 1).max(1)
    examples = directions(kinds[0].support)
    pile = rule.place([kind.query for kind in kinds])
    distances = how_far(rule, pile, directions(kinds[0].query), examples)
    model = LabelModel(
        describer=describer,
        pcn=pcn,
        rule=rule,
        class_names=class_names,
        temperature=temperature,
        acceptance=fit_acceptance(confidence, judged == left_out.class_ids, settings.target_error),
        novelty=Novelty.of(left_out, *distances),
        example_names=example_names,
        example_class_ids=tuple(class_ids.tolist()),
        examples=rule.place([kind.support for kind in kinds]),
        example_directions=examples,
        is_adapted=is_adapted,
        provenance={},
        n_unmoved=n_unmoved,
    )
    return model, _doubtful(left_out, confidence, judged)


def _usual_temperature(rule: Rule, describer: Describer) -> float:
    """Return what scores are divided by before any example has a say."""
    if isinstance(rule, LearntRule):
        return 1.0  # it learnt to give probabilities, over thousands of tasks
    usual = [encoder.meta.temperature for encoder in describer.encoders]
    return sum(usual) / len(usual)


def _solve_settings(settings: LabelSettings, task: Task) -> SolveSettings:
    chosen = settings.solving
    if chosen.answer.rule == "propagation":
        raise SettingsError(
            "labelling needs a rule that judges each image by itself, and answer.rule = "
            "'propagation' has none; use the preset robust"
        )
    adaptation = chosen.adaptation
    few_shots = adaptation.prototypes.few_shots
    if few_shots == "error":
        # The paper's text knows five examples per class; here there are as many as there are, and
        # fewer while some are left out.
        few_shots = "class_mean"
    query_batch = adaptation.query_batch or settings.batch_images
    micro_batch = adaptation.micro_batch
    if task.n_support + min(query_batch, task.n_query) > WHOLE_BATCH:
        # The same gradient with a third more work, so that many classes do not fill the memory.
        micro_batch = micro_batch or WHOLE_BATCH // 2
    return with_changes(
        _weighed(chosen, task.class_ids),
        adaptation={
            "query_batch": query_batch,
            "micro_batch": micro_batch,
            "seed": settings.seed,
            "prototypes": {"few_shots": few_shots},
        },
    )


def _weighed(chosen: SolveSettings, class_ids: Tensor) -> SolveSettings:
    """Let each of many examples count less, so that all of a class weigh as the usual few do."""
    information = chosen.answer.information
    n_each = len(class_ids) / max(len(class_ids.unique()), 1)
    weight = information.support_weight * min(1.0, USUAL_EXAMPLES / n_each)
    weight = max(weight, min(information.support_weight, LEAST_SUPPORT_WEIGHT))
    held = replace(information, support_weight=weight)
    return replace(chosen, answer=replace(chosen.answer, information=held))


def _settled_prior(
    kinds: list[Described], class_ids: Tensor, information: InformationSettings
) -> InformationSettings:
    """Estimate the class prior after a few, more and all steps, and take the middle one.

    Where a person is at work, the estimate is made again and again, and one time in twenty the last
    steps let a class swallow another: an even pile would look uneven for one answer.
    """
    n = information.n_iterations
    found = sorted(
        hold_class_prior(kinds, class_ids, replace(information, n_iterations=k)).marginal_weight
        for k in (n // 4, n // 2, n)
    )
    return replace(information, marginal_weight=found[1], least_marginal_weight=found[1])


def _describe(solved: Solved, task: Task, settings: SolveSettings) -> list[Described]:
    is_fixed = settings.adaptation.parameters.batch_norm not in ("joint", "separate")
    known = [(len(kind.support), len(kind.query)) for kind in solved.vectors[:1]]
    if is_fixed and known == [(task.n_support, task.n_query)]:
        return list(solved.vectors)  # solved on this very task: described already
    describer: Describer = solved.describer
    kinds = describer.in_parts(torch.cat([task.support, task.query]))
    return described(kinds, describer.weights, task.n_support)


@torch.no_grad()
def _refit(kinds: list[Described], class_ids: Tensor, *, pcn: PCN, settings: SolveSettings) -> Rule:
    """Find the rule of the settings on these vectors."""
    if settings.answer.scores_one_by_one:
        return fit_rule(kinds, class_ids, settings.answer.rule, settings.answer)
    adaptation = settings.adaptation
    classifier = PrototypeClassifier(pcn, class_ids, adaptation.prototypes)
    support = kinds[0].support
    classifier.group(support)
    prototypes = classifier.prototypes(support)
    distances = squared_distances(kinds[0].query, prototypes)
    calibrated = replace(adaptation.objective, distance_scale="calibrated")
    return PrototypeRule(prototypes, distance_scale(classifier, support, distances, calibrated))


def _fix_statistics(solved: Solved, task: Task, settings: SolveSettings) -> None:
    """Give an encoder that normalised by each batch fixed statistics.

    A label must not depend on the images that are judged beside it.
    """
    images = torch.cat([task.support, task.query])
    describer = solved.describer
    for encoder, size_px in zip(describer.encoders, describer.sizes_px, strict=True):
        if settings.adaptation.parameters.batch_norm in ("joint", "separate"):
            take_task_statistics(encoder, resized(images, size_px))
        use_batch_statistics(encoder, 0, False)


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
