"""What every registered method must do, whatever it is."""

import copy

import pytest
import torch

from appl.core.episode import Task
from appl.core.methods import (
    METHODS,
    EpisodicMethod,
    FeatureMethod,
    FrozenMethod,
    ImageMethod,
    LayerMethod,
    MethodCard,
)
from tests.conftest import make_episode, make_small_encoder

FEATURE_METHODS = [
    name for name in METHODS.names() if isinstance(METHODS.get(name)(), FrozenMethod)
]
# APPL has tests of its own; its prototype network takes wide features.
IMAGE_METHODS = [
    name
    for name in METHODS.names()
    if isinstance(METHODS.get(name)(), ImageMethod) and name != "appl"
]
# Fewer and larger steps than published, where those would take seconds.
QUICK = {
    "alpha_tim": dict(n_iterations=100, rate=1e-3),
    "entropy_fine_tune": dict(n_steps=4, rate=1e-3),
    "information_fine_tune": dict(n_steps=4, rate=1e-3),
    "pseudo_fine_tune": dict(n_steps=3),
}


def quick(name: str):
    settings = dict(n_epochs=3) if name in IMAGE_METHODS else {}
    method = METHODS.get(name)(**QUICK.get(name, settings))
    return InLayers(method) if isinstance(method, LayerMethod) else method


class InLayers:
    """A method on several layers, given the same features in two parts."""

    def __init__(self, method: LayerMethod) -> None:
        self.method, self.card = method, method.card

    def scores(self, support, class_ids, query):
        parts = [features.split([10, 6], 1) for features in (support, query)]
        return self.method.layer_scores(parts[0], class_ids, parts[1])


