"""Drawing episodes from a packed data set: a pure function of the data, the settings and a seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from appl.core.episode import OUT_OF_DISTRIBUTION, Episode, Task
from appl.core.seeds import generator_for
from appl.datasets.packed import PackedImages
from appl.errors import TaskError

MOST_DRAWS = 100  # of supports, until the groups that they take leave enough queries


@dataclass(frozen=True)
class EpisodeDraw:
    """Which images make up an episode: indices into a data set, and their classes in the task."""

    support: Tensor  # (n_support,)
    class_ids: Tensor  # (n_support,) 0 … n_way − 1
    query: Tensor  # (n_query,)
    query_class_ids: Tensor  # (n_query,), an out-of-distribution one has −1

    @classmethod
    def of(cls, data: PackedImages, support: Tensor, query: Tensor) -> Self:
        """Give classes their ids in the order of the supports; other queries have none."""
        classes = list(dict.fromkeys(data.class_ids[support].tolist()))
        class_id = torch.full((len(data.class_names),), OUT_OF_DISTRIBUTION)
        class_id[classes] = torch.arange(len(classes))
        return cls(
            support, class_id[data.class_ids[support]], query, class_id[data.class_ids[query]]
        )

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
    n_ood: int = 0,
    groups_apart: bool = False,
    seed: int = 0,
    index: int = 0,
) -> EpisodeDraw:
    """Draw episode number `index`: classes, then images of each without replacement.

    With `dirichlet` > 0 the n_way × n_query queries are shared out among the classes at random,
    the more unevenly the smaller it is. `n_ood` queries more are of classes outside the
    episode. With `groups_apart` no patient or lesion has images among both supports and queries.
    Classes and supports stay those of the plain episode (with groups apart: unless they leave too
    few queries). No image is ever in both support and query. Queries are shuffled, since graph
    methods can read a class from its place.
    """
    if len(class_names) < n_way:
        raise TaskError(f"{len(class_names)} classes are too few for a {n_way}-way episode")
    parts = (data.digest, seed, index, n_way, n_shot, n_query)
    generator = generator_for("episode", *parts)
    picked = torch.randperm(len(class_names), generator=generator)[:n_way].tolist()
    chosen = [class_names[i] for i in picked]
    least = 1 if dirichlet else n_query
    if groups_apart:
        support, left = _split_groups(data, chosen, n_shot, least, n_way * n_query, generator)
    else:
        support, left = _split(data, chosen, n_shot, least, generator)
    counts = [n_query] * n_way
    if dirichlet:
        room = [len(members) for members in left]
        uneven = generator_for("query counts", *parts, dirichlet)
        counts = uneven_counts(n_way * n_query, room, dirichlet, uneven)
    query = torch.cat([members[:n] for members, n in zip(left, counts, strict=True)])
    if n_ood:
        pool = [data.members(name) for name in class_names if name not in chosen]
        if groups_apart:
            pool = [_without_groups(data, members, support) for members in pool]
        outside = generator_for("strangers", *parts, n_ood)  # the word is part of stored draws
        query = torch.cat([query, _outside(pool, n_ood, outside)])
    order = torch.randperm(len(query), generator=generator)
    return EpisodeDraw.of(data, support, query[order])


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


def _split(
    data: PackedImages,
    chosen: Sequence[str],
    n_shot: int,
    least: int,
    generator: torch.Generator,
) -> tuple[Tensor, list[Tensor]]:
    """Shuffle each class; return the supports of all, and what is left of each for queries."""
    shuffled = []
    for name in chosen:
        members = data.members(name)
        if len(members) < n_shot + least:
            raise TaskError(
                f"class {name!r} has {len(members)} images; {n_shot} supports and "
                f"{least} queries need {n_shot + least}"
            )
        shuffled.append(members[torch.randperm(len(members), generator=generator)])
    support = torch.cat([members[:n_shot] for members in shuffled])
    return support, [members[n_shot:] for members in shuffled]


def _split_groups(
    data: PackedImages,
    chosen: Sequence[str],
    n_shot: int,
    least: int,
    total: int,
    generator: torch.Generator,
) -> tuple[Tensor, list[Tensor]]:
    """Split until the groups of the supports leave enough: `least` of each class, `total` of all.

    Every split that does is as likely as any other.
    """
    for _ in range(MOST_DRAWS):
        support, rest = _split(data, chosen, n_shot, least, generator)
        left = [_without_groups(data, members, support) for members in rest]
        counts = [len(members) for members in left]
        if min(counts) >= least and sum(counts) >= total:
            return support, left
    smallest = chosen[counts.index(min(counts))]
    raise TaskError(
        f"class {smallest!r} has {min(counts)} images left for queries when the groups (patients, "
        f"lesions) of {n_shot} supports per class stay out, in each of {MOST_DRAWS} draws too few; "
        "ask for fewer shots or queries"
    )


def _without_groups(data: PackedImages, members: Tensor, support: Tensor) -> Tensor:
    """Leave out the images whose group has an image among the supports."""
    if data.group_ids is None:
        return members
    taken = data.group_ids[support]
    return members[~torch.isin(data.group_ids[members], taken[taken >= 0])]


def _outside(pool: Sequence[Tensor], n_ood: int, generator: torch.Generator) -> Tensor:
    n_images = sum(len(members) for members in pool)
    if n_images < n_ood:
        raise TaskError(
            f"the {len(pool)} classes outside the episode have {n_images} images to be "
            f"out-of-distribution queries, {n_ood} are asked for; ask for fewer"
        )
    return torch.cat(list(pool))[torch.randperm(n_images, generator=generator)[:n_ood]]
