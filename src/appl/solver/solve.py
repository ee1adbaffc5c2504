"""From a task to an answer: adapt the encoder by Algorithm 2, then weigh what it sees.

The paper's parts come from `appl.method`, the answer that weighs all images together from
`appl.transduction`, which also teaches Algorithm 2 where the settings say so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from appl.core.episode import Task
from appl.encoders import Describer, Encoder, sizes_side_by_side
from appl.encoders.describing import resized
from appl.errors import SettingsError
from appl.method.algorithm2 import (
    Adaptation,
    IterationRecord,
    OnIteration,
    PseudoLabeller,
    conclude,
    nearest_prototypes,
    self_train,
    task_classifier,
)
from appl.method.classifier import PrototypeClassifier, PrototypeRule
from appl.method.learner import TaskLearner
from appl.method.pcn import PCN
from appl.settings.solving import AnswerSettings, InformationSettings, SolveSettings
from appl.transduction.answer import InformationRule, fit_rule, hold_class_prior, weigh_together
from appl.transduction.learnt import LearntRule
from appl.transduction.placing import Described, described

Rule = InformationRule | LearntRule | PrototypeRule


@dataclass(frozen=True)
class Solved:
    """The answer to a task, the rule behind it, and how it came about."""

    scores: Tensor  # (n_query, n_way), higher is better
    rule: Rule  # for images that come later
    describer: Describer  # how the rule wants them described
    vectors: tuple[Described, ...]  # what the rule was found on; empty where it takes features
    information: InformationSettings  # with the class prior that was estimated from the pile
    adaptations: tuple[Adaptation, ...]  # one for each encoder

    @property
    def adaptation(self) -> Adaptation:
        """The adaptation of the first encoder."""
        return self.adaptations[0]

    @property
    def encoder(self) -> Encoder:
        """The first encoder, adapted."""
        return self.adaptation.encoder

    @property
    def encoders(self) -> tuple[Encoder, ...]:
        """All encoders, adapted."""
        return tuple(adaptation.encoder for adaptation in self.adaptations)

    @property
    def records(self) -> tuple[IterationRecord, ...]:
        """What happened in each iteration, encoder after encoder."""
        return tuple(record for adaptation in self.adaptations for record in adaptation.records)

    @property
    def termination(self) -> str:
        """Whether all adaptations finished, or why one stopped early."""
        early = [a.termination for a in self.adaptations if a.termination != "finished"]
        return early[0] if early else "finished"

    @property
    def probs(self) -> Tensor:
        """Class probabilities of the queries (n_query, n_way)."""
        return torch.softmax(self.scores, 1)


@dataclass(frozen=True)
class _Side:
    """One of the encoders on its way to fit the task, which it sees at its own size."""

    learner: TaskLearner
    classifier: PrototypeClassifier
    n_support: int

    @classmethod
    def of(
        cls, encoder: Encoder, pcn: PCN, task: Task, size_px: int, settings: SolveSettings
    ) -> Self:
        """Copy the encoder and cache what stays fixed."""
        seen = Task(resized(task.support, size_px), task.class_ids, resized(task.query, size_px))
        mirrored = settings.answer.mirrored
        learner = TaskLearner(encoder, seen, settings.adaptation, ask_mirror=mirrored)
        classifier = task_classifier(encoder, pcn, task, settings.adaptation)
        return cls(learner, classifier, task.n_support)

    def describe(self, texture_weight: float = 0.0, mirrored: bool = False) -> list[Described]:
        """Describe the task's images by the encoder as it is now."""
        describer = self.learner.describer(texture_weight=texture_weight, mirrored=mirrored)
        kinds = self.learner.describe(texture_weight=texture_weight, mirrored=mirrored)
        return described(kinds, describer.weights, self.n_support)


