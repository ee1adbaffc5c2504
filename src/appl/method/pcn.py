"""The prototype calculator network ψ_φ (eq. prototypes): one linear layer K'·D → D, then ReLU."""

from typing import Literal

import torch
from torch import Tensor, nn


class PCN(nn.Module):
    """Compute a class's prototype p_n from its K' slot vectors.

    With initialisation `mean` the weights are blocks I/K', so the prototype is the mean of the
    slots: ProtoNet exactly. `random` is torch's default, the literal reading of "φ ← φ0" (A21).

    The paper's ReLU keeps prototypes where its encoder's features are, at zero or above. Where an
    encoder's features may be negative it would cut their means off, so there it is left out
    (`rectifies` = False).
    """

    def __init__(
        self,
        width: int,
        n_slots: int = 5,
        initialisation: Literal["mean", "random"] = "mean",
        *,
        rectifies: bool = True,
    ) -> None:
        super().__init__()
        self.width, self.n_slots, self.rectifies = width, n_slots, rectifies
        self.linear = nn.Linear(n_slots * width, width)
        if initialisation == "mean":
            with torch.no_grad():
                self.linear.weight.copy_(self._mean_weight())
                self.linear.bias.zero_()

    def forward(self, slots: Tensor) -> Tensor:
        """Return prototypes (n, width) of slot vectors (n, n_slots, width), in their order."""
        return self._rectified(self.linear(slots.flatten(1)))

    def symmetric(self, slot_mean: Tensor) -> Tensor:
        """Return what `forward` gives before its ReLU, averaged over all orders, then the ReLU.

        Each block of weights meets each slot equally often, so the average over the orders is the
        sum of the blocks applied to the mean slot (n, width): exact, at the cost of one order.
        """
        blocks = self.linear.weight.view(self.width, self.n_slots, self.width)
        return self._rectified(slot_mean @ blocks.sum(1).mT + self.linear.bias)

    @property
    def is_class_mean(self) -> bool:
        """Whether it is what `mean` starts it as: an untrained average, fp16 rounding aside."""
        weight, bias = self.linear.weight.detach(), self.linear.bias.detach()
        mean = self._mean_weight().to(weight)
        return bool(torch.equal(weight.half(), mean.half()) and not bias.any())

    @property
    def summary(self) -> str:
        """Say in words what it is, for tables, lists and records."""
        return "class mean (untrained)" if self.is_class_mean else "trained"

    def _mean_weight(self) -> Tensor:
        return torch.eye(self.width).repeat(1, self.n_slots) / self.n_slots

    def _rectified(self, prototypes: Tensor) -> Tensor:
        return torch.relu(prototypes) if self.rectifies else prototypes
