"""What every registered method on frozen features must do, whatever it is."""

import pytest
import torch

from appl.core.methods import METHODS, EpisodicMethod, FeatureMethod, ImageMethod, MethodCard

FEATURE_METHODS = [
    name for name in METHODS.names() if isinstance(METHODS.get(name)(), FeatureMethod)
]


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
    verbs = (FeatureMethod, ImageMethod, EpisodicMethod)
    assert sum(isinstance(kind(), verb) for verb in verbs) == 1
    # A file is called as its method; the rows trained with noise stand together in `fwt`.
    home = "fwt" if name.endswith("_fwt") else name
    assert kind.__module__.rsplit(".", 1)[-1] in (home, "row")


@pytest.mark.parametrize("name", FEATURE_METHODS)
def test_separable_blobs_are_told_apart(name: str) -> None:
    support, class_ids, query, answers = blobs()
    scores = METHODS.get(name)().scores(support, class_ids, query)
    assert scores.shape == (48, 4) and scores.isfinite().all()
    assert (scores.argmax(1) == answers).float().mean() == 1.0


@pytest.mark.parametrize("name", FEATURE_METHODS)
def test_two_classes_and_unequal_shots(name: str) -> None:
    support, class_ids, query, answers = blobs(n_way=2)
    keep = torch.tensor([0, 5, 6, 7])  # one support of the first class, three of the second
    scores = METHODS.get(name)().scores(support[keep], class_ids[keep], query)
    assert scores.shape == (24, 2)
    assert (scores.argmax(1) == answers).float().mean() > 0.9


@pytest.mark.parametrize("name", FEATURE_METHODS)
def test_order_of_images_does_not_matter(name: str) -> None:
    support, class_ids, query, _ = blobs(spread=0.3)
    method = METHODS.get(name)()
    scores = method.scores(support, class_ids, query)
    generator = torch.Generator().manual_seed(1)
    by_support = torch.randperm(len(support), generator=generator)
    by_query = torch.randperm(len(query), generator=generator)
    shuffled = method.scores(support[by_support], class_ids[by_support], query[by_query])
    torch.testing.assert_close(shuffled, scores[by_query], atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("name", FEATURE_METHODS)
def test_renaming_classes_permutes_columns(name: str) -> None:
    support, class_ids, query, _ = blobs(spread=0.3)
    method = METHODS.get(name)()
    renamed = torch.tensor([2, 0, 3, 1])
    scores = method.scores(support, class_ids, query)
    again = method.scores(support, renamed[class_ids], query)
    torch.testing.assert_close(again[:, renamed], scores, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("name", FEATURE_METHODS)
def test_a_second_call_gives_the_same_answer(name: str) -> None:
    support, class_ids, query, _ = blobs(spread=0.3)
    before = support.clone(), query.clone()
    method = METHODS.get(name)()
    first = method.scores(support, class_ids, query)
    assert torch.equal(method.scores(support, class_ids, query), first)
    assert torch.equal(support, before[0]) and torch.equal(query, before[1])


@pytest.mark.parametrize("name", FEATURE_METHODS)
def test_the_tag_is_true(name: str) -> None:
    """A method tagged none scores a query alone as among others; a transductive one does not."""
    support, class_ids, query, _ = blobs(spread=0.3)
    method = METHODS.get(name)()
    whole = method.scores(support, class_ids, query)
    parts = torch.cat([method.scores(support, class_ids, part) for part in query.split(7)])
    is_alone = torch.allclose(whole, parts, atol=1e-4)
    assert is_alone == (method.card.takes == "none")
