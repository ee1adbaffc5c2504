"""The parts of HVM: diagonal Gaussians by small networks, and a memory of classes at each level."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from appl.core.distances import squared_distances

FIRST_LOG_VARIANCE = -4.0  # of untrained prototypes: small beside the features of ResNet10
MOST_CHANGE = 4.0  # of a log-variance, by what a network reads
FIRST_SCALE = 64.0  # of untrained scores, so that ResNet10's mean squares are not all alike


@dataclass(frozen=True)
class Belief:
    """A diagonal Gaussian over vectors (…, width), and a draw from it: its mean, without noise."""

    mean: Tensor
    log_variance: Tensor
    drawn: Tensor


def divergence(q: Belief, p: Belief) -> Tensor:
    """Return KL(q ‖ p), added up over the width, the mean over all else."""
    ratio = (q.log_variance - p.log_variance).exp()
    distance = (q.mean - p.mean).square() / p.log_variance.exp()
    return 0.5 * (ratio + distance - 1 + p.log_variance - q.log_variance).sum(-1).mean()


class Gaussian(nn.Module):
    """Three layers that move a centre and say how uncertain it is; untrained, they leave it."""

    def __init__(self, width: int, n_in: int, n_hidden: int) -> None:
        super().__init__()
        self.hidden = nn.Sequential(
            nn.Linear(n_in, n_hidden), nn.ELU(), nn.Linear(n_hidden, n_hidden), nn.ELU()
        )
        self.last = nn.Linear(n_hidden, 2 * width)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, centre: Tensor, seen: list[Tensor], noise: Tensor | None = None) -> Belief:
        """Return the belief around `centre`; `seen` is what the network reads."""
        # Divided so that one step of Adam on the wide last layer does not throw the centre away.
        output = self.last(self.hidden(torch.cat(seen, -1))) / self.last.in_features**0.5
        move, change = output.chunk(2, -1)
        mean = centre + move
        log_variance = FIRST_LOG_VARIANCE + MOST_CHANGE * torch.tanh(change / MOST_CHANGE)
        drawn = mean if noise is None else mean + (0.5 * log_variance).exp() * noise
        return Belief(mean, log_variance, drawn)


class Level(nn.Module):
    """One depth: its memory, the belief in a prototype, and the one that knows the queries too."""

    keys: Tensor
    means: Tensor
    log_variances: Tensor

    def __init__(self, width: int, below: int, n_hidden: int, n_classes: int) -> None:
        super().__init__()
        self.believe = Gaussian(width, 2 * width + below, n_hidden)
        self.guide = Gaussian(width, width + below, n_hidden)
        for name in ("keys", "means", "log_variances"):
            self.register_buffer(name, torch.zeros(n_classes, width))

    def read(
        self, asked: Tensor, readable: Tensor, n_addressed: int, noise: Tensor | None = None
    ) -> Tensor:
        """Return what the memory holds for vectors (…, width): zero where it holds nothing.

        The nearest rows by inner product, weighed by a softmax; means, or draws with `noise`.
        """
        n_rows = min(n_addressed, int(readable.sum()))
        if n_rows == 0:
            return torch.zeros_like(asked)
        match = asked @ self.keys.mT / asked.shape[-1] ** 0.5
        match = match.masked_fill(~readable, -torch.inf)
        values, rows = match.topk(n_rows, -1)
        weights = torch.softmax(values, -1)[..., None]
        mean = (weights * self.means[rows]).sum(-2)
        if noise is None:
            return mean
        log_variance = (weights * self.log_variances[rows]).sum(-2)
        return mean + (0.5 * log_variance).exp() * noise


class HierarchicalMemory(nn.Module):
    """All levels, their weights, and which classes the memories know."""

    written: Tensor
    n_tasks: Tensor

    def __init__(self, widths: list[int], n_hidden: int, n_classes: int) -> None:
        super().__init__()
        below = [0, *widths[:-1]]
        self.levels = nn.ModuleList(
            Level(width, under, n_hidden, n_classes)
            for width, under in zip(widths, below, strict=True)
        )
        self.preference = nn.Parameter(torch.zeros(len(widths)))
        self.log_scale = nn.Parameter(torch.tensor(FIRST_SCALE).log())
        self.register_buffer("written", torch.zeros(n_classes, dtype=torch.bool))
        self.register_buffer("n_tasks", torch.zeros((), dtype=torch.long))

    @property
    def _each(self) -> list[Level]:
        return [level for level in self.levels if isinstance(level, Level)]

    @property
    def level_weights(self) -> Tensor:
        """How much each level counts; they add up to one."""
        return torch.softmax(self.preference, 0)

    def prototypes(
        self,
        means: list[Tensor],
        readable: Tensor,
        n_addressed: int,
        n_samples: int = 0,
        generator: Generator | None = None,
    ) -> list[Belief]:
        """Return beliefs (n_way, …) level by level from class means, or with samples (n, n_way, …).

        Without samples nothing is drawn: every level goes on from the mean of the one below.
        """
        beliefs: list[Belief] = []
        for level, mean in zip(self._each, means, strict=True):
            centre = mean.expand(n_samples, *mean.shape) if n_samples else mean
            noises: list[Tensor | None] = [None, None]
            if n_samples:
                noises = [
                    torch.randn(centre.shape, generator=generator).to(centre) for _ in range(2)
                ]
            remembered = level.read(centre, readable, n_addressed, noises[0])
            below = [beliefs[-1].drawn] if beliefs else []
            beliefs.append(level.believe(centre, [centre, remembered, *below], noises[1]))
        return beliefs

    def guides(self, means: list[Tensor], drawn: list[Tensor]) -> list[Belief]:
        """Return the beliefs that know all images of the classes, above the same draws."""
        found = []
        for number, (level, mean) in enumerate(zip(self._each, means, strict=True)):
            centre = mean.expand(drawn[number].shape)
            below = [drawn[number - 1]] if number else []
            found.append(level.guide(centre, [centre, *below]))
        return found

    def scores(self, queries: list[Tensor], prototypes: list[Tensor]) -> Tensor:
        """Return γ·Σ_l a_l·(−‖f(q) − z‖² / d_l), (n_query, n_way) or with samples before that."""
        levels = [
            weight * squared_distances(query, prototype) / query.shape[1]
            for weight, query, prototype in zip(
                self.level_weights, queries, prototypes, strict=True
            )
        ]
        return -self.log_scale.exp() * torch.stack(levels).sum(0)

    @torch.no_grad()
    def remember(self, classes: Tensor, means: list[Tensor], kept_share: float) -> None:
        """Write classes (n_way,) into every memory: what is there counts `kept_share`."""
        beliefs: list[Belief] = []
        share = kept_share * self.written[classes, None].float()
        for level, mean in zip(self._each, means, strict=True):
            below = [beliefs[-1].mean] if beliefs else []
            beliefs.append(level.guide(mean, [mean, *below]))
            news = {
                "keys": mean,
                "means": beliefs[-1].mean,
                "log_variances": beliefs[-1].log_variance,
            }
            for name, new in news.items():
                rows = getattr(level, name)
                mixed = share * rows[classes] + (1 - share) * new.to(rows)
                # New tensors: the old ones are still needed for the gradients of what was read.
                setattr(level, name, rows.index_copy(0, classes, mixed))
        self.written = self.written.index_fill(0, classes, True)
        self.n_tasks = self.n_tasks + 1
