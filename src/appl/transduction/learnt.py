"""The answer of the transductive prototype network, for a task and then for any image."""

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import load
from torch import Tensor

from appl.core.distances import squared_distances
from appl.transduction.network import Found, TransductivePCN
from appl.transduction.placing import Described, Placing

# Their weights ship under these names; a changed network gets a new one, which settings name, so
# that a stored result says by which it was made.
NETWORKS = {"tpcn-1": "tpcn-1.safetensors"}


@cache
def shipped_network(name: str) -> TransductivePCN:
    """Return a network whose weights ship."""
    with resources.as_file(resources.files("appl.transduction").joinpath(NETWORKS[name])) as path:
        return read_network(path.read_bytes())


def network_card(name: str) -> dict[str, Any]:
    """Return what is known of a network: on which tasks it was trained, when, with what result."""
    with (
        resources.as_file(resources.files("appl.transduction").joinpath(NETWORKS[name])) as path,
        safe_open(path, "pt") as file,
    ):
        card: dict[str, Any] = json.loads(file.metadata()["card"])
        return card


def read_network(content: bytes) -> TransductivePCN:
    """Build a network from the bytes of its file."""
    tensors = load(content)
    network = TransductivePCN(tensors["steps"].shape[0])
    network.load_state_dict(tensors)
    return network.eval().requires_grad_(False)


@dataclass(frozen=True)
class LearntRule:
    """What the network found on a task, and how to place an image beside it."""

    placing: Placing
    found: Found

    @classmethod
    def fit(
        cls, kinds: list[Described], class_ids: Tensor, network: str, evenness: float | None = None
    ) -> "LearntRule":
        """Find axes and class weights on the supports and queries of a task.

        `evenness` is how even the pile is, 0 to 1, where that was found before.
        """
        placing = Placing.of(kinds, class_ids)
        support, query = placing.task(kinds)
        model = shipped_network(network).to(support.device)
        with torch.no_grad():
            return cls(placing, model(support, class_ids, query, evenness))

    def place(self, vectors: list[Tensor]) -> Tensor:
        """Bring images to where distances are taken (n, n_axes)."""
        return F.normalize(self.placing(vectors) @ self.found.axes, dim=1)

    def distances(self, placed: Tensor) -> Tensor:
        """Return the squared distances of placed images to the class weights (n, n_way)."""
        return squared_distances(placed, self.found.class_weights)

    def scores(self, placed: Tensor) -> Tensor:
        """Return the scores of placed images (n, n_way), higher is better."""
        return self.found.scores_of(placed)
