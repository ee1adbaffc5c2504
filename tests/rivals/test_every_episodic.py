"""What every meta-trained method with a head must do, untrained, on a small encoder."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F

from appl.core.episode import Task
from appl.core.methods import METHODS, EpisodeLoss, EpisodicMethod
from appl.encoders import KeptFeatures, features_of
from appl.weights.heads import Head
from tests.conftest import make_episode, make_small_encoder

EPISODIC = [name for name in METHODS.names() if isinstance(METHODS.get(name)(), EpisodicMethod)]
# Every method as it comes, and the options that change how an answer comes about.
ROWS = [(name, {}) for name in EPISODIC] + [
    ("can", {"inference": "transductive"}),
    ("can", {"side": 2}),
    ("gnn", {"grouping": "random"}),
    ("gnn", {"batch_norm": "batch"}),
    ("hvm", {"n_levels": 1}),
    ("lrp_can", {"inference": "inductive"}),
    ("lrp_gnn", {"grouping": "random"}),
    ("maml", {"batch_norm": "running"}),
    ("maml", {"order": "first"}),
    ("matching", {"full_context": False}),
    ("meta_opt", {"head": "ridge"}),
    ("meta_opt", {"features": "raw"}),
    ("relation", {"batch_norm": "running"}),
    ("relation", {"loss_form": "cross_entropy"}),
]
# One-hot classes enter the graph's nodes and the linear head has a row a class: both know a class
# by its number. `test_gnn` and `test_maml` rename the head along with the classes.
NUMBERED_CLASSES = ("gnn", "maml", "gnn_ata", "gnn_fwt", "lrp_gnn")

every_row = pytest.mark.parametrize(("name", "settings"), ROWS, ids=lambda part: str(part))


def prepare(name: str, settings: dict, n_way: int = 3, *, training: bool = False):
    """Return the method, an encoder, and a head for it, the same at every call."""
    method = METHODS.get(name)(**settings)
    encoder = make_small_encoder().train(training)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        head = method.build_head(encoder, n_way)
    return method, encoder, head.train(training)


def loss_of(method, encoder, head, episode) -> EpisodeLoss:
    return Head("", method, {}, episode.task.n_way, head).training_loss(encoder, episode)


def takes(method) -> str:
    return getattr(method, "takes", method.card.takes)


@pytest.mark.parametrize("name", EPISODIC)
def test_the_card_says_that_it_is_trained(name: str) -> None:
    assert METHODS.get(name).card.is_meta_trained
    assert METHODS.get(name).__doc__


@every_row
@torch.no_grad()
def test_the_tag_is_true(name: str, settings: dict) -> None:
    """Queries as one batch, in parts and one by one: only those tagged none answer the same."""
    method, encoder, head = prepare(name, settings)
    task = make_episode(n_query=5, noise=0.3).task
    scores = {
        size: torch.cat(
            [
                method.answer(encoder, head, Task(task.support, task.class_ids, part))
                for part in task.query.split(size)
            ]
        )
        for size in (15, 4, 1)
    }
    assert scores[15].shape == (15, 3) and scores[15].isfinite().all()
    for size in (4, 1):
        is_alone = torch.allclose(scores[size], scores[15], atol=1e-5, rtol=1e-4)
        assert is_alone == (takes(method) == "none")


@every_row
@torch.no_grad()
def test_a_second_call_gives_the_same_answer_and_changes_nothing(name: str, settings: dict) -> None:
    method, encoder, head = prepare(name, settings)
    before = deepcopy(encoder.state_dict()), deepcopy(head.state_dict())
    task = make_episode(noise=0.3).task
    first = method.answer(encoder, head, task)
    assert torch.equal(method.answer(encoder, head, task), first)
    for module, state in zip((encoder, head), before, strict=True):
        assert all(torch.equal(value, state[key]) for key, value in module.state_dict().items())
        assert not any(part.training for part in module.modules())


@every_row
@torch.no_grad()
def test_order_of_images_does_not_matter(name: str, settings: dict) -> None:
    method, encoder, head = prepare(name, settings)
    task = make_episode(noise=0.3).task
    scores = method.answer(encoder, head, task)
    generator = torch.Generator().manual_seed(1)
    by_support = torch.randperm(task.n_support, generator=generator)
    by_query = torch.randperm(task.n_query, generator=generator)
    shuffled = Task(task.support[by_support], task.class_ids[by_support], task.query[by_query])
    again = method.answer(encoder, head, shuffled)
    torch.testing.assert_close(again, scores[by_query], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "settings"), [row for row in ROWS if row[0] not in NUMBERED_CLASSES], ids=str
)
@torch.no_grad()
def test_renaming_classes_permutes_columns(name: str, settings: dict) -> None:
    method, encoder, head = prepare(name, settings)
    task = make_episode(noise=0.3).task
    renamed = torch.tensor([2, 0, 1])
    scores = method.answer(encoder, head, task)
    again = method.answer(encoder, head, Task(task.support, renamed[task.class_ids], task.query))
    torch.testing.assert_close(again[:, renamed], scores, atol=1e-4, rtol=1e-4)


@every_row
def test_two_classes_unequal_shots_and_bytes(name: str, settings: dict) -> None:
    method, encoder, head = prepare(name, settings, n_way=2)
    task = make_episode(n_way=2, shots=[1, 4], n_query=3).task
    images = ((255 * part).round().byte() for part in (task.support, task.query))
    support, query = images
    scores = method.answer(encoder, head, Task(support, task.class_ids, query))
    assert scores.shape == (6, 2) and scores.isfinite().all()
    as_floats = Task(support.float() / 255, task.class_ids, query.float() / 255)
    torch.testing.assert_close(method.answer(encoder, head, as_floats), scores)


@every_row
def test_gradients_reach_encoder_and_head(name: str, settings: dict) -> None:
    method, encoder, head = prepare(name, settings, training=True)
    episode = make_episode(noise=0.3)
    loss_of(method, encoder, head, episode).loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in encoder.parameters())
    assert any((p.grad != 0).any() for p in encoder.stages[0].parameters())
    assert all(p.grad is not None and p.grad.isfinite().all() for p in head.parameters())
    assert not list(head.parameters()) or any((p.grad != 0).any() for p in head.parameters())


def test_the_loss_is_the_cross_entropy_unless_the_method_says_otherwise() -> None:
    episode = make_episode(noise=0.3)
    for name, is_usual in (("gnn", True), ("relation", False)):
        method, encoder, head = prepare(name, {})
        found = loss_of(method, encoder, head, episode)
        assert torch.equal(found.scores, method.answer(encoder, head, episode.task))
        usual = F.cross_entropy(found.scores, episode.query_class_ids)
        assert torch.allclose(found.loss, usual) == is_usual


@every_row
def test_without_gradients_the_answer_is_the_same(name: str, settings: dict) -> None:
    method, encoder, head = prepare(name, settings)
    task = make_episode(noise=0.3).task
    with_gradients = method.answer(encoder, head, task)
    with torch.no_grad():
        without = method.answer(encoder, head, task)
    assert with_gradients.requires_grad and not without.requires_grad
    torch.testing.assert_close(without, with_gradients.detach())


# Not those that change the encoder, and those that draw an order from the pixels.
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        row
        for row in ROWS
        if METHODS.get(row[0]).card.needs != "weights"
        and not row[0].startswith("matching")
        and "grouping" not in row[1]
    ],
    ids=str,
)
@torch.no_grad()
def test_kept_features_in_the_place_of_images_give_the_same_answer(
    name: str, settings: dict
) -> None:
    method, encoder, head = prepare(name, settings)
    needs = method.card.needs
    if name.startswith("tpn"):
        method = METHODS.get(name)(batch_norm="running")  # else the encoder follows the task
    task = make_episode(noise=0.3).task
    support, query = (features_of(encoder, part, needs) for part in (task.support, task.query))
    kept = Task(support, task.class_ids, query)
    found = method.answer(KeptFeatures(encoder, needs), head, kept)
    expected = method.answer(encoder, head, task)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@every_row
def test_it_learns_one_task(name: str, settings: dict) -> None:
    """Classes overlap enough that the untrained method errs; a few dozen steps mend it."""
    if name.startswith("tpn"):
        settings = {"n_neighbours": 5}  # 20 are meant for a hundred images; here there are 27
    method, encoder, head = prepare(name, settings, training=True)
    episode = make_episode(noise=0.35, seed=2)
    adam = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.01)
    accuracies = []
    for _ in range(80):
        found = loss_of(method, encoder, head, episode)
        accuracies.append(episode.accuracy(found.scores))
        if accuracies[-1] == 1.0 and len(accuracies) > 1:
            break
        adam.zero_grad()
        found.loss.backward()
        adam.step()
    assert accuracies[0] < 1.0
    assert accuracies[-1] == 1.0
