import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression

from appl.core.seeds import generator_for
from appl.rivals.chef import CHEF


def features(*widths: int, n_shot: int = 4, n_query: int = 9, overlap: float = 1.0):
    generator = generator_for("chef", *widths)
    class_ids = torch.arange(3).repeat_interleave(n_shot)
    support, query = [], []
    for width in widths:
        centres = torch.randn(3, width, generator=generator)
        noise = overlap * torch.randn(3 * n_shot, width, generator=generator)
        support.append(centres[class_ids] + noise)
        query.append(torch.randn(n_query, width, generator=generator))
    return support, class_ids, query


@pytest.mark.parametrize("doubles", [True, False])
def test_the_first_step_by_hand(doubles: bool) -> None:
    """All probabilities are 1/N at first: W = 2η · mean (e_y − 1/N) zᵀ, and no bias."""
    (z,), class_ids, (q,) = features(5)
    chef = CHEF(scale="raw", n_steps=1, rate=0.3, doubles=doubles)
    found = chef.layer_scores([z], class_ids, [q])
    errors = F.one_hot(class_ids) - 1 / 3
    weight = (2 if doubles else 1) * 0.3 * torch.einsum("sn,sd->nd", errors, z) / len(z)
    torch.testing.assert_close(found, q @ weight.mT)


def test_a_support_twice_in_its_class_counts_once() -> None:
    (z,), class_ids, (q,) = features(5)
    again = torch.cat([torch.arange(12), torch.arange(4)])  # the first class's supports, twice
    found = CHEF().layer_scores([z[again]], class_ids[again], [q])
    torch.testing.assert_close(found, CHEF().layer_scores([z], class_ids, [q]))


def test_steps_are_those_of_gradient_descent_on_the_weights() -> None:
    """Against autograd on W and b themselves, layer by layer, added up."""
    support, class_ids, query = features(5, 40)
    chef = CHEF(scale="raw", n_steps=30, rate=0.05)
    expected = torch.zeros(9, 3, dtype=torch.float64)
    for z, q in zip(support, query, strict=True):
        weight = torch.zeros(3, z.shape[1], dtype=torch.float64, requires_grad=True)
        bias = torch.zeros(3, dtype=torch.float64, requires_grad=True)
        for _ in range(30):
            loss = F.cross_entropy(F.linear(z.double(), weight, bias), class_ids)
            of_weight, of_bias = torch.autograd.grad(loss, [weight, bias])
            with torch.no_grad():
                weight -= 2 * 0.05 * of_weight
                bias -= 0.05 * of_bias
        expected += F.linear(q.double(), weight.detach(), bias.detach())
    torch.testing.assert_close(chef.layer_scores(support, class_ids, query), expected.float())


def test_one_layer_and_many_steps_are_logistic_regression() -> None:
    (z,), class_ids, (q,) = features(2, n_shot=30, overlap=2.0)
    chef = CHEF(scale="raw", n_steps=4000, rate=0.5)
    model = LogisticRegression(C=1e9, tol=1e-9, max_iter=10_000).fit(z.numpy(), class_ids.numpy())
    probs = torch.softmax(chef.layer_scores([z], class_ids, [q]), 1)
    expected = torch.from_numpy(model.predict_proba(q.numpy())).float()
    torch.testing.assert_close(probs, expected, atol=2e-3, rtol=1e-2)


def test_an_empty_layer_changes_nothing_and_equal_scale_lets_no_layer_rule() -> None:
    support, class_ids, query = features(5, 7)
    equal = CHEF(scale="equal")
    plain = equal.layer_scores(support, class_ids, query)
    more = [[*part, torch.zeros(len(part[0]), 3)] for part in (support, query)]
    torch.testing.assert_close(equal.layer_scores(more[0], class_ids, more[1]), plain)
    louder = [[part[0], 50 * part[1]] for part in (support, query)]
    torch.testing.assert_close(equal.layer_scores(louder[0], class_ids, louder[1]), plain)
    raw = [CHEF(scale="raw").layer_scores(s, class_ids, q) for s, q in ((support, query), louder)]
    assert not torch.allclose(*raw, atol=0.1)
