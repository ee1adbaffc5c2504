import hashlib
import json
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from appl.core.seeds import generator_for
from appl.datasets.episodes import EpisodeDraw, draw_episode, uneven_counts
from appl.datasets.packed import PackedImages
from appl.errors import TaskError
from appl.images.store import ImageArray

NAMES = tuple(f"c{i}" for i in range(6))


def numbered(counts=(30, 20, 25, 20, 40, 22), group_ids=None):
    """Every image carries its own number in its pixels."""
    n = sum(counts)
    pixels = np.zeros((n, 4, 4, 3), dtype=np.uint8)
    pixels[:, 0, 0, 0] = np.arange(n) % 256
    pixels[:, 0, 0, 1] = np.arange(n) // 256
    ids = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    return PackedImages(ImageArray(pixels), ids, NAMES, "digest", group_ids)


def in_groups(sizes_seed):
    """Images 0, 1, 2 … of all classes belong to groups that reach over classes, or to none."""
    ids = np.random.default_rng(sizes_seed).integers(-20, 90, 157).clip(min=-1)
    return numbered(group_ids=torch.tensor(ids))


def as_lists(draw):
    parts = (draw.support, draw.class_ids, draw.query, draw.query_class_ids)
    return [part.tolist() for part in parts]


OPTIONS = {
    "n_way": st.integers(2, 5),
    "n_shot": st.integers(1, 5),
    "n_query": st.integers(1, 4),
    "dirichlet": st.sampled_from([0.0, 0.5, 2.0]),
    "n_ood": st.integers(0, 12),
    "groups_apart": st.booleans(),
    "seed": st.integers(0, 3),
    "index": st.integers(0, 500),
}


@settings(deadline=None, max_examples=60)
@given(groups=st.integers(0, 5), **OPTIONS)
def test_every_episode_is_as_asked(groups, **options):
    data = in_groups(groups)
    draw = draw_episode(data, NAMES, **options)
    assert as_lists(draw) == as_lists(draw_episode(data, NAMES, **options))
    support, query = draw.support.tolist(), draw.query.tolist()
    assert len(set(support + query)) == len(support) + len(query)
    shots = Counter(draw.class_ids.tolist())
    assert shots == dict.fromkeys(range(options["n_way"]), options["n_shot"])
    known = Counter(draw.query_class_ids.tolist())
    assert known.pop(-1, 0) == options["n_ood"]
    assert sum(known.values()) == options["n_way"] * options["n_query"]
    if not options["dirichlet"]:
        assert set(known.values()) == {options["n_query"]}
    class_of = dict(
        zip(draw.class_ids.tolist(), data.class_ids[draw.support].tolist(), strict=True)
    )
    assert len(set(class_of.values())) == options["n_way"]
    for image, class_id in zip(query, draw.query_class_ids.tolist(), strict=True):
        true_class = int(data.class_ids[image])
        if class_id == -1:
            assert true_class not in class_of.values()
        else:
            assert class_of[class_id] == true_class
    if options["groups_apart"]:
        groups_of = {int(data.group_ids[i]) for i in support} - {-1}
        assert not groups_of & {int(data.group_ids[i]) for i in query}


def test_groups_do_meet_unless_they_are_kept_apart():
    data = in_groups(0)
    draws = [draw_episode(data, NAMES, n_way=3, n_query=5, index=i) for i in range(5)]
    shared = [
        set(data.group_ids[d.support].tolist()) & set(data.group_ids[d.query].tolist())
        for d in draws
    ]
    assert any(groups - {-1} for groups in shared)


def test_plain_episodes_are_those_of_the_stored_results():
    """Fingerprints from before there were strangers and groups; docs/results rests on them."""
    for dirichlet, fingerprint in ((0.0, "ef1480e4a7c913bd"), (2.0, "5d1d226bd2479ffa")):
        for data in (numbered(), in_groups(1)):
            draws = [
                as_lists(draw_episode(data, NAMES, dirichlet=dirichlet, index=i, seed=1))
                for i in range(20)
            ]
            assert hashlib.sha256(json.dumps(draws).encode()).hexdigest()[:16] == fingerprint


def test_options_leave_classes_and_supports_as_they_are():
    data = in_groups(0)
    plain = draw_episode(data, NAMES, n_way=4, n_query=3, index=2)
    for options in ({"n_ood": 9}, {"dirichlet": 0.5}, {"groups_apart": True}):
        draw = draw_episode(data, NAMES, n_way=4, n_query=3, index=2, **options)
        assert draw.support.tolist() == plain.support.tolist()
    strange = draw_episode(data, NAMES, n_way=4, n_query=3, n_ood=9, index=2)
    known = strange.query[strange.query_class_ids >= 0]
    assert sorted(known.tolist()) == sorted(plain.query.tolist())
    assert strange.query_class_ids.tolist()[-9:] != [-1] * 9  # shuffled among the others


def test_supports_are_drawn_again_where_their_groups_leave_too_few_queries():
    """Class c0: one group of 26 and four images alone; its supports must come from the four."""
    ids = torch.full((157,), -1)
    ids[:26] = 0
    data = numbered(group_ids=ids)
    options = {"n_way": 2, "n_shot": 1, "n_query": 10}
    for index in range(10):
        draw = draw_episode(data, ["c0", "c1"], groups_apart=True, index=index, **options)
        (own,) = draw.support[data.class_ids[draw.support] == 0].tolist()
        assert 26 <= own < 30
    ids[:30] = 0
    with pytest.raises(TaskError, match="class 'c0' has 0 images left for queries"):
        draw_episode(numbered(group_ids=ids), ["c0", "c1"], groups_apart=True, **options)


def test_without_known_groups_every_image_is_its_own():
    one, other = (draw_episode(numbered(), NAMES, groups_apart=apart) for apart in (False, True))
    assert as_lists(one) == as_lists(other)


def test_too_few_strangers_are_counted():
    with pytest.raises(TaskError, match=r"the 1 classes outside the episode have .* 99 are asked"):
        draw_episode(numbered(), NAMES, n_ood=99)
    with pytest.raises(TaskError, match="the 0 classes outside"):
        draw_episode(numbered(), NAMES, n_way=6, n_ood=1)


def test_an_episode_comes_back_from_its_images():
    data = numbered()
    draw = draw_episode(data, NAMES, n_way=3, n_ood=4, index=8)
    assert as_lists(EpisodeDraw.of(data, draw.support, draw.query)) == as_lists(draw)


def test_strangers_do_not_count():
    data = numbered()
    episode = draw_episode(data, NAMES, n_way=2, n_query=3, n_ood=6).load(data)
    right = torch.nn.functional.one_hot(episode.query_class_ids.clamp(min=0), 2)
    assert episode.accuracy(right) == 1.0
    assert episode.accuracy(1 - right) == 0.0


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
