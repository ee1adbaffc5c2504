import pytest
import torch
import torch.nn.functional as F
from torch import nn

from appl.core.episode import Task
from appl.rivals.matching import FullContext, Matching, reading_order
from tests.conftest import WIDTH, encoder_of_width, make_episode, make_small_encoder


@torch.no_grad()
def test_without_context_it_is_soft_nearest_neighbours_by_cosine(small_encoder) -> None:
    task = make_episode(noise=0.3).task
    method = Matching(full_context=False, scale=7.0)
    scores = method.answer(small_encoder, method.build_head(small_encoder, 3), task)
    support, query = small_encoder.encode(task.support), small_encoder.encode(task.query)
    for row, z in zip(scores, query, strict=True):
        weights = torch.exp(7 * F.cosine_similarity(z[None], support))  # features are ≥ 0
        expected = torch.stack([weights[task.class_ids == c].sum() for c in range(3)])
        torch.testing.assert_close(row.exp(), expected / weights.sum() + 1e-6, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_lstms_without_weights_change_nothing(small_encoder) -> None:
    """All gates stand at a half and the cell stays empty, so h = f and G = S."""
    task = make_episode(noise=0.3).task
    head = Matching().build_head(small_encoder, 3)
    for parameter in head.parameters():
        parameter.zero_()
    plain = Matching(full_context=False)
    expected = plain.answer(small_encoder, nn.Identity(), task)
    torch.testing.assert_close(Matching().answer(small_encoder, head, task), expected)


@torch.no_grad()
def test_probabilities_sum_to_one(small_encoder) -> None:
    task = make_episode(noise=0.3).task
    scores = Matching().answer(small_encoder, Matching().build_head(small_encoder, 3), task)
    torch.testing.assert_close((scores.exp() - 1e-6).sum(1), torch.ones(12), atol=1e-5, rtol=0)


@torch.no_grad()
def test_the_context_by_hand() -> None:
    """The bi-LSTM against one that reads forwards and one that reads backwards; two query steps."""
    torch.manual_seed(0)
    head, width = FullContext(4), 4
    support, query = torch.randn(5, width), torch.randn(3, width)
    context, state = head(support, query, 2)
    expected = support.clone()
    for suffix, turn in (("", False), ("_reverse", True)):
        lstm = nn.LSTM(width, width)
        lstm.load_state_dict(
            {n: getattr(head.support_reader, n + suffix) for n in lstm.state_dict()}
        )
        read = lstm(support.flip(0) if turn else support)[0]
        expected += read.flip(0) if turn else read
    torch.testing.assert_close(context, expected)

    cell_of, h, c = head.query_reader, query, torch.zeros_like(query)
    for _ in range(2):
        read = torch.softmax(h @ context.T, 1) @ context
        gates = torch.cat([query, read], 1) @ cell_of.weight_ih.T + cell_of.bias_ih
        gates = gates + h @ cell_of.weight_hh.T + cell_of.bias_hh
        enter, forget, new, out = gates.chunk(4, 1)
        c = forget.sigmoid() * c + enter.sigmoid() * new.tanh()
        h = out.sigmoid() * c.tanh() + query
    torch.testing.assert_close(state, h)


def test_the_reading_order_is_by_class_and_by_content() -> None:
    task = make_episode(n_way=3, shots=[2, 4, 3], noise=0.3).task
    order = reading_order(task)
    read = task.class_ids[order]
    assert sorted(order.tolist()) == list(range(9))
    assert int((read[1:] != read[:-1]).sum()) == 2  # three runs, one a class
    shuffle = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    renamed = torch.tensor([1, 2, 0])
    other = Task(task.support[shuffle], renamed[task.class_ids[shuffle]], task.query)
    assert torch.equal(other.support[reading_order(other)], task.support[order])
    # It is the content's own, not that of the class numbers or of the files.
    orders = [reading_order(make_episode(seed=seed).task).tolist() for seed in range(4)]
    assert len({tuple(order) for order in orders}) == 4


@pytest.mark.parametrize("change", [{"n_steps": 1}, {"scale": 10.0}, {"full_context": False}])
@torch.no_grad()
def test_settings_do_something(change: dict) -> None:
    torch.manual_seed(0)
    task, encoder, head = make_episode(noise=0.3).task, make_small_encoder(), FullContext(WIDTH)
    default = Matching().answer(encoder, head, task)
    assert not torch.allclose(Matching(**change).answer(encoder, head, task), default, atol=1e-4)


def test_a_cosine_below_zero_counts_as_zero_or_as_it_is() -> None:
    class Given(nn.Module):
        def forward(self, support, query, n_steps):
            return torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), torch.tensor([[1.0, 0.0]])

    task = Task(torch.rand(2, 3, 12, 12), torch.tensor([0, 1]), torch.rand(1, 3, 12, 12))
    right = {
        relu: Matching(scale=1.0, relu=relu)
        .answer(make_small_encoder(), Given(), task)
        .exp()
        .max()
        .item()
        for relu in (True, False)
    }
    e = torch.e
    assert right[True] == pytest.approx(e / (e + 1), abs=1e-5)  # against exp(0)
    assert right[False] == pytest.approx(e / (e + 1 / e), abs=1e-5)  # against exp(−1)


def test_the_head_has_the_published_size() -> None:
    """3.15 M of the attention's cell; 2.10 M a direction, which the field's code shares."""
    head = Matching().build_head(encoder_of_width(512), 5)
    sizes = [sum(p.numel() for p in part.parameters()) for part in head.children()]
    assert sizes == [2 * (4 * 512 * 1024 + 8 * 512), 4 * 512 * (1024 + 512) + 8 * 512]
