"""Drawing episodes from a packed data set: a pure function of the data, the settings and a seed."""

import torch

from appl.core.episode import Episode, Task
from appl.core.seeds import generator_for
from appl.datasets.packed import PackedImages
from appl.errors import TaskError


def sample_episode(
    data: PackedImages,
    class_names: list[str],
    *,
    n_way: int = 5,
    n_shot: int = 5,
    n_query: int = 15,
    seed: int = 0,
    index: int = 0,
) -> Episode:
    """Return episode number `index`: classes, then images of each without replacement.

    No image is ever in both support and query. Queries are shuffled, since graph methods can read
    a class from its place.
    """
    if len(class_names) < n_way:
        raise TaskError(f"{len(class_names)} classes are too few for a {n_way}-way episode")
    generator = generator_for("episode", data.digest, seed, index, n_way, n_shot, n_query)
    chosen = torch.randperm(len(class_names), generator=generator)[:n_way].tolist()
    support, query = [], []
    for name in (class_names[i] for i in chosen):
        members = data.members(name)
        if len(members) < n_shot + n_query:
            raise TaskError(
                f"class {name!r} has {len(members)} images; {n_shot} supports and {n_query} "
                f"queries need {n_shot + n_query}"
            )
        picked = members[torch.randperm(len(members), generator=generator)[: n_shot + n_query]]
        support.append(picked[:n_shot])
        query.append(picked[n_shot:])
    query_class_ids = torch.arange(n_way).repeat_interleave(n_query)
    order = torch.randperm(len(query_class_ids), generator=generator)
    task = Task(
        data.images(torch.cat(support)),
        torch.arange(n_way).repeat_interleave(n_shot),
        data.images(torch.cat(query)[order]),
    )
    return Episode(task, query_class_ids[order])
