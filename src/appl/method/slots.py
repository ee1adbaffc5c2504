"""From any number of supports to the K' vectors that the PCN takes (the paper's g for K > K').

Padding, clustering and ordering are all linear in the features once the members are known, so a
class is described by a matrix (K', K) of non-negative weights whose rows add up to one. The slots
are that matrix times the features: differentiable, and never a division by an empty cluster.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from appl.core.kmeans import cluster
from appl.core.seeds import generator_for
from appl.errors import TaskError
from appl.settings.prototypes import PrototypeSettings


@dataclass(frozen=True)
class Slots:
    """The slots of several prototypes, as weights on the same supports.

    `weights` (n, n_slots, n_support): rows add up to one.
    `sizes` (n, n_slots): what each slot counts where slots are averaged; 1, or its members.
    `by_size` (n,): whether the sizes are numbers of members.
    """

    weights: Tensor
    sizes: Tensor
    by_size: Tensor

    def of(self, features: Tensor) -> Tensor:
        """Return the slot vectors (n, n_slots, width) of support features (n_support, width)."""
        return self.weights @ features

    def mean_of(self, features: Tensor) -> Tensor:
        """Return the average of the slot vectors (n, width), each counted by its size."""
        shares = self.sizes / self.sizes.sum(1, keepdim=True)
        return (shares[:, None] @ self.of(features)).squeeze(1)


def class_slots(
    features: Tensor, class_ids: Tensor, n_way: int, settings: PrototypeSettings
) -> Slots:
    """Describe the slots of every class; classes may differ in their number of supports."""
    n_slots, features = settings.n_slots, features.detach()
    weights = features.new_zeros(n_way, n_slots, len(features))
    sizes = features.new_ones(n_way, n_slots)
    by_size = torch.zeros(n_way, dtype=torch.bool, device=features.device)
    for class_id in range(n_way):
        members = (class_ids == class_id).nonzero().flatten()
        if settings.order != "as_given":
            members = members[_canonical_order(features[members])]
        if len(members) > n_slots:
            rows = _cluster_rows(features[members], settings)
            if settings.cluster_share == "size":
                sizes[class_id] = (rows > 0).sum(1).to(sizes)
                by_size[class_id] = True
        else:
            rows = _padded_rows(len(members), class_id, settings).to(features)
        weights[class_id, :, members] = rows
    return Slots(weights, sizes, by_size)


def leave_one_out(slots: Slots, class_ids: Tensor) -> Slots:
    """Describe, for each support, the slots of its class without it (A14).

    Its weight goes to the other members of its slots; a slot that held nothing else becomes the
    mean of the rest of the class. For the only support of a class nothing changes.
    """
    weights = slots.weights[class_ids]  # (n_support, n_slots, n_support)
    sizes, by_size = slots.sizes[class_ids].clone(), slots.by_size[class_ids]
    same_class = class_ids[:, None] == class_ids
    rest = (
        same_class & ~torch.eye(len(class_ids), dtype=torch.bool, device=weights.device)
    ).float()
    alone = rest.sum(1) == 0
    rest[alone] = same_class[alone].float()

    held_it = weights.diagonal(dim1=0, dim2=2).mT > 0  # (n_support, n_slots)
    weights = weights * rest[:, None]
    total = weights.sum(2, keepdim=True)
    mean_of_rest = (rest / rest.sum(1, keepdim=True))[:, None].expand_as(weights)
    weights = torch.where(total > 0, weights / total.clamp(min=1e-12), mean_of_rest)
    loses_one = by_size[:, None] & held_it & ~alone[:, None]
    return Slots(weights, sizes - loses_one.to(sizes), by_size)


def _canonical_order(members: Tensor) -> Tensor:
    """Sort by length, so that the order of files has no say.

    Not by distance to the class mean: two supports always tie there.
    """
    return torch.sort(members.double().square().sum(1), stable=True).indices


def _padded_rows(n_shot: int, class_id: int, settings: PrototypeSettings) -> Tensor:
    if n_shot == 0:
        raise TaskError(f"class {class_id} has no support image; every class needs at least one")
    if n_shot < settings.n_slots and settings.few_shots == "error":
        raise TaskError(
            f"class {class_id} has {n_shot} support images, the prototype network takes "
            f"{settings.n_slots}; add images or set few_shots = 'class_mean'"
        )
    rows = torch.eye(n_shot)[torch.arange(settings.n_slots) % n_shot]
    if settings.few_shots == "class_mean":
        rows[n_shot:] = 1 / n_shot
    return rows


def _cluster_rows(members: Tensor, settings: PrototypeSettings) -> Tensor:
    assignment = cluster(
        members,
        settings.n_slots,
        start=settings.cluster_start,
        n_rounds=settings.cluster_rounds,
        generator=generator_for("k-means", settings.seed),
    )
    rows = torch.nn.functional.one_hot(assignment, settings.n_slots).mT.to(members)
    if settings.order == "canonical":
        # Largest cluster first; among equals the shortest centroid.
        centroids = rows @ members / rows.sum(1, keepdim=True)
        rows = rows[_canonical_order(centroids)]
        rows = rows[torch.sort(rows.sum(1), stable=True, descending=True).indices]
    return rows / rows.sum(1, keepdim=True)
