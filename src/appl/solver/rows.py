"""APPL as a row of the benchmark, registered like every rival."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from appl.core.episode import Task
from appl.core.methods import METHODS, MethodCard, Solution
from appl.encoders import Encoder
from appl.method.pcn import PCN
from appl.settings.files import structure_settings
from appl.settings.solving import SolveSettings
from appl.solver.solve import Solved, solve_task
from appl.solver.variants import variant


@METHODS.register("appl")
@dataclass(frozen=True)
class APPL:
    """Adaptive Parametric Prototype Learning: Heidari et al., Algorithm 2."""

    card: ClassVar = MethodCard(
        title="APPL",
        paper="Heidari et al.",
        summary="self-training of the encoder towards parametric prototypes",
        takes="transductive",
        takes_several=True,
    )
    preset: str = "robust"
    variant: str = ""  # one of Table 3's; none: the whole method
    changes: dict[str, Any] = field(default_factory=dict)  # of the preset's settings

    @property
    def takes(self) -> str:
        """The card's tag, save for the variant that answers each query by itself."""
        return "none" if self.variant == "protonet" else self.card.takes

    def settings(self) -> SolveSettings:
        """Return the settings that this row stands for."""
        values = {"preset": self.preset, **self.changes}
        settings = structure_settings(SolveSettings, values, f"appl {self.preset}")
        return variant(settings, self.variant) if self.variant else settings

    def solve(
        self, encoder: Encoder, pcn: PCN, task: Task, beside: Sequence[Encoder] = ()
    ) -> Solution:
        """Adapt a copy of the encoder, and of those beside it, to the task."""
        solved = solve_task(encoder, pcn, task, self.settings(), beside=beside)
        return Solution(solved.scores, _record(solved))


def _record(solved: Solved) -> dict[str, Any]:
    """Keep of the iterations what explains a result, small enough for every episode."""
    records = solved.records
    return {
        "termination": solved.termination,
        "changes": list(solved.adaptation.augmentations),
        "n_iterations": len(records),
        "loss": [round(record.loss, 4) for record in records[:: max(1, len(records) // 5)]],
        "n_label_changes": sum(record.n_label_changes for record in records),
        "support_accuracy": round(records[-1].support_accuracy, 4) if records else None,
        "balance": [round(share, 3) for share in records[-1].class_balance] if records else None,
    }
