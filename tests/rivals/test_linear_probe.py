import torch
import torch.nn.functional as F

from appl.rivals.linear_probe import LinearProbe
from tests.rivals.test_every_method import blobs


def test_it_is_the_minimum_of_the_penalised_loss() -> None:
    """Against plain gradient descent on ½‖W‖² + C·ΣCE, written out here."""
    support, class_ids, query, _ = blobs(n_way=3, spread=0.3)
    z = F.normalize(support, dim=1).double()
    weights = torch.zeros(3, 16, dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([weights, bias], max_iter=500, tolerance_grad=1e-10)

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = F.cross_entropy(z @ weights.mT + bias, class_ids, reduction="sum")
        value = value + 0.5 * weights.square().sum()
        value.backward()
        return value

    for _ in range(5):
        optimiser.step(loss)
    expected = F.normalize(query, dim=1).double() @ weights.detach().mT + bias.detach()
    scores = LinearProbe().scores(support, class_ids, query)
    # The bias is free up to a constant that all classes share.
    torch.testing.assert_close(
        scores - scores.mean(1, keepdim=True),
        (expected - expected.mean(1, keepdim=True)).float(),
        atol=2e-3,
        rtol=0,
    )
