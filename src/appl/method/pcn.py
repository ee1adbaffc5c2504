"""The prototype calculator network ψ_φ (eq. prototypes): one linear layer K'·D → D, then ReLU."""

from typing import Literal

import torch
from torch import Tensor, nn


class PCN(nn.Module):
    """Compute a class's prototype p_n from its K' slot vectors.

    With initialisation `mean` the weights are blocks I/K', so the prototype is the mean of the
    slots while that mean is non-negative: ProtoNet exactly. `random` is torch's default, the
    literal reading of "φ ← φ0" (A21).
    """

    def __init__(
        self, width: int, n_slots: int = 5, initialisation: Literal["mean", "random"] = "mean"
    ) -> None:
        super().__init__()
        self.width, self.n_slots = width, n_slots
        self.linear = nn.Linear(n_slots * width, width)
        if initialisation == "mean":
            with torch.no_grad():
                self.linear.weight.copy_(torch.eye(width).repeat(1, n_slots) / n_slots)
                self.linear.bias.zero_()

    def forward(self, slots: Tensor) -> Tensor:
        """Return prototypes (n, width) of slot vectors (n, n_slots, width), in their order."""
        return torch.relu(self.linear(slots.flatten(1)))

    def symmetric(self, slot_mean: Tensor) -> Tensor:
        """Return what `forward` gives before its ReLU, averaged over all orders, then the ReLU.

        Each block of weights meets each slot equally often, so the average over the orders is the
        sum of the blocks applied to the mean slot (n, width): exact, at the cost of one order.
        """
        blocks = self.linear.weight.view(self.width, self.n_slots, self.width)
        return torch.relu(slot_mean @ blocks.sum(1).mT + self.linear.bias)
