"""Drawing episodes from a packed data set: a pure function of the data, the settings and a seed."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from appl.core.episode import Episode, Task
from appl.core.seeds import generator_for
from appl.datasets.packed import PackedImages
from appl.errors import TaskError


@dataclass(frozen=True)
class EpisodeDraw:
    """Which images make up an episode: indices into a data set, and their classes in the task."""

    support: Tensor  # (n_support,)
    class_ids: Tensor  # (n_support,) 0 … n_way − 1
    query: Tensor  # (n_query,)
    query_class_ids: Tensor  # (n_query,)

    def load(self, data: PackedImages) -> Episode:
        """Take the images out of the data set."""
        task = Task(data.images(self.support), self.class_ids, data.images(self.query))
        return Episode(task, self.query_class_ids)


def draw_episode(
    data: PackedImages,
    class_names: Sequence[str],
    *,
    n_way: int = 5,
    n_shot: int = 5,
    n_query: int = 15,
    dirichlet: float = 0.0,
    seed: int = 0,
    index: int = 0,
) -> EpisodeDraw:
    """Draw episode number `index`: classes, then images of each without replacement.

    With `dirichlet` > 0 the n_way × n_query queries are shared out among the classes at random,
    the more unevenly the smaller it is; classes and supports stay those of the even episode. No
    image is ever in both support and query. Queries are shuffled, since graph methods can read a
    class from its place.
    """
    if len(class_names) < n_way:
        raise TaskError(f"{len(class_names)} classes are too few for a {n_way}-way episode")
    generator = generator_for("episode", data.digest, seed, index, n_way, n_shot, n_query)
    chosen = torch.randperm(len(class_names), generator=generator)[:n_way].tolist()
    shuffled = []
    for name in (class_names[i] for i in chosen):
        members = data.members(name)
        needed = n_shot + (1 if dirichlet else n_query)
        if len(members) < needed:
            raise TaskError(
                f"class {name!r} has {len(members)} images; {n_shot} supports and "
                f"{needed - n_shot} queries need {needed}"
            )
        shuffled.append(members[torch.randperm(len(members), generator=generator)])
    counts = [n_query] * n_way
    if dirichlet:
        room = [len(members) - n_shot for members in shuffled]
        parts = ("query counts", data.digest, seed, index, n_way, n_shot, n_query, dirichlet)
        counts = uneven_counts(n_way * n_query, room, dirichlet, generator_for(*parts))
    query_class_ids = torch.repeat_interleave(torch.arange(n_way), torch.tensor(counts))
    order = torch.randperm(len(query_class_ids), generator=generator)
    query = torch.cat([m[n_shot : n_shot + n] for m, n in zip(shuffled, counts, strict=True)])
    return EpisodeDraw(
        support=torch.cat([members[:n_shot] for members in shuffled]),
        class_ids=torch.arange(n_way).repeat_interleave(n_shot),
        query=query[order],
        query_class_ids=query_class_ids[order],
    )


def uneven_counts(
    total: int, room: Sequence[int], concentration: float, generator: torch.Generator
) -> list[int]:
    """Share `total` out by a Dirichlet draw, no class above its room.

    Counts are the shares rounded by largest remainder; what finds no room goes to the classes
    that have some, those furthest below their share first.
    """
    if sum(room) < total:
        raise TaskError(f"the classes have {sum(room)} images left for {total} queries; ask fewer")
    alphas = torch.full((len(room),), concentration, dtype=torch.float64)
    # A Dirichlet draw is a vector of Gamma draws divided by its sum.
    weights = torch._standard_gamma(alphas, generator=generator)
    shares = (weights / weights.sum() * total).tolist()
    counts = [min(int(share), limit) for share, limit in zip(shares, room, strict=True)]
    while sum(counts) < total:
        open_classes = [i for i, limit in enumerate(room) if counts[i] < limit]
        counts[max(open_classes, key=lambda i: shares[i] - counts[i])] += 1
    return counts
