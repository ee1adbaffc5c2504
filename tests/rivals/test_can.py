from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from appl.core.episode import Episode, Task
from appl.core.seeds import generator_for
from appl.errors import SettingsError, TaskError
from appl.rivals.can import CAN, CrossAttention
from tests.conftest import make_episode, make_small_encoder


class Ones(nn.Module):
    """Every position of the other map counts."""

    def forward(self, seen):
        return torch.ones_like(seen)


def head_of(width: int, side: int, sharpness: float = 0.025) -> CrossAttention:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return CrossAttention(width, side, 6, sharpness, 8).eval()


def maps_of(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=generator_for("maps", *shape))


@torch.no_grad()
def test_attention_on_a_2_by_2_map_by_hand() -> None:
    """The class holds a a b c, the query a b b b, at right angles; lengths do not matter."""
    a, b, c = 2 * torch.eye(3)
    class_map = torch.stack([a, a, b, c], 1).view(1, 3, 2, 2)
    query_map = torch.stack([3 * a, b, b, b], 1).view(1, 3, 2, 2)
    head = head_of(3, 2, sharpness=0.25)
    head.kernel = Ones()
    pairs = head(class_map, query_map)
    # Mean cosines with the other's positions, over 0.25: class 1 1 3 0, query 2 1 1 1.
    of_class = torch.softmax(torch.tensor([1.0, 1.0, 3.0, 0.0]), 0) + 1
    of_query = torch.softmax(torch.tensor([2.0, 1.0, 1.0, 1.0]), 0) + 1
    torch.testing.assert_close(pairs.query_attention[0, 0], of_query)
    torch.testing.assert_close(pairs.classes[0, 0], class_map.view(3, 4) @ of_class / 4)
    torch.testing.assert_close(pairs.queries[0, 0], query_map.view(3, 4) @ of_query / 4)


@torch.no_grad()
def test_attention_position_by_position() -> None:
    """The formula as it is written, in loops: R, its mean, the kernel, what counts, softmax."""
    head, p, q = head_of(5, 3), maps_of(1, 5, 3, 3), maps_of(1, 5, 3, 3)
    r = torch.zeros(9, 9)
    for i in range(9):
        for j in range(9):
            r[i, j] = F.cosine_similarity(p.flatten(2)[0, :, i], q.flatten(2)[0, :, j], dim=0)
    kernel = head.kernel(r.mean(0)[None])[0]
    counts = torch.stack([sum(kernel[j] * r[i, j] for j in range(9)) / 9 for i in range(9)])
    expected = torch.softmax(counts / 0.025, 0) + 1
    found = head.attention(r[None], p.shape[2:])[0]
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(
        head(p, q).classes[0, 0], (p.flatten(2)[0] * expected).mean(1), atol=1e-4, rtol=1e-4
    )


@torch.no_grad()
def test_where_all_positions_are_alike_attention_is_even() -> None:
    even = torch.ones(1, 5, 3, 3)
    pairs = head_of(5, 3)(even, even)
    torch.testing.assert_close(pairs.query_attention, torch.full((1, 1, 9), 1 + 1 / 9))


@torch.no_grad()
def test_classes_and_queries_that_change_places_transpose_the_scores() -> None:
    head, classes, query = head_of(5, 3), maps_of(3, 5, 3, 3), maps_of(4, 5, 3, 3)
    forth, back = (CAN().scores_of(head(*pair)) for pair in ((classes, query), (query, classes)))
    torch.testing.assert_close(forth, back.mT)
    assert forth.std() > 0.01


@pytest.mark.parametrize("sides", [(1, 1), (2, 5), (7, 7)])
@torch.no_grad()
def test_maps_of_any_size_can_be_compared(sides) -> None:
    scores = CAN().scores_of(head_of(5, 3)(maps_of(3, 5, *sides), maps_of(4, 5, *sides)))
    assert scores.shape == (4, 3) and scores.isfinite().all() and scores.std() > 0


@torch.no_grad()
def test_transductive_inference_in_loops() -> None:
    """Rounds of 7/15 and 14/15 of the queries, hard labels, plain means; two queries: none."""
    encoder, episode = make_small_encoder(), make_episode(n_query=5, shots=[1, 2, 3], noise=0.4)
    task = episode.task
    method = CAN(inference="transductive")
    head = method.build_head(encoder, 3).eval()
    maps = encoder.encode(task.images(), stop=2)
    support, query = maps.split([6, 15])

    def scores_by(members: list[torch.Tensor]) -> torch.Tensor:
        return method.scores_of(head(torch.stack([part.mean(0) for part in members]), query))

    members = [support[task.class_ids == c] for c in range(3)]
    scores = scores_by(members)
    for n_chosen in (7, 14):
        confidence, guesses = scores.softmax(1).max(1)
        chosen = confidence.argsort(descending=True)[:n_chosen].tolist()
        scores = scores_by(
            [
                torch.cat([part, *(query[i : i + 1] for i in chosen if guesses[i] == c)])
                for c, part in enumerate(members)
            ]
        )
    torch.testing.assert_close(method.answer(encoder, head, task), scores, atol=1e-4, rtol=1e-4)
    few = Task(task.support, task.class_ids, task.query[:2])
    torch.testing.assert_close(method.answer(encoder, head, few), CAN().answer(encoder, head, few))


def test_the_loss_position_by_position() -> None:
    encoder, episode = make_small_encoder(), make_episode(n_query=2, noise=0.3)
    episode = replace(episode, source_ids=torch.tensor([5, 1, 7]))
    method = CAN()
    head = method.build_head(encoder, 3).eval()
    found = method.training_loss(encoder, head, episode)

    task = episode.task
    support, query = encoder.encode(task.images(), stop=2).split([15, 6])
    means = torch.stack([support[task.class_ids == c].mean(0) for c in range(3)])
    pairs = head(means, query)
    local, of_source = [], []
    for number, answer in enumerate(episode.query_class_ids.tolist()):
        for position in range(9):
            value = query[number].flatten(1)[:, position]
            attended = pairs.query_attention[number, answer, position] * value
            scores = 7 * F.cosine_similarity(attended[None], pairs.classes[number], dim=1)
            local.append(F.cross_entropy(scores, torch.tensor(answer)))
            logits = head.classify(attended)
            of_source.append(F.cross_entropy(logits, episode.source_ids[answer]))
    expected = 0.5 * torch.stack(local).mean() + torch.stack(of_source).mean()
    torch.testing.assert_close(found.loss, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found.scores, method.answer(encoder, head, task))


def test_an_episode_must_say_its_source_classes() -> None:
    encoder, episode = make_small_encoder(), make_episode()
    head = CAN().build_head(encoder, 3)
    with pytest.raises(TaskError, match="does not say which classes"):
        CAN().training_loss(encoder, head, Episode(episode.task, episode.query_class_ids))
    with pytest.raises(SettingsError, match="more than n_source_classes = 2"):
        CAN(n_source_classes=2).training_loss(encoder, head, episode)
