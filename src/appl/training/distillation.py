"""Self-distillation: the weights that a training starts from teach it (Tian et al., 2020).

A class of the source is more than its name: that a wolf looks a little like a dog is in the
teacher's probabilities, and features that keep such likenesses serve classes never seen better.
"""

from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from appl.encoders import Encoder


class Teacher(nn.Module):
    """A frozen copy of the starting encoder with a class head of its own.

    Weights files hold no class head, so this one is learnt beside the student's, on features that
    do not change; no gradient of the student reaches it.
    """

    def __init__(self, encoder: Encoder, n_classes: int) -> None:
        super().__init__()
        self._encoder = [deepcopy(encoder).eval().requires_grad_(False)]  # not in the state dict
        self.head = nn.Linear(encoder.meta.width, n_classes)

    @torch.no_grad()
    def features(self, pixels: Tensor) -> Tensor:
        """Encode normalised images as the starting weights do."""
        features: Tensor = self._encoder[0](pixels)
        return features

    def losses(
        self, pixels: Tensor, class_ids: Tensor, scores: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Return what teaches the teacher's head, and what teaches the student: T²·KL(t ‖ s)."""
        own = self.head(self.features(pixels))
        target = F.log_softmax(own.detach() / temperature, 1)
        answer = F.log_softmax(scores / temperature, 1)
        divergence = F.kl_div(answer, target, reduction="batchmean", log_target=True)
        return F.cross_entropy(own, class_ids), temperature**2 * divergence
