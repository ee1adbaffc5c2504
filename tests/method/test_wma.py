import pytest
import torch

from appl.core.distances import class_probs
from appl.method.wma import MovingAverage
from appl.settings.adaptation import WMASettings

pytestmark = pytest.mark.golden

H = [torch.tensor([[2.0, 1, 4]]), torch.tensor([[1.0, 2, 4]]), torch.tensor([[0.5, 2.5, 4]])]


def test_alpha_by_hand():
    average = MovingAverage(1, 3, WMASettings())
    expected = {1: 0.495, 2: 0.49005, 3: 0.485149, 10: 0.452191, 50: 0.302503, 100: 0.183016}
    for i, alpha in expected.items():
        assert average.alpha(i).item() == pytest.approx(alpha, abs=1e-6)


def test_mass_by_hand():
    average = MovingAverage(1, 3, WMASettings())
    ones = torch.ones(1, 3)
    masses = {}
    for i in range(1, 101):
        h = average.update(ones)
        assert h.tolist()[0] == pytest.approx([average.mass.item()] * 3)
        masses[i] = average.mass.item()
    expected = {1: 0.495, 2: 0.742475, 3: 0.867413, 4: 0.931094, 5: 0.963859, 10: 0.998363, 100: 1}
    for i, mass in expected.items():
        assert masses[i] == pytest.approx(mass, abs=1e-6)


@pytest.mark.parametrize(
    ("start", "update", "h", "probs"),
    [
        ("zero", 1, [0.99, 0.495, 1.98], [0.33199705, 0.54464058, 0.12336237]),
        ("zero", 2, [0.9949005, 1.23252525, 2.969901], [0.51887141, 0.40912934, 0.07199924]),
        ("zero", 3, [0.75479977, 1.84743999, 3.46965301], [0.71349850, 0.23925744, 0.04724407]),
        ("first", 2, [1.50995, 1.49005, 4], [0.47551001, 0.48506744, 0.03942255]),
        ("first", 3, [1.01997326, 1.98002674, 4], [0.69751356, 0.26705870, 0.03542774]),
        ("debiased", 2, [1.33997800, 1.66002200, 4], [0.55677310, 0.40428246, 0.03894443]),
        ("debiased", 3, [0.87017320, 2.12982680, 4], [0.75330834, 0.21375298, 0.03293869]),
    ],
)
def test_a_query_through_three_iterations_by_hand(start, update, h, probs):
    average = MovingAverage(1, 3, WMASettings(start=start))
    for vector in H[:update]:
        result = average.update(vector)
    assert result[0].tolist() == pytest.approx(h, abs=1e-6)
    assert average.average()[0].tolist() == pytest.approx(h, abs=1e-6)
    assert class_probs(result)[0].tolist() == pytest.approx(probs, abs=1e-6)


def test_the_released_alphas_by_hand():
    average = MovingAverage(
        1, 1, WMASettings(start="first", first_alpha="initial", alpha_floor=0.1)
    )
    expected = {2: 0.495, 3: 0.49005, 6: 0.475495, 100: 0.184865, 161: 0.10014, 163: 0.1, 400: 0.1}
    for i, alpha in expected.items():
        assert average.alpha(i).item() == pytest.approx(alpha, abs=5e-6)
    assert average.update(torch.tensor([[7.0]])).item() == 7


def test_without_wma_the_average_is_the_newest():
    average = MovingAverage(1, 3, WMASettings(use=False))
    for vector in H:
        assert torch.equal(average.update(vector), vector)


def test_parts_of_a_pile_count_their_own_updates():
    whole, parts = MovingAverage(4, 3, WMASettings()), MovingAverage(4, 3, WMASettings())
    vectors = torch.rand(3, 4, 3, generator=torch.Generator().manual_seed(0))
    for i in range(3):
        whole.update(vectors[i])
    for rows in (torch.tensor([2, 0]), torch.tensor([1, 3])):
        for i in range(3):
            parts.update(vectors[i][rows], rows)
    torch.testing.assert_close(parts.average(), whole.average())


def test_the_newest_part_carries_its_gradient():
    average = MovingAverage(1, 3, WMASettings())
    average.update(H[0])
    newest = H[1].clone().requires_grad_()
    average.update(newest).sum().backward()
    assert newest.grad[0].tolist() == pytest.approx([0.49005] * 3)
