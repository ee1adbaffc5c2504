import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from appl.core.seeds import generator_for
from appl.datasets.episodes import draw_episode, uneven_counts
from appl.datasets.packed import PackedImages
from appl.errors import TaskError

NAMES = tuple(f"c{i}" for i in range(6))


def numbered(counts=(30, 20, 25, 20, 40, 22)):
    """Every image carries its own number in its pixels."""
    n = sum(counts)
    pixels = np.zeros((n, 4, 4, 3), dtype=np.uint8)
    pixels[:, 0, 0, 0] = np.arange(n) % 256
    pixels[:, 0, 0, 1] = np.arange(n) // 256
    ids = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    return PackedImages(pixels, ids, NAMES, "digest")


def numbers(images):
    return (images[:, 0, 0, 0].long() + 256 * images[:, 1, 0, 0].long()).tolist()


@settings(deadline=None, max_examples=40)
@given(index=st.integers(0, 500), n_way=st.integers(2, 6), n_shot=st.integers(1, 5))
def test_no_image_is_in_both_sets_and_labels_are_right(index, n_way, n_shot):
    data = numbered()
    episode = draw_episode(data, NAMES, n_way=n_way, n_shot=n_shot, index=index).load(data)
    support, query = numbers(episode.task.support), numbers(episode.task.query)
    assert len(set(support + query)) == n_way * (n_shot + 15)
    of_class = {}
    for number, class_id in zip(
        support + query,
        episode.task.class_ids.tolist() + episode.query_class_ids.tolist(),
        strict=True,
    ):
        of_class.setdefault(class_id, set()).add(int(data.class_ids[number]))
    assert all(len(classes) == 1 for classes in of_class.values())
    assert len(set.union(*of_class.values())) == n_way


def test_an_episode_is_a_function_of_its_number():
    data = numbered()
    first, again, other = (draw_episode(data, NAMES, index=i).load(data) for i in (3, 3, 4))
    assert torch.equal(first.task.query, again.task.query)
    assert not torch.equal(first.task.query, other.task.query)
    assert first.query_class_ids.tolist() != sorted(first.query_class_ids.tolist())


def test_too_small_a_class_is_named():
    with pytest.raises(TaskError, match="class 'c1' has 12 images; 5 supports and 15 queries"):
        draw_episode(numbered((30, 12, 25, 20, 40, 22)), ["c0", "c1"], n_way=2)
    with pytest.raises(TaskError, match="2 classes are too few for a 5-way"):
        draw_episode(numbered(), ["c0", "c1"])


def test_uneven_counts_keep_the_total_and_the_room() -> None:
    for index in range(200):
        room = [3, 40, 12, 30, 25]
        counts = uneven_counts(75, room, 2.0, generator_for("test", index))
        assert sum(counts) == 75
        assert all(0 <= count <= limit for count, limit in zip(counts, room, strict=True))
    with pytest.raises(TaskError, match="110 images left for 111"):
        uneven_counts(111, room, 2.0, generator_for("test"))


def test_uneven_counts_follow_the_dirichlet_law() -> None:
    """Shares of Dirichlet(2, …) over 5 classes: mean 1/5, variance (1/5)(4/5)/11."""
    counts = torch.tensor(
        [uneven_counts(1000, [1000] * 5, 2.0, generator_for("law", i)) for i in range(4000)]
    )
    shares = counts / 1000
    torch.testing.assert_close(shares.mean(0), torch.full((5,), 0.2), atol=0.008, rtol=0)
    torch.testing.assert_close(shares.var(0), torch.full((5,), 0.16 / 11), atol=0.0015, rtol=0)
