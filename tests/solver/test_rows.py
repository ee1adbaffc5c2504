"""APPL as a row: its tag is what it does."""

import pytest
import torch

from appl.core.episode import Task
from appl.encoders import ENCODERS
from appl.method.pcn import PCN
from appl.solver.rows import APPL


@pytest.mark.parametrize(
    ("variant", "takes"), [("protonet", "none"), ("without_query_loss", "transductive")]
)
def test_the_tag_says_whether_queries_see_each_other(variant: str, takes: str) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = ENCODERS.get("resnet10")().eval()
    images = torch.rand(10, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    changes = {"adaptation": {"n_iterations": 2}} if variant != "protonet" else {}
    row = APPL("robust", variant, changes)
    ids = torch.tensor([0, 0, 0, 1, 1, 1])

    def scores(query: torch.Tensor) -> torch.Tensor:
        return row.solve(encoder, PCN(512), Task(images[:6], ids, query)).scores

    together = scores(images[6:])
    alone = torch.cat([scores(image[None]) for image in images[6:]])
    assert row.takes == takes
    assert torch.allclose(together, alone, atol=1e-4) == (takes == "none")
