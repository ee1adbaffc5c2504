import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from appl.core.distances import class_means, left_out_means
from appl.errors import TaskError
from appl.method.slots import class_slots, leave_one_out
from appl.settings import PrototypeSettings

ROBUST = PrototypeSettings(
    order="symmetric", few_shots="class_mean", cluster_start="plus_plus", cluster_share="size"
)
SHOTS = st.sampled_from([1, 2, 3, 4, 5, 7, 20, 50])


def draw(shots, seed=0, width=4):
    generator = torch.Generator().manual_seed(seed)
    class_ids = torch.repeat_interleave(torch.arange(len(shots)), torch.tensor(shots))
    return torch.rand(len(class_ids), width, generator=generator), class_ids


def test_exactly_enough_supports_are_the_slots_in_their_order():
    features, class_ids = draw([5, 5])
    slots = class_slots(features, class_ids, 2, PrototypeSettings())
    torch.testing.assert_close(slots.of(features), features.view(2, 5, 4))


@pytest.mark.golden
def test_padding_by_hand():
    """Supports (1,0), (3,2) to three slots: in turn (5/3, 2/3), with the class mean (2, 1)."""
    features, class_ids = torch.tensor([[1.0, 0], [3, 2], [9, 9]]), torch.tensor([0, 0, 1])
    for rule, mean in [("repeat", [5 / 3, 2 / 3]), ("class_mean", [2.0, 1.0])]:
        chosen = PrototypeSettings(n_slots=3, few_shots=rule)
        slots = class_slots(features, class_ids, 2, chosen).of(features)
        assert slots[0].mean(0).tolist() == pytest.approx(mean)
        assert slots[0, :2].tolist() == [[1, 0], [3, 2]]
        assert slots[1].tolist() == [[9, 9]] * 3


def test_too_few_supports_are_an_error_in_the_paper():
    features, class_ids = draw([5, 3])
    with pytest.raises(TaskError, match="class 1 has 3 support images, the prototype network"):
        class_slots(features, class_ids, 2, PrototypeSettings())


@settings(deadline=None, max_examples=60)
@given(shots=st.lists(SHOTS, min_size=2, max_size=10), seed=st.integers(0, 99), data=st.data())
def test_rows_add_up_to_one_over_their_own_class(shots, seed, data):
    order = data.draw(st.sampled_from(["as_given", "canonical", "symmetric"]))
    start = data.draw(st.sampled_from(["first", "plus_plus"]))
    chosen = PrototypeSettings(order=order, few_shots="class_mean", cluster_start=start)
    features, class_ids = draw(shots, seed)
    slots = class_slots(features, class_ids, len(shots), chosen)
    torch.testing.assert_close(slots.weights.sum(2), torch.ones(len(shots), 5))
    assert (slots.weights >= 0).all()
    foreign = class_ids[None] != torch.arange(len(shots))[:, None]
    assert (slots.weights.transpose(1, 2)[foreign] == 0).all()
    left_out = leave_one_out(slots, class_ids)
    torch.testing.assert_close(left_out.weights.sum(2), torch.ones(len(class_ids), 5))
    alone = torch.tensor([shots[c] == 1 for c in class_ids])
    own = left_out.weights.diagonal(dim1=0, dim2=2).mT
    assert (own[~alone] == 0).all()


@settings(deadline=None, max_examples=40)
@given(shots=st.lists(SHOTS, min_size=2, max_size=6), seed=st.integers(0, 99))
def test_robust_slots_average_to_the_class_mean_with_and_without_a_support(shots, seed):
    features, class_ids = draw(shots, seed)
    slots = class_slots(features, class_ids, len(shots), ROBUST)
    means = class_means(features, class_ids, len(shots))
    torch.testing.assert_close(slots.mean_of(features), means, rtol=1e-4, atol=1e-5)
    left_out = leave_one_out(slots, class_ids).mean_of(features)
    torch.testing.assert_close(left_out, left_out_means(features, class_ids), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", ["canonical", "symmetric"])
@pytest.mark.parametrize("shot", [2, 5, 20])
def test_shuffling_the_files_changes_nothing(order, shot):
    chosen = PrototypeSettings(order=order, few_shots="class_mean", cluster_start="plus_plus")
    features, class_ids = draw([shot, shot], seed=3)
    shuffle = torch.cat([torch.randperm(shot), shot + torch.randperm(shot)])
    before = class_slots(features, class_ids, 2, chosen).of(features)
    after = class_slots(features[shuffle], class_ids, 2, chosen).of(features[shuffle])
    if order == "symmetric":
        before, after = before.mean(1), after.mean(1)
    torch.testing.assert_close(before, after)


def test_canonical_clusters_come_largest_first():
    generator = torch.Generator().manual_seed(0)
    centres = torch.eye(5, 6) * 10
    sizes = torch.tensor([2, 7, 3, 5, 4])
    features = centres.repeat_interleave(sizes, 0) + 0.1 * torch.rand(21, 6, generator=generator)
    class_ids = torch.cat([torch.zeros(21, dtype=torch.int64), torch.ones(5, dtype=torch.int64)])
    features = torch.cat([features, torch.rand(5, 6, generator=generator)])
    chosen = PrototypeSettings(order="canonical", cluster_start="plus_plus", cluster_rounds=50)
    members = (class_slots(features, class_ids, 2, chosen).weights[0] > 0).sum(1)
    assert members.tolist() == [7, 5, 4, 3, 2]


def test_centroids_are_differentiable_means_of_their_members():
    features, class_ids = draw([7, 7], seed=1)
    features.requires_grad_()
    slots = class_slots(features, class_ids, 2, PrototypeSettings())
    slots.of(features)[0].sum().backward()
    members = (slots.weights[0] > 0).sum(1)
    expected = (slots.weights[0] > 0).float().T @ (1 / members)
    torch.testing.assert_close(features.grad[:, 0], expected)