def solve_task(
    encoder: Encoder,
    pcn: PCN,
    task: Task,
    settings: SolveSettings,
    on_iteration: OnIteration = lambda _record: None,
    beside: Sequence[Encoder] = (),
) -> Solved:
    """Solve `task`, starting from a copy of `encoder`, and of those `beside` it.

    Of several encoders each is adapted by itself, in turn, with pseudo-labels that all of them give
    together: the others as they are at that moment.
    """
    answer, adaptation = settings.answer, settings.adaptation
    if beside and not answer.weighs_all:
        raise SettingsError(
            "encoders side by side need a rule that weighs all images together; set "
            "answer.rule = 'information' or 'learnt' (the preset robust)"
        )
    encoders = (encoder, *beside)
    pcns = (pcn, *(PCN(e.meta.width, rectifies=e.meta.non_negative).to(e.device) for e in beside))
    sizes_px = sizes_side_by_side(encoders)
    sides = [
        _Side.of(one, one_pcn, task, size_px, settings)
        for one, one_pcn, size_px in zip(encoders, pcns, sizes_px, strict=True)
    ]
    class_ids = sides[0].classifier.class_ids
    mirrored = answer.mirrored and all(side.learner.tolerates_mirroring for side in sides)

    def describe() -> list[Described]:
        return [kind for s in sides for kind in s.describe(answer.texture_weight, mirrored)]

    first: list[Described] = []
    unmoved: list[Encoder] = []  # the same encoders before they move, beside them in the end
    if adaptation.n_iterations and (_prior_is_open(answer) or _takes_both(answer)):
        first = describe()
    if first and _takes_both(answer):
        unmoved = [side.learner.unmoved() for side in sides]
    if first and _prior_is_open(answer):
        # Once, before the encoder moves: features that learn from pseudo-labels come to agree
        # with whatever prior made them, so asking again would only confirm it.
        answer = _with_class_prior(answer, first, class_ids)
    adaptations = []
    for side in sides:
        others: list[Described] = []
        if adaptation.n_iterations:
            others = [kind for other in sides if other is not side for kind in other.describe()]
        teacher = _teacher(answer, class_ids, others)
        run = self_train(side.learner, side.classifier, adaptation, teacher, on_iteration)
        adaptations.append(conclude(side.learner, side.classifier, adaptation, run))
    scores = adaptations[0].scores
    vectors: list[Described] = []
    found: Rule = adaptations[0].rule
    if answer.weighs_all:
        vectors = [*describe(), *(first if unmoved else [])]
        if answer.scores_one_by_one:
            answer = _with_class_prior(answer, vectors, class_ids)
            found = fit_rule(vectors, class_ids, answer.rule, answer)
            placed = found.place([kind.query for kind in vectors])
            scores = torch.log_softmax(found.scores(placed), 1)
        else:
            scores = -weigh_together(answer.rule, vectors, class_ids, answer)
    describer = Describer(
        (*(side.learner.encoder for side in sides), *unmoved),
        sizes_px * (2 if unmoved else 1),
        # The nearest prototype takes plain features.
        mirrored and answer.weighs_all,
        answer.texture_weight if answer.weighs_all else 0.0,
    )
    return Solved(scores, found, describer, tuple(vectors), answer.information, tuple(adaptations))


def _teacher(
    answer: AnswerSettings, class_ids: Tensor, others: Sequence[Described]
) -> PseudoLabeller:
    """Return what Algorithm 2 learns from: the paper's distances, or all images together.

    `others` are the descriptions of the same images by encoders that do not move now.
    """
    if answer.teacher == "prototypes":
        return nearest_prototypes

    def label(support: Tensor, query: Tensor, _h: Tensor, rows: Tensor | None) -> Tensor:
        beside = [
            Described(kind.support, kind.query if rows is None else kind.query[rows], kind.weight)
            for kind in others
        ]
        kinds = [Described(support, query), *beside]
        return weigh_together(answer.teacher, kinds, class_ids, answer)

    return label


def _prior_is_open(answer: AnswerSettings) -> bool:
    information = answer.information
    is_used = {"information", "learnt"} & {answer.teacher, answer.rule}
    return bool(is_used) and information.marginal_weight != information.least_marginal_weight


def _takes_both(answer: AnswerSettings) -> bool:
    return answer.weighs_all and answer.encoders == "both"


def _with_class_prior(
    answer: AnswerSettings, vectors: list[Described], class_ids: Tensor
) -> AnswerSettings:
    """Return the settings with the class prior of this pile; once found, it stays."""
    information = hold_class_prior(vectors, class_ids, answer.information)
    return replace(answer, information=information)
