"""Episodes drawn together are the episodes drawn one by one, to the last index."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from appl.datasets.episodes import draw_episode
from appl.datasets.many_episodes import draw_episodes
from appl.datasets.packed import PackedImages
from appl.errors import TaskError

FIELDS = ("support", "class_ids", "query", "query_class_ids")


def data_of(counts: list[int], digest: str = "some digest") -> PackedImages:
    class_ids = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    class_ids = class_ids[torch.randperm(len(class_ids), generator=torch.Generator())]
    names = tuple(f"class{i}" for i in range(len(counts)))
    return PackedImages(None, class_ids, names, digest)


def assert_equal_to_single_draws(data: PackedImages, indices: list[int], **rule) -> None:
    many = draw_episodes(data, data.class_names, indices, **rule)
    for row, index in enumerate(indices):
        one = draw_episode(data, data.class_names, index=index, **rule)
        for field in FIELDS:
            assert torch.equal(getattr(many, field)[row], getattr(one, field)), (index, field)


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(6, 40), min_size=5, max_size=30),
    n_way=st.integers(2, 5),
    n_shot=st.integers(1, 3),
    n_query=st.integers(1, 3),
    seed=st.integers(0, 10**6),
)
def test_plain_episodes(counts, n_way, n_shot, n_query, seed):
    rule = dict(n_way=n_way, n_shot=n_shot, n_query=n_query, seed=seed)
    assert_equal_to_single_draws(data_of(counts), [0, 1, 7, 599], **rule)


@pytest.mark.parametrize("counts", [[20] * 5, [20, 21, 400, 600, 25, 90]])
def test_the_whole_of_a_class_and_large_ones(counts):
    rule = dict(n_way=5, n_shot=5, n_query=15, seed=0)
    assert_equal_to_single_draws(data_of(counts), list(range(20)), **rule)


@pytest.mark.parametrize("options", [{"dirichlet": 2.0}, {"n_ood": 3}])
def test_other_rules_are_drawn_one_by_one(options):
    rule = dict(n_way=3, n_shot=2, n_query=4, seed=1)
    assert_equal_to_single_draws(data_of([12] * 6), [0, 1, 2], **rule, **options)


def test_a_class_too_small_is_named():
    with pytest.raises(TaskError, match="class 'class2' has 4 images"):
        draw_episodes(
            data_of([9, 9, 4]), ("class0", "class1", "class2"), range(5),
            n_way=3, n_shot=2, n_query=3, seed=0,
        )  # fmt: skip
