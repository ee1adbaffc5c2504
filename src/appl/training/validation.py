"""How good a model is while it is trained: the same episodes of the validation classes always.

One sampler for every training, so that the same weights have the same number wherever it is shown:
the benchmark's own episodes, 5-way 5-shot with 15 queries per class unless a head asks for others,
drawn from images spread evenly over each class.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from appl.core.distances import squared_distances
from appl.core.episode import Task, right_answers
from appl.datasets.episodes import EpisodeDraw, draw_episode
from appl.datasets.packed import PackedImages
from appl.encoders import CACHE_BATCH, Encoder, Kind, features_of
from appl.errors import DataError

N_WAY, N_SHOT, N_QUERY = 5, 5, 15

# From supports (n_support, width) and their class ids to prototypes (n_way, width).
Prototypes = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class ValidationEpisodes:
    """Episodes of the validation classes: a pure function of the data and these numbers."""

    source: PackedImages
    class_names: list[str]
    n_episodes: int
    n_images: int  # per class that episodes are drawn from
    n_way: int = N_WAY
    n_shot: int = N_SHOT

    def draws(self) -> list[EpisodeDraw]:
        """Draw all episodes."""
        data = _thinned(self.source, self.class_names, self.n_images)
        return [
            draw_episode(
                data,
                self.class_names,
                n_way=self.n_way,
                n_shot=self.n_shot,
                n_query=N_QUERY,
                index=index,
            )
            for index in range(self.n_episodes)
        ]

    @torch.no_grad()
    def accuracy(self, answer: Callable[[Task], Tensor]) -> tuple[float, float]:
        """Return mean and 95 % half-width of the accuracy in % of a method that sees images."""
        return _summary(
            [(answer(draw.load(self.source).task), draw.query_class_ids) for draw in self.draws()]
        )

    def prototype_accuracy(self, encoder: Encoder, prototypes: Prototypes) -> tuple[float, float]:
        """Return the same of the nearest prototype; every image is encoded once.

        The encoder is left in eval mode: batch norms use what they remember.
        """
        return self.encoded(encoder).prototype_accuracy(prototypes)

    @torch.no_grad()
    def encoded(self, encoder: Encoder, kind: Kind = "vector") -> "EncodedEpisodes":
        """Encode every image of the episodes once; the encoder is left in eval mode."""
        encoder.eval()
        draws = self.draws()
        used = torch.cat([torch.cat([draw.support, draw.query]) for draw in draws]).unique()
        features = torch.cat(
            [
                features_of(encoder, self.source.images(part), kind).cpu()
                for part in used.split(8 * CACHE_BATCH)
            ]
        )
        place = torch.full((len(self.source.class_ids),), -1)
        place[used] = torch.arange(len(used))
        return EncodedEpisodes(draws, features, place)


@dataclass(frozen=True)
class EncodedEpisodes:
    """Validation episodes on features."""

    draws: list[EpisodeDraw]
    features: Tensor  # (n, …) of the images that are used
    place: Tensor  # (n_images,) row of an image in `features`

    @torch.no_grad()
    def accuracy(self, answer: Callable[[Task], Tensor]) -> tuple[float, float]:
        """Return mean and 95 % half-width of the accuracy in % of a method on kept features."""
        return _summary(
            [
                (
                    answer(
                        Task(
                            self.features[self.place[draw.support]],
                            draw.class_ids,
                            self.features[self.place[draw.query]],
                        )
                    ),
                    draw.query_class_ids,
                )
                for draw in self.draws
            ]
        )

    @torch.no_grad()
    def prototype_accuracy(self, prototypes: Prototypes) -> tuple[float, float]:
        """Return the same of the nearest prototype."""
        answers = []
        for draw in self.draws:
            found = prototypes(self.features[self.place[draw.support]], draw.class_ids)
            query = self.features[self.place[draw.query]]
            answers.append((-squared_distances(query, found), draw.query_class_ids))
        return _summary(answers)


def check_validation_classes(source: PackedImages, class_names: list[str]) -> None:
    """Refuse validation classes that episodes cannot be drawn from, before any training."""
    if len(class_names) < N_WAY:
        raise DataError(
            f"{len(class_names)} validation classes are too few for {N_WAY}-way episodes; "
            f"name at least {N_WAY}"
        )
    for name in class_names:
        if len(source.members(name)) < N_SHOT + N_QUERY:
            raise DataError(
                f"validation class {name!r} has {len(source.members(name))} images; "
                f"episodes need {N_SHOT + N_QUERY}"
            )


def _thinned(source: PackedImages, class_names: list[str], n_images: int) -> PackedImages:
    """Keep `n_images` of each class, evenly spread over its files; the others have no class."""
    class_ids = torch.full_like(source.class_ids, -1)
    for name in class_names:
        members = source.members(name)
        spread = torch.linspace(0, len(members) - 1, min(n_images, len(members))).round().long()
        class_ids[members[spread]] = source.class_names.index(name)
    return replace(source, class_ids=class_ids)


def _summary(answers: list[tuple[Tensor, Tensor]]) -> tuple[float, float]:
    shares = [right_answers(scores, truth).double().mean() for scores, truth in answers]
    values = 100 * torch.stack(shares)
    return values.mean().item(), (1.96 * values.std(correction=0) / len(values) ** 0.5).item()
