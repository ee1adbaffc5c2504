"""Many plain episodes at once: the same as `draw_episode` gives one by one, much faster.

A frozen row solves an episode in less time than torch takes to draw it, so here the permutations of
many episodes advance together. `torch.randperm` on a seeded CPU generator is a Fisher–Yates shuffle
on the words of a Mersenne Twister, which NumPy has as well; only the beginning of each permutation
is needed. A test holds both ways against each other.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from appl.core.seeds import seed_of
from appl.datasets.episodes import EpisodeDraw, draw_episode
from appl.datasets.packed import PackedImages

Ints = NDArray[np.int64]


def draw_episodes(
    data: PackedImages,
    class_names: Sequence[str],
    indices: Sequence[int],
    *,
    n_way: int,
    n_shot: int,
    n_query: int,
    seed: int,
    **options: float | int | bool,
) -> EpisodeDraw:
    """Draw episodes; every field of the result has one row per episode.

    With any of `draw_episode`'s further options in use, they are drawn one by one.
    """
    members = [data.members(name).numpy() for name in class_names]
    plain = not any(options.values()) and len(members) >= n_way
    if not plain or min(map(len, members)) < n_shot + n_query:
        drawn = [
            draw_episode(
                data, class_names, n_way=n_way, n_shot=n_shot, n_query=n_query, seed=seed,
                index=index, **options,  # type: ignore[arg-type]
            )
            for index in indices
        ]  # fmt: skip
        return stacked(drawn)
    counts = np.array([len(rows) for rows in members])
    table = np.zeros((len(members), counts.max()), np.int64)  # the images of each class, padded
    for row, rows in zip(table, members, strict=True):
        row[: len(rows)] = rows
    n_words = len(members) - 1 + n_way * (int(counts.max()) - 1) + n_way * n_query
    twister = np.random.RandomState()
    words = np.empty((len(indices), n_words), np.int64)
    for row, index in zip(words, indices, strict=True):
        # As torch seeds its generator in `draw_episode`: by the lower 32 bits.
        parts = (data.digest, seed, index, n_way, n_shot, n_query)
        twister.seed(seed_of("episode", *parts) & 0xFFFFFFFF)
        row[:] = np.frombuffer(twister.bytes(4 * n_words), np.uint32)
    every = np.arange(len(words))
    used = np.zeros(len(words), np.int64)  # of each episode's words

    def shuffled(sizes: Ints, n_kept: int) -> Ints:
        """Return the first entries of a permutation an episode, of 0 … size − 1."""
        steps = np.arange(n_kept)
        left = sizes[:, None] - steps
        # The last entry of a permutation takes no word: there is nothing to choose.
        jumps = words[every[:, None], used[:, None] + steps] % np.maximum(left, 1)
        # One row a place, one column an episode, so that a step swaps whole rows.
        order = np.repeat(np.arange(sizes.max()), len(words))
        others = ((steps + jumps) * len(words) + every[:, None]).T.copy()
        for other, here in zip(others, order.reshape(-1, len(words)), strict=False):
            taken = order[other]
            order[other] = here
            here[:] = taken
        used[:] += np.maximum(sizes - 1, 0)
        return order.reshape(-1, len(words))[:n_kept].T

    chosen = shuffled(np.full(len(words), len(members)), n_way)  # (episode, slot) → class
    images: list[Ints] = []
    for slot in range(n_way):
        classes = chosen[:, slot]
        taken = shuffled(counts[classes], n_shot + n_query)
        images.append(table[classes[:, None], taken])
    support = np.concatenate([part[:, :n_shot] for part in images], 1)
    query = np.concatenate([part[:, n_shot:] for part in images], 1)
    order = shuffled(np.full(len(words), n_way * n_query), n_way * n_query)
    slots = np.arange(n_way)
    return EpisodeDraw(
        torch.from_numpy(support),
        torch.from_numpy(np.tile(slots.repeat(n_shot), (len(words), 1))),
        torch.from_numpy(np.take_along_axis(query, order, 1)),
        torch.from_numpy(slots.repeat(n_query)[order]),
    )


def stacked(drawn: Sequence[EpisodeDraw]) -> EpisodeDraw:
    """Put episodes of one shape together, one row each."""
    return EpisodeDraw(
        *(
            torch.stack([getattr(draw, field) for draw in drawn])
            for field in ("support", "class_ids", "query", "query_class_ids")
        )
    )
