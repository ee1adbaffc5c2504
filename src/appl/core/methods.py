"""What a row of the benchmark is: a method with a card, behind one of four verbs.

A method is a frozen dataclass whose fields are its settings. One on frozen features answers
`scores(support, class_ids, query)`, a pure function, or `layer_scores` from several layers; one
that works on the images, because it changes the encoder, answers `solve(encoder, pcn, task)`; one
that is meta-trained with a head of its own answers `answer(encoder, head, task)`, in training as in
a benchmark, and says by `training_loss` what it lowers, if that is not the queries' cross-entropy.
It never sees a path, a device name or an accuracy: those belong to the runner and to the training
loop.
"""

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from torch import Generator, Tensor, nn

from appl.core.episode import Episode, Task
from appl.core.registry import Registry


@dataclass(frozen=True)
class MethodCard:
    """What tables, docs and command line say about a method."""

    title: str
    paper: str
    summary: str
    # What enters a query's answer beside the query itself: nothing; the other queries through
    # batch statistics; all of them.
    takes: Literal["none", "batchnorm", "transductive"]
    # What it needs of the encoder: pooled features, the map before pooling, pooled features of
    # several stages, its weights to change.
    needs: Literal["vector", "map", "layers", "weights"] = "vector"
    is_meta_trained: bool = False  # whether it needs a training of its own on the source
    takes_several: bool = False  # whether an image method takes several encoders side by side
    takes_many: bool = False  # whether `scores` takes several tasks at once, (task, n, width)


@dataclass(frozen=True)
class Solution:
    """The answer to a task: scores (n_query, n_way), higher is better, and how it came about."""

    scores: Tensor
    record: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class FeatureMethod(Protocol):
    """A method on frozen features (n, width)."""

    card: ClassVar[MethodCard]

    def scores(self, support: Tensor, class_ids: Tensor, query: Tensor) -> Tensor:
        """Return the scores of the queries (n_query, n_way), higher is better."""
        ...


@runtime_checkable
class LayerMethod(Protocol):
    """A method on several frozen layers of an encoder."""

    card: ClassVar[MethodCard]

    @property
    def layers(self) -> tuple[str, ...]:
        """Which: `blocks`, one layer for each; `map`; `logits` of the source's classes."""
        ...

    def layer_scores(
        self, support: Sequence[Tensor], class_ids: Tensor, query: Sequence[Tensor]
    ) -> Tensor:
        """Return the scores of the queries (n_query, n_way), from (n, width) of every layer."""
        ...


@runtime_checkable
class ImageMethod(Protocol):
    """A method that works on the images, with the encoder in its hands."""

    card: ClassVar[MethodCard]

    def solve(
        self, encoder: nn.Module, pcn: nn.Module, task: Task, beside: Sequence[nn.Module] = ()
    ) -> Solution:
        """Answer the task; encoder and PCN stay as they were.

        `beside` are further encoders of the same images, where the card says `takes_several`.
        """
        ...


@runtime_checkable
class FittingMethod(Protocol):
    """An image method in two steps: a fit to the task, then an answer by what the fit has left.

    Rows with the same `fitting` share the fit of a task, which is nearly all of their time.
    """

    card: ClassVar[MethodCard]

    @property
    def fitting(self) -> Hashable:
        """All that decides the fit of a task."""
        ...

    def fit(self, encoder: Any, task: Task) -> Any:
        """Fit to the task; the encoder stays as it was."""
        ...

    def answer_by(self, fitted: Any, task: Task) -> Solution:
        """Answer the task by a fit, which stays as it was."""
        ...


@runtime_checkable
class EpisodicMethod(Protocol):
    """A method that learns on the source's episodes, with a head beside the encoder.

    Whether batch norms follow the batch is the modules' own mode, which the caller sets: train
    while it learns, eval in a benchmark.
    """

    card: ClassVar[MethodCard]

    def build_head(self, encoder: Any, n_way: int) -> nn.Module:
        """Return the head that fits the encoder, untrained, by the global random state."""
        ...

    def answer(self, encoder: nn.Module, head: nn.Module, task: Task) -> Tensor:
        """Return the scores of the queries (n_query, n_way), higher is better, with gradients."""
        ...


@dataclass(frozen=True)
class EpisodeLoss:
    """What a training lowers, and the scores of the queries that came with it."""

    loss: Tensor
    scores: Tensor


@runtime_checkable
class OwnLoss(Protocol):
    """An episodic method that lowers something else than the cross-entropy of its scores."""

    def training_loss(self, encoder: Any, head: Any, episode: Episode) -> EpisodeLoss:
        """Return the loss of an episode, with gradients; modules as the caller's mode has them."""
        ...


class TaskAugmentation(Protocol):
    """What a task becomes before it is learnt: an episode in, an episode out.

    A method has one as `task_augmentation`. It may follow the loss's gradients to the pixels, and
    it may change how the modules compute for as long as the context lasts; weights stay.
    """

    name: str  # its random numbers are its own

    def augmented(
        self,
        encoder: Any,
        head: nn.Module,
        loss: Callable[[Episode], Tensor],
        episode: Episode,
        generator: Generator,
    ) -> AbstractContextManager[Episode]:
        """Give the episode that is learnt; inside the context it is."""
        ...


# What needs no encoder while it answers: an image is embedded once for all episodes.
FrozenMethod = FeatureMethod | LayerMethod
Method = FeatureMethod | LayerMethod | ImageMethod | EpisodicMethod

METHODS: Registry[type[Any]] = Registry(
    "method", "appl.rivals", "appl.transduction", "appl.solver.rows"
)
