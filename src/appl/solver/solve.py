"""From a task to an answer: adapt the encoder by Algorithm 2, then weigh what it sees.

The paper's parts come from `appl.method`, the answer that weighs all images together from
`appl.transduction`, which also teaches Algorithm 2 where the settings say so.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from appl.core.episode import Task
from appl.encoders import Describer, Encoder
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
from appl.method.classifier import PrototypeRule
from appl.method.learner import TaskLearner
from appl.method.pcn import PCN
from appl.settings.solving import AnswerSettings, InformationSettings, SolveSettings
from appl.transduction.answer import (
    Described,
    InformationRule,
    described,
    hold_class_prior,
    weigh_together,
)

Rule = InformationRule | PrototypeRule


@dataclass(frozen=True)
class Solved:
    """The answer to a task, the rule behind it, and how it came about."""

    scores: Tensor  # (n_query, n_way), higher is better
    rule: Rule  # for images that come later
    describer: (
        Describer  # how the rule wants them described; with encoders = "both", one half of it
    )
    vectors: tuple[Described, ...]  # what the rule was found on; empty where it takes features
    information: InformationSettings  # with the class prior that was estimated from the pile
    adaptation: Adaptation

    @property
    def encoder(self) -> Encoder:
        """The adapted encoder."""
        return self.adaptation.encoder

    @property
    def records(self) -> tuple[IterationRecord, ...]:
        """What happened in each iteration."""
        return self.adaptation.records

    @property
    def termination(self) -> str:
        """Whether the adaptation finished, or why it stopped early."""
        return self.adaptation.termination

    @property
    def probs(self) -> Tensor:
        """Class probabilities of the queries (n_query, n_way)."""
        return torch.softmax(self.scores, 1)


def solve_task(
    encoder: Encoder,
    pcn: PCN,
    task: Task,
    settings: SolveSettings,
    on_iteration: OnIteration = lambda _record: None,
) -> Solved:
    """Solve `task`, starting from a copy of `encoder`."""
    answer, adaptation = settings.answer, settings.adaptation
    learner = TaskLearner(encoder, task, adaptation, ask_mirror=answer.mirrored)
    classifier = task_classifier(encoder, pcn, task, adaptation)
    class_ids = classifier.class_ids
    mirrored = answer.mirrored and learner.tolerates_mirroring

    def describe() -> list[Described]:
        describer = learner.describer(texture_weight=answer.texture_weight, mirrored=mirrored)
        kinds = learner.describe(texture_weight=answer.texture_weight, mirrored=mirrored)
        return described(kinds, describer.weights, task.n_support)

    first: list[Described] = []
    if adaptation.n_iterations and (_prior_is_open(answer) or _takes_both(answer)):
        first = describe()
    if first and _prior_is_open(answer):
        # Once, before the encoder moves: features that learn from pseudo-labels come to agree
        # with whatever prior made them, so asking again would only confirm it.
        answer = _with_class_prior(answer, first, class_ids)
    run = self_train(learner, classifier, adaptation, _teacher(answer, class_ids), on_iteration)
    adapted = conclude(learner, classifier, adaptation, run)
    scores, rule = adapted.scores, adapted.rule
    vectors: list[Described] = []
    found: Rule = rule
    if answer.weighs_all:
        vectors = [*(first if _takes_both(answer) else []), *describe()]
        if answer.rule == "information":
            answer = _with_class_prior(answer, vectors, class_ids)
            found = InformationRule.fit(vectors, class_ids, answer.information)
            placed = found.place([kind.query for kind in vectors])
            scores = torch.log_softmax(found.scores(placed), 1)
        else:
            scores = -weigh_together("propagation", vectors, class_ids, answer.information)
    # The nearest prototype takes plain features.
    describer = learner.describer(
        texture_weight=answer.texture_weight if answer.weighs_all else 0.0,
        mirrored=mirrored and answer.weighs_all,
    )
    return Solved(scores, found, describer, tuple(vectors), answer.information, adapted)


def _teacher(answer: AnswerSettings, class_ids: Tensor) -> PseudoLabeller:
    """Return what Algorithm 2 learns from: the paper's distances, or all images together."""
    if answer.teacher == "prototypes":
        return nearest_prototypes

    def label(support: Tensor, query: Tensor, _h: Tensor) -> Tensor:
        kinds = [Described(support, query)]
        return weigh_together(answer.teacher, kinds, class_ids, answer.information)

    return label


def _prior_is_open(answer: AnswerSettings) -> bool:
    information = answer.information
    is_used = "information" in (answer.teacher, answer.rule)
    return is_used and information.marginal_weight != information.least_marginal_weight


def _takes_both(answer: AnswerSettings) -> bool:
    return answer.weighs_all and answer.encoders == "both"


def _with_class_prior(
    answer: AnswerSettings, vectors: list[Described], class_ids: Tensor
) -> AnswerSettings:
    """Return the settings with the class prior of this pile; once found, it stays."""
    information = hold_class_prior(vectors, class_ids, answer.information)
    return replace(answer, information=information)
