"""Augmented views of a task's images, and which augmentations the task tolerates.

A mirrored leaf is still that leaf; a mirrored 2 is no 2. So the task is asked: an augmentation is
used if augmented support images keep their lead over the other classes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from appl.core.distances import (
    class_means,
    left_out_means,
    squared_distances,
    with_own_distance,
)
from appl.core.draws import Draws
from appl.core.images import central_crop, colour_jitter, random_resized_crop, turn
from appl.encoders._encoder import Encoder

# What is done to test an augmentation: its plain, strong form.
PROBES: dict[str, Callable[[Tensor], Tensor]] = {
    "mirror": lambda images: images.flip(3),
    "upside_down": lambda images: images.flip(2),
    "quarter_turn": lambda images: images.rot90(1, (2, 3)),
    "tight_crop": lambda images: central_crop(images, TIGHT_CROP_AREA),
}
TOLERATED_LOSS = 0.05  # of the lead: a smaller loss is tolerated even where it is significant
TIGHT_CROP_AREA = 0.6  # share of the area that the closest crop keeps
DRAWS_PER_VIEW = 10  # columns that `augment` takes
AUGMENTED_AT_ONCE = 64
LOOSE_CROP_AREA = 0.85  # the same where objects fill the image, as letters do
COLOUR_STRENGTH = 0.3


@torch.no_grad()
def tolerated_augmentations(encoder: Encoder, support: Tensor, class_ids: Tensor) -> list[str]:
    """Name the augmentations after which supports belong to their class as clearly as before.

    Each image, augmented or not, is measured against class means that it is not part of; its lead
    is how much nearer its own class is than the next. An augmentation is refused when the mean lead
    falls by more than its standard error and by more than a share of its usual size.
    """
    clean = encoder.encode(support)
    before = _lead(clean, clean, class_ids)
    kinds = []
    for name, change in PROBES.items():
        if name == "quarter_turn" and support.shape[-1] != support.shape[-2]:
            continue
        loss = before - _lead(encoder.encode(change(support)), clean, class_ids)
        clear = loss.mean() > loss.std() / len(loss) ** 0.5
        large = loss.mean() > TOLERATED_LOSS * before.abs().mean()
        if not (clear and large):
            kinds.append(name)
    return kinds


def augment(images: Tensor, kinds: list[str], draws: Draws) -> Tensor:
    """Make one view of each image: some crop and colour always, the rest if tolerated."""
    area = TIGHT_CROP_AREA if "tight_crop" in kinds else LOOSE_CROP_AREA
    views = random_resized_crop(
        images, images.shape[-1], draws, scale=(area, 1.0), mirror="mirror" in kinds
    )
    is_upset, quarters = next(draws) < 0.5, (4 * next(draws)).long()
    if "upside_down" in kinds:
        views[is_upset] = views[is_upset].flip(2)
    if "quarter_turn" in kinds:
        views = turn(views, quarters)
    return colour_jitter(views, COLOUR_STRENGTH, draws)


@dataclass
class ViewCache:
    """Activations of the frozen prefix for every view of every image; view 0 is the clean one."""

    maps: list[Tensor]  # one (n_images, …) per view

    @classmethod
    def fill(
        cls,
        images: Tensor,
        prefix: Callable[[Tensor], Tensor],
        *,
        n_views: int,
        kinds: list[str],
        draws: Draws,
    ) -> "ViewCache":
        """Make the views of float images in 0–1 and run `prefix` on each, once."""
        maps = [prefix(images)]
        for _ in range(n_views - 1):
            columns = [next(draws) for _ in range(DRAWS_PER_VIEW)]
            # In parts: a float copy of a thousand images, and what augmenting them takes beside it,
            # would be most of the memory that a task needs.
            parts = []
            for rows in torch.arange(len(images), device=images.device).split(AUGMENTED_AT_ONCE):
                part = iter([column[rows.to(column.device)] for column in columns])
                parts.append(prefix(augment(images[rows], kinds, part)))
            maps.append(torch.cat(parts))
        return cls(maps)

    @property
    def clean(self) -> Tensor:
        """The activations of the unchanged images."""
        return self.maps[0]

    def pick(self, draws: Draws) -> Tensor:
        """Pick one augmented view of each image by one draw; the clean one if there is no other."""
        if len(self.maps) == 1:
            return self.clean
        choice = 1 + (next(draws) * (len(self.maps) - 1)).long()
        maps = torch.empty_like(self.clean)
        for view in range(1, len(self.maps)):
            maps[choice == view] = self.maps[view][choice == view]
        return maps


def _lead(features: Tensor, clean: Tensor, class_ids: Tensor) -> Tensor:
    """Return by how much each feature is nearer to its class, its own image left out (n,)."""
    means = class_means(clean, class_ids, int(class_ids.max()) + 1)
    distances = squared_distances(features, means)
    own = left_out_means(clean, class_ids)
    distances = with_own_distance(distances, features, own, class_ids)
    others = distances.scatter(1, class_ids[:, None], torch.inf).amin(1)
    return others - distances.gather(1, class_ids[:, None]).squeeze(1)
