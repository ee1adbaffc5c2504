"""Label propagation on fine-tuned features: what a graph adds to fine-tuning."""

from dataclasses import dataclass
from typing import ClassVar

from appl.core.episode import Task
from appl.core.features import centre_and_normalise
from appl.core.methods import METHODS, MethodCard, Solution
from appl.core.propagation import propagate
from appl.rivals._fine_tuning import FineTuning, Fitted
from appl.settings.checks import setting


@METHODS.register("adapted_propagation")
@dataclass(frozen=True)
class AdaptedPropagation(FineTuning):
    """Fine-tuning (Guo et al., 2020), then label propagation (Zhou et al., 2003).

    The encoder is fine-tuned on the supports; its head is dropped, and the labels of the supports
    diffuse over the graph of all images in its features. Liu et al., 2020 (arXiv:2005.08463)
    propagate the head's answers over the queries alone and keep a fifth of them for each class,
    which takes an even pile for granted; supports as sources do not.
    """

    card: ClassVar = MethodCard(
        title="Fine-tune + propagation",
        paper="Guo et al., 2020; Zhou et al., 2003",
        summary="labels diffuse over a graph of fine-tuned features",
        takes="transductive",
        needs="weights",
    )
    alpha: float = setting(0.8, "how far labels travel", 0, 1)
    n_neighbours: int = setting(10, "of each image in the graph", 1)

    def answer_by(self, fitted: Fitted, task: Task) -> Solution:
        """Return the log of the propagated class probabilities."""
        support, query = (fitted.encoder.encode(images) for images in (task.support, task.query))
        class_ids = task.class_ids.to(support.device)
        support, query = centre_and_normalise(support, class_ids, query)
        probs = propagate(
            support,
            class_ids,
            query,
            task.n_way,
            alpha=self.alpha,
            n_neighbours=self.n_neighbours,
        )
        return Solution(probs.clamp(min=1e-12).log(), fitted.record())