def blobs(n_way: int = 4, n_shot: int = 5, n_query: int = 12, spread: float = 0.05, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.rand(n_way, 16, generator=generator)

    def draw(n: int):
        ids = torch.arange(n_way).repeat_interleave(n)
        noise = spread * torch.randn(len(ids), 16, generator=generator)
        return (centres[ids] + noise).clamp(min=0), ids

    support, class_ids = draw(n_shot)
    query, answers = draw(n_query)
    order = torch.randperm(len(query), generator=generator)
    return support, class_ids, query[order], answers[order]


@pytest.mark.parametrize("name", METHODS.names())
def test_card_and_kind(name: str) -> None:
    kind = METHODS.get(name)
    assert isinstance(kind.card, MethodCard)
    verbs = (FeatureMethod, LayerMethod, ImageMethod, EpisodicMethod)
    assert sum(isinstance(kind(), verb) for verb in verbs) == 1
    # A file is called as its method; rows that are hosts, trained otherwise, stand together.
    home = next((file for file in ("ata", "fwt") if name.endswith(f"_{file}")), name)
    assert kind.__module__.rsplit(".", 1)[-1] in (home, "rows")


@pytest.mark.parametrize("name", FEATURE_METHODS)
def test_separable_blobs_are_told_apart(name: str) -> None:
    support, class_ids, query, answers = blobs()
    scores = quick(name).scores(support, class_ids, query)
    assert scores.shape == (48, 4) and scores.isfinite().all()
    assert (scores.argmax(1) == answers).float().mean() == 1.0


@pytest.mark.parametrize("name", FEATURE_METHODS)
def test_two_classes_and_unequal_shots(name: str) -> None:
    support, class_ids, query, answers = blobs(n_way=2)
    keep = torch.tensor([0, 5, 6, 7])  # one support of the first class, three of the second
    scores = quick(name).scores(support[keep], class_ids[keep], query)
    assert scores.shape == (24, 2)
    assert (scores.argmax(1) == answers).float().mean() > 0.9


@pytest.mark.parametrize("name", FEATURE_METHODS)
def test_order_of_images_does_not_matter(name: str) -> None:
    support, class_ids, query, _ = blobs(spread=0.3)
    method = quick(name)
    scores = method.scores(support, class_ids, query)
    generator = torch.Generator().manual_seed(1)
    by_support = torch.randperm(len(support), generator=generator)
    by_query = torch.randperm(len(query), generator=generator)
    shuffled = method.scores(support[by_support], class_ids[by_support], query[by_query])
    torch.testing.assert_close(shuffled, scores[by_query], atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("name", FEATURE_METHODS)
def test_renaming_classes_permutes_columns(name: str) -> None:
    support, class_ids, query, _ = blobs(spread=0.3)
    method = quick(name)
    renamed = torch.tensor([2, 0, 3, 1])
    scores = method.scores(support, class_ids, query)
    again = method.scores(support, renamed[class_ids], query)
    torch.testing.assert_close(again[:, renamed], scores, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("name", FEATURE_METHODS)
def test_a_second_call_gives_the_same_answer(name: str) -> None:
    support, class_ids, query, _ = blobs(spread=0.3)
    before = support.clone(), query.clone()
    method = quick(name)
    first = method.scores(support, class_ids, query)
    assert torch.equal(method.scores(support, class_ids, query), first)
    assert torch.equal(support, before[0]) and torch.equal(query, before[1])


@pytest.mark.parametrize("name", FEATURE_METHODS)
def test_the_tag_is_true(name: str) -> None:
    """A method tagged none scores a query alone as among others; a transductive one does not."""
    support, class_ids, query, _ = blobs(spread=0.3)
    method = quick(name)
    whole = method.scores(support, class_ids, query)
    parts = torch.cat([method.scores(support, class_ids, part) for part in query.split(7)])
    is_alone = torch.allclose(whole, parts, atol=1e-4)
    assert is_alone == (method.card.takes == "none")


@pytest.mark.parametrize("n_query", [1, 2, 3])
@pytest.mark.parametrize("name", FEATURE_METHODS)
def test_a_handful_of_queries_is_enough(name: str, n_query: int) -> None:
    support, class_ids, query, _ = blobs(n_way=7, n_shot=1)
    scores = quick(name).scores(support, class_ids, query[:n_query])
    assert scores.shape == (n_query, 7) and scores.isfinite().all()


@pytest.mark.parametrize("name", IMAGE_METHODS)
def test_the_tag_of_a_method_on_images_is_true(name: str) -> None:
    """Queries as one batch, in parts, one by one: the same answers, if and only if tagged none."""
    task, encoder, method = make_episode().task, make_small_encoder(), quick(name)

    def scores(sizes: int) -> torch.Tensor:
        parts = [Task(task.support, task.class_ids, part) for part in task.query.split(sizes)]
        return torch.cat(
            [method.solve(encoder, torch.nn.Identity(), part).scores for part in parts]
        )

    whole = scores(task.n_query)
    assert whole.shape == (12, 3) and whole.isfinite().all()
    for sizes in (5, 1):
        is_alone = torch.allclose(whole, scores(sizes), atol=1e-5)
        assert is_alone == (method.card.takes == "none")


@pytest.mark.parametrize("name", IMAGE_METHODS)
def test_a_method_on_images_leaves_everything_as_it_was(name: str) -> None:
    """The encoder with its batch norms' memory and mode, and the global random state."""
    task, encoder, method = make_episode(shots=[1, 4, 2]).task, make_small_encoder(), quick(name)
    before, modes = copy.deepcopy(encoder.state_dict()), [m.training for m in encoder.modules()]
    random_state = torch.get_rng_state()
    first = method.solve(encoder, torch.nn.Identity(), task).scores
    assert torch.equal(method.solve(encoder, torch.nn.Identity(), task).scores, first)
    assert all(torch.equal(value, before[key]) for key, value in encoder.state_dict().items())
    assert [m.training for m in encoder.modules()] == modes
    assert all(weight.grad is None for weight in encoder.parameters())
    assert torch.equal(torch.get_rng_state(), random_state)


@pytest.mark.parametrize("name", IMAGE_METHODS)
def test_order_of_queries_does_not_matter_on_images(name: str) -> None:
    task, encoder, method = make_episode(noise=0.3).task, make_small_encoder(), quick(name)
    order = torch.randperm(task.n_query, generator=torch.Generator().manual_seed(1))
    shuffled = Task(task.support, task.class_ids, task.query[order])
    expected = method.solve(encoder, torch.nn.Identity(), task).scores[order]
    found = method.solve(encoder, torch.nn.Identity(), shuffled).scores
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=2e-3)
