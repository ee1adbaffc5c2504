"""ATA (Wang and Deng, 2021): four methods trained on the worst task near each, tested without.

A row is its host with other weights, as those of `fwt`; what the training loop does with a task is
in `_adversarial`. The paper's row is the best of three hosts; ours show host by host.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from appl.core.methods import METHODS, MethodCard
from appl.rivals._adversarial import Adversarial
from appl.rivals.gnn import GNN
from appl.rivals.prototypical import Prototypical
from appl.rivals.relation import Relation
from appl.rivals.tpn import TPN
from appl.settings.checks import check_ranges, setting


def _card(host: MethodCard) -> MethodCard:
    return replace(
        host,
        title=f"{host.title} + ATA",
        paper="Wang and Deng, 2021",
        summary=f"{host.summary}; trained on adversarial tasks",
        is_meta_trained=True,
    )


@dataclass(frozen=True)
class AdversarialTraining:
    """The settings of the augmentation, which matter while a row learns."""

    n_ascents: int = setting(5, "steps up the loss, on the pixels of the whole task", 0)
    ascent_rate: float = setting(80.0, "η, on normalised pixels: a mean loss has small slopes", 0)
    keep_share: float = setting(0.5, "of the tasks that keep their images before the ascent", 0, 1)

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def task_augmentation(self) -> Adversarial:
        """What becomes of a task before it is learnt."""
        return Adversarial(self.n_ascents, self.ascent_rate, self.keep_share)


@METHODS.register("gnn_ata")
@dataclass(frozen=True)
class GNNATA(AdversarialTraining, GNN):
    """Cross-Domain Few-Shot Classification via Adversarial Task Augmentation, arXiv:2104.14385."""

    card: ClassVar = _card(GNN.card)


@METHODS.register("tpn_ata")
@dataclass(frozen=True)
class TPNATA(AdversarialTraining, TPN):
    """The same with TPN, at the rate and share that its authors give for it."""

    card: ClassVar = _card(TPN.card)
    ascent_rate: float = setting(20.0, "η, on normalised pixels", 0)
    keep_share: float = setting(0.6, "of the tasks that keep their images before the ascent", 0, 1)


@METHODS.register("relation_ata")
@dataclass(frozen=True)
class RelationATA(AdversarialTraining, Relation):
    """The same with RelationNet; its rate was not published."""

    card: ClassVar = _card(Relation.card)


@METHODS.register("prototypical_ata")
@dataclass(frozen=True)
class PrototypicalATA(AdversarialTraining, Prototypical):
    """The same with ProtoNet, which the paper left out: its scores have no temperature, so less."""

    card: ClassVar = _card(Prototypical.card)
    ascent_rate: float = setting(0.5, "η, on normalised pixels", 0)
