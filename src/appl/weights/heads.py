"""The head of a meta-trained rival: which method it belongs to, and its weights."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from appl.core.episode import Episode, Task
from appl.core.methods import (
    METHODS,
    EpisodeLoss,
    EpisodicMethod,
    FeatureMethod,
    Method,
    OwnLoss,
)
from appl.encoders import Encoder
from appl.errors import SettingsError
from appl.settings.files import structure_settings

# Rows on frozen features that may be trained on episodes too: their scores have gradients.
DIFFERENTIABLE = ("prototypical", "prototypical_ata", "prototypical_fwt")


@dataclass(frozen=True)
class Head:
    """A method made ready, and what it has learnt beside the encoder; nothing, for some."""

    name: str  # of the method in the registry
    method: Method
    settings: dict[str, Any]  # as they were given
    n_way: int
    module: nn.Module

    def answer(self, encoder: Encoder, task: Task) -> Tensor:
        """Return the scores of a task's queries, with gradients where they are enabled."""
        if isinstance(self.method, EpisodicMethod):
            return self.method.answer(encoder, self.module, task)
        assert isinstance(self.method, FeatureMethod)
        features = encoder(encoder.normalise(task.images()))
        support, query = features.split([task.n_support, task.n_query])
        return self.method.scores(support, task.class_ids.to(features.device), query)

    def training_loss(self, encoder: Encoder, episode: Episode) -> EpisodeLoss:
        """Return what training lowers: the method's own loss, or the queries' cross-entropy."""
        if isinstance(self.method, OwnLoss):
            return self.method.training_loss(encoder, self.module, episode)
        scores = self.answer(encoder, episode.task)
        return EpisodeLoss(
            F.cross_entropy(scores, episode.query_class_ids.to(scores.device)), scores
        )


def build_head(name: str, settings: dict[str, Any], n_way: int, encoder: Encoder) -> Head:
    """Make the method ready, with a head of fresh weights by the global random state."""
    method: Any = structure_settings(METHODS.get(name), settings, f"method {name!r}")
    if isinstance(method, EpisodicMethod):
        return Head(name, method, settings, n_way, method.build_head(encoder, n_way))
    if isinstance(method, FeatureMethod) and name in DIFFERENTIABLE:
        return Head(name, method, settings, n_way, nn.Module())
    raise SettingsError(
        f"{name} has nothing to learn on the source: run it with the shipped weights; "
        "`appl methods` says which methods are meta-trained"
    )


def new_head(name: str, settings: dict[str, Any], n_way: int, seed: int, encoder: Encoder) -> Head:
    """Build a head whose first weights are a function of the seed, on the encoder's device."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = build_head(name, settings, n_way, encoder)
    head.module.to(encoder.device)
    return head
