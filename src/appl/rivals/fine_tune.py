"""Fine-tuning (Guo et al., 2020): head and encoder on the supports, the baseline to beat."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from appl.core.episode import Task
from appl.core.methods import METHODS, MethodCard, Solution
from appl.rivals._fine_tuning import FineTuning, Fitted
from appl.settings.checks import setting


@METHODS.register("fine_tune")
@dataclass(frozen=True)
class FineTune(FineTuning):
    """A Broader Study of Cross-Domain Few-Shot Learning: Guo et al., 2020, arXiv:1912.07200.

    A fresh linear head and the encoder are trained on the supports, anew for every task; queries
    are answered one by one, by the batch statistics that fitting has left. With `trains = "head"`
    it is the study's fixed encoder: the linear probe by SGD.
    """

    card: ClassVar = MethodCard(
        title="Fine-tune",
        paper="Guo et al., 2020",
        summary="a linear head and the encoder, trained on the supports",
        takes="none",
        needs="weights",
    )
    trains: Literal["all", "head"] = setting("all", "head and encoder; or the head alone")

    @property
    def what_trains(self) -> Literal["all", "head"]:
        """Head and encoder, or the head alone."""
        return self.trains

    def answer_by(self, fitted: Fitted, task: Task) -> Solution:
        """Return W f(q) + b."""
        return Solution(fitted.scores(fitted.encoder.encode(task.query)), fitted.record())
