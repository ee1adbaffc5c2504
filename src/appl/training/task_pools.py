"""Pools of described images that tasks of all kinds are drawn from, for what learns over tasks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load, save
from torch import Tensor

from appl.core.files import write_atomically
from appl.datasets.disguises import DISGUISES
from appl.datasets.drawn import DRAWN, drawn_images
from appl.datasets.packed import PackedImages
from appl.encoders import Describer, Encoder
from appl.encoders.describing import resized

BATCH = 64
LEFT_FOR_QUERIES = 5  # images that a class must have beyond its supports
TEXTURE_WEIGHT = 0.5

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class TaskDraw:
    """A task by the numbers of its images."""

    support: Tensor
    class_ids: Tensor
    query: Tensor
    query_class_ids: Tensor  # −1: of none of the classes


@dataclass(frozen=True)
class TaskPool:
    """Images of one domain, described: `kinds` are features, and others if there are any."""

    name: str
    kinds: tuple[Tensor, ...]  # features; the same and texture, each with the mirror image's mean
    class_ids: Tensor

    def members(self) -> list[Tensor]:
        """Return the images of each class."""
        n_classes = int(self.class_ids.max()) + 1
        return [(self.class_ids == c).nonzero().flatten() for c in range(n_classes)]

    def draw(
        self,
        generator: torch.Generator,
        *,
        n_way: int,
        n_shot: int,
        n_query: int,
        dirichlet: float,
        n_ood: int,
    ) -> TaskDraw:
        """Draw a task; `dirichlet` is how even the pile is (0: even), as in the benchmark.

        Where the classes have too few images, others of no class stand in for them, so that
        every pile has `n_query + n_ood` images.
        """
        members = [m for m in self.members() if len(m) >= n_shot + LEFT_FOR_QUERIES]
        order = torch.randperm(len(members), generator=generator).tolist()
        chosen = [members[i] for i in order[:n_way]]
        others = [members[i] for i in order[n_way:]] or [members[i] for i in order[:1]]
        counts = torch.full((n_way,), n_query // n_way)
        counts[: n_query % n_way] += 1
        if dirichlet:
            shares = torch._sample_dirichlet(torch.full((n_way,), dirichlet), generator=generator)
            drawn = torch.multinomial(shares, n_query, replacement=True, generator=generator)
            counts = drawn.bincount(minlength=n_way)
        support, query, truth = [], [], []
        for class_id, (pool, count) in enumerate(zip(chosen, counts.tolist(), strict=True)):
            shuffled = pool[torch.randperm(len(pool), generator=generator)]
            support.append(shuffled[:n_shot])
            query.append(shuffled[n_shot : n_shot + count])
            truth.append(torch.full((len(query[-1]),), class_id))
        n_missing = n_query + n_ood - sum(map(len, query))
        strange = torch.cat(others)
        query.append(strange[torch.randint(len(strange), (n_missing,), generator=generator)])
        truth.append(torch.full((n_missing,), -1))
        class_ids = torch.arange(n_way).repeat_interleave(n_shot)
        return TaskDraw(torch.cat(support), class_ids, torch.cat(query), torch.cat(truth))

    def most_ways(self, n_shot: int) -> int:
        """Return how many classes a task with so many examples per class can have."""
        return sum(len(m) >= n_shot + LEFT_FOR_QUERIES for m in self.members())


@dataclass(frozen=True)
class Domain:
    """Images of some classes before they are described: how many, and a part of them by number."""

    name: str
    class_ids: Tensor
    images: Callable[[Tensor], Tensor]  # numbers (n,) → uint8 (n, 3, px, px)


def source_domains(
    source: PackedImages, class_names: Sequence[str], n_images: int, disguises: Sequence[str]
) -> Iterator[Domain]:
    """Give classes of a source as they are and in disguise, `n_images` per class spread evenly."""
    index, ids = [], []
    for class_id, name in enumerate(class_names):
        members = source.members(name)
        spread = torch.linspace(0, len(members) - 1, min(n_images, len(members))).round().long()
        index.append(members[spread])
        ids.append(torch.full((len(spread),), class_id))
    all_images, class_ids = torch.cat(index), torch.cat(ids)
    for name in disguises:
        change = DISGUISES[name]

        def images(
            rows: Tensor,
            change: Callable[[Tensor], Tensor] = change,
            all_images: Tensor = all_images,
        ) -> Tensor:
            return change(source.images(all_images[rows]))

        yield Domain(name, class_ids, images)


def drawn_domains(n_classes: int, n_images: int) -> Iterator[Domain]:
    """Give the domains that are drawn by a program."""
    class_ids = torch.arange(n_classes).repeat_interleave(n_images)
    for kind in DRAWN if n_classes else ():

        def images(rows: Tensor, kind: str = kind) -> Tensor:
            return drawn_images(kind, class_ids[rows], rows % n_images)

        yield Domain(f"drawn_{kind}", class_ids, images)


@torch.no_grad()
def described_pool(
    domain: Domain, encoder: Encoder, size_px: int, file: Path, on_progress: OnProgress
) -> TaskPool:
    """Describe a domain's images, or read what an earlier call left in `file`."""
    if not file.exists():
        describer = Describer((encoder,), (size_px,), False, TEXTURE_WEIGHT)
        parts: list[list[Tensor]] = []
        rows = torch.arange(len(domain.class_ids))
        for part in rows.split(BATCH):
            images = resized(domain.images(part), size_px)
            plain, mirrored = describer.in_parts(images), describer.in_parts(images.flip(3))
            means = [(a + b) / 2 for a, b in zip(plain, mirrored, strict=True)]
            parts.append([kind.half() for kind in (plain[0], *means)])
            on_progress(int(part[-1]) + 1, len(rows))
        kinds = [torch.cat(kind) for kind in zip(*parts, strict=True)]
        names = {str(number): kind for number, kind in enumerate(kinds)}
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, save(names))
    tensors = load(file.read_bytes())
    kinds_read = tuple(tensors[str(number)] for number in range(len(tensors)))
    return TaskPool(domain.name, kinds_read, domain.class_ids)
