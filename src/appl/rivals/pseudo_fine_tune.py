"""Fine-tuning on pseudo-episodes: changed copies of the supports are the queries."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from appl.core.distances import class_means, squared_distances
from appl.core.episode import Task
from appl.core.images import turn
from appl.core.methods import METHODS, MethodCard, Solution
from appl.core.seeds import generator_for
from appl.encoders import Encoder
from appl.encoders.batch_statistics import with_batch_statistics
from appl.settings.checks import check_ranges, setting


@METHODS.register("pseudo_fine_tune")
@dataclass(frozen=True)
class PseudoFineTune:
    """ProtoNet, fine-tuned on a task's supports alone: the way of Wang and Deng, 2021, and others.

    All weights take steps down the cross-entropy of pseudo-queries, changed copies of the supports,
    by −‖z − p_n‖², p_n the means of the clean supports. A query is answered by the nearest mean.
    """

    card: ClassVar = MethodCard(
        title="Pseudo-episode fine-tune",
        paper="Wang and Deng, 2021",
        summary="ProtoNet's loss on changed copies of the supports",
        takes="none",
        needs="weights",
    )
    n_steps: int = setting(100, "of Adam on all weights", 0)
    rate: float = setting(1e-3, "of Adam", 0)
    n_copies: int = setting(1, "of each support, made anew for every step", 1)
    seed: int = setting(0, "of the changes")

    def __post_init__(self) -> None:
        check_ranges(self)

    def solve(
        self,
        encoder: Encoder,
        pcn: nn.Module,  # noqa: ARG002
        task: Task,
        beside: Sequence[nn.Module] = (),  # noqa: ARG002
    ) -> Solution:
        """Return the scores of a copy that was fine-tuned."""
        encoder = deepcopy(encoder).eval().requires_grad_(True)
        generator = generator_for("pseudo-queries", self.seed)
        support = task.images()[: task.n_support]
        class_ids = task.class_ids.to(encoder.device)
        adam = torch.optim.Adam(encoder.parameters(), lr=self.rate)
        losses = []
        for _ in range(self.n_steps):
            copies = changed(support.repeat(self.n_copies, 1, 1, 1), generator)
            pixels = encoder.normalise(torch.cat([support, copies]))
            # One batch, as in the training of an episode.
            features = with_batch_statistics(encoder, pixels)
            means = class_means(features[: task.n_support], class_ids, task.n_way)
            scores = -squared_distances(features[task.n_support :], means)
            loss = F.cross_entropy(scores, class_ids.repeat(self.n_copies))
            adam.zero_grad()
            loss.backward()
            adam.step()
            losses.append(loss.item())
        means = class_means(encoder.encode(task.support), class_ids, task.n_way)
        kept = [round(loss, 4) for loss in losses[:: max(1, len(losses) // 5)]]
        scores = -squared_distances(encoder.encode(task.query), means)
        return Solution(scores, {"n_steps": self.n_steps, "loss": kept})


def changed(images: Tensor, generator: Generator) -> Tensor:
    """Return changed copies of square float images (n, 3, h, w), each change by its own chance.

    A gamma of 1 to 1.5 (0.3), a part erased by the image's mean (0.5), channels in another order
    (0.3), a mirror image (0.5), turns by a quarter, a half or three quarters (0.5).
    """
    n = len(images)

    def happens(chance: float) -> Tensor:
        return torch.rand(n, generator=generator).to(images.device) < chance

    gamma = 1 + 0.5 * torch.rand(n, generator=generator).to(images) * happens(0.3)
    images = images.clamp(0, 1) ** gamma.view(-1, 1, 1, 1)
    erased = _parts(images, generator) & happens(0.5).view(-1, 1, 1, 1)
    images = torch.where(erased, images.mean((1, 2, 3), keepdim=True), images)
    order = torch.rand(n, 3, generator=generator).argsort(1).to(images.device)
    shuffled = images.gather(1, order.view(n, 3, 1, 1).expand_as(images))
    images = torch.where(happens(0.3).view(-1, 1, 1, 1), shuffled, images)
    side = int(torch.randint(2, 4, (1,), generator=generator))  # up and down, or left and right
    images = torch.where(happens(0.5).view(-1, 1, 1, 1), images.flip(side), images)
    quarters = torch.randint(1, 4, (n,), generator=generator).to(images.device)
    return turn(images, torch.where(happens(0.5), quarters, 0))


def _parts(images: Tensor, generator: Generator) -> Tensor:
    """Mark a rectangle of each image (n, 1, h, w): 2 to 20 % of its area, sides up to 3 : 1."""
    n, _, height, width = images.shape
    draws = torch.rand(4, n, generator=generator).to(images)
    area, ratio = 0.02 + 0.18 * draws[0], 3.0 ** (2 * draws[1] - 1)
    tall, wide = (area * ratio).sqrt(), (area / ratio).sqrt()  # shares of the sides
    rows = (torch.arange(height, device=images.device) + 0.5) / height
    columns = (torch.arange(width, device=images.device) + 0.5) / width
    top, left = draws[2] * (1 - tall), draws[3] * (1 - wide)
    in_rows = (rows > top[:, None]) & (rows < (top + tall)[:, None])
    in_columns = (columns > left[:, None]) & (columns < (left + wide)[:, None])
    return (in_rows[:, :, None] & in_columns[:, None]).unsqueeze(1)
