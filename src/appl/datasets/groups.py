"""Which images of a data set belong together: those of one patient, or of one lesion."""

import hashlib

import torch
from torch import Tensor

from appl.datasets.listing import Listing


def group_ids(listing: Listing) -> Tensor | None:
    """Return a number for the group of each image (n_images,), or −1; None if none is known."""
    if not listing.groups:
        return None
    numbers: dict[str, int] = {}
    ids = []
    for path in (path for members in listing.files.values() for path in members):
        group = listing.groups.get(path)
        ids.append(-1 if group is None else numbers.setdefault(group, len(numbers)))
    return torch.tensor(ids)


def grouped_digest(files_digest: str, ids: Tensor | None) -> str:
    """Identify files together with their groups, which the names of files need not tell."""
    text = "" if ids is None else ",".join(map(str, ids.tolist()))
    return hashlib.sha256(f"{files_digest} groups {text}".encode()).hexdigest()
