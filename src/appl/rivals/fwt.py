"""FWT (Tseng et al., 2020): five methods trained with noise in the encoder, tested without.

A row is its host with other weights. The training loop reads `task_augmentation`, which draws
the noise once an episode; nothing of it is left in an answer.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from appl.core.methods import METHODS, MethodCard
from appl.rivals._feature_wise import FeatureWise
from appl.rivals.gnn import GNN
from appl.rivals.matching import Matching
from appl.rivals.prototypical import Prototypical
from appl.rivals.relation import Relation
from appl.rivals.tpn import TPN


def _card(host: MethodCard) -> MethodCard:
    return replace(
        host,
        title=f"{host.title} + FWT",
        paper="Tseng et al., 2020",
        summary=f"{host.summary}; trained with random feature statistics",
        is_meta_trained=True,
    )


@METHODS.register("matching_fwt")
@dataclass(frozen=True)
class MatchingFWT(Matching):
    """Cross-Domain Few-Shot Classification via Learned Feature-Wise Transformation, MatchingNet."""

    card: ClassVar = _card(Matching.card)
    task_augmentation: ClassVar = FeatureWise()


@METHODS.register("prototypical_fwt")
@dataclass(frozen=True)
class PrototypicalFWT(Prototypical):
    """The same with ProtoNet, which the paper left out and others added."""

    card: ClassVar = _card(Prototypical.card)
    task_augmentation: ClassVar = FeatureWise()


@METHODS.register("relation_fwt")
@dataclass(frozen=True)
class RelationFWT(Relation):
    """The same with RelationNet."""

    card: ClassVar = _card(Relation.card)
    task_augmentation: ClassVar = FeatureWise()


@METHODS.register("gnn_fwt")
@dataclass(frozen=True)
class GNNFWT(GNN):
    """The same with the graph network, the strongest host."""

    card: ClassVar = _card(GNN.card)
    task_augmentation: ClassVar = FeatureWise()


@METHODS.register("tpn_fwt")
@dataclass(frozen=True)
class TPNFWT(TPN):
    """The same with TPN, which the paper left out and others added."""

    card: ClassVar = _card(TPN.card)
    task_augmentation: ClassVar = FeatureWise()
