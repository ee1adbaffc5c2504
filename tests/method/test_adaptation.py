from dataclasses import fields

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from appl.core.distances import class_means, squared_distances
from appl.core.episode import Task
from appl.errors import SettingsError
from appl.method import adaptation as module
from appl.method.adaptation import adapt
from appl.method.calibration import confidence_threshold
from appl.method.describing import describe
from appl.method.pcn import PCN
from appl.method.variants import VARIANTS, variant
from appl.settings import AdaptSettings
from appl.settings.files import with_changes
from tests.conftest import WIDTH, make_episode, make_small_encoder

PRESETS = ["paper", "released", "robust"]


def preset(name="paper", **changes):
    return with_changes(AdaptSettings.preset(name), **({"n_iterations": 4} | changes))


def weights_of(encoder):
    return {name: value.clone() for name, value in encoder.state_dict().items()}


def are_equal(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_returns_scores_and_a_record_an_iteration(small_encoder, name):
    episode = make_episode()
    before = weights_of(small_encoder)
    pcn = PCN(WIDTH)
    seen = []
    result = adapt(small_encoder, pcn, episode.task, preset(name), seen.append)
    assert result.scores.shape == (12, 3) and result.scores.isfinite().all()
    torch.testing.assert_close(result.probs.sum(1), torch.ones(12))
    assert result.termination == "finished"
    assert list(result.records) == seen
    assert [r.iteration for r in result.records] == [1, 2, 3, 4]
    for record in result.records:
        assert sum(record.class_balance) == pytest.approx(1)
        assert record.labels.shape == (12,)
        assert 0 <= record.selected_share <= 1 and 0 <= record.support_accuracy <= 1
    # The caller's encoder and PCN are as before; the adapted copy is not.
    assert are_equal(before, weights_of(small_encoder))
    assert all(p.requires_grad for p in pcn.parameters())
    assert not are_equal(before, weights_of(result.encoder))


@pytest.mark.parametrize("name", PRESETS)
def test_the_same_seed_gives_the_same_answer_to_the_bit(small_encoder, name):
    episode = make_episode(seed=5)
    first, second = (adapt(small_encoder, PCN(WIDTH), episode.task, preset(name)) for _ in range(2))
    assert torch.equal(first.scores, second.scores)
    assert are_equal(weights_of(first.encoder), weights_of(second.encoder))


@pytest.mark.parametrize("name", PRESETS)
def test_zero_iterations_change_no_weight(small_encoder, name):
    result = adapt(small_encoder, PCN(WIDTH), make_episode().task, preset(name, n_iterations=0))
    learnt = [n for n, _ in small_encoder.named_parameters()]
    before, after = small_encoder.state_dict(), result.encoder.state_dict()
    assert all(torch.equal(before[n], after[n]) for n in learnt)
    assert result.records == ()


def test_protonet_is_the_nearest_class_mean(small_encoder):
    task = make_episode().task
    for name in PRESETS:
        result = adapt(small_encoder, PCN(WIDTH), task, variant(preset(name), "protonet"))
        support, query = small_encoder.encode(task.support), small_encoder.encode(task.query)
        expected = squared_distances(query, class_means(support, task.class_ids, 3))
        assert torch.equal(result.scores.argmax(1), expected.argmin(1))
        if name != "robust":
            torch.testing.assert_close(result.scores, -expected)


def test_a_threshold_of_one_is_the_same_as_no_query_loss(small_encoder):
    task = make_episode().task
    one = adapt(small_encoder, PCN(WIDTH), task, preset(threshold=1.0))
    none = adapt(small_encoder, PCN(WIDTH), task, variant(preset(), "without_query_loss"))
    with_loss = adapt(small_encoder, PCN(WIDTH), task, preset(threshold=0.0))
    assert torch.equal(one.scores, none.scores)
    assert not torch.equal(one.scores, with_loss.scores)
    assert [r.selected_share for r in one.records] == [0] * 4


def test_the_first_iteration_by_hand(small_encoder):
    """Preset `paper`, one iteration, written out with torch alone."""
    task = make_episode().task
    result = adapt(small_encoder, PCN(WIDTH), task, preset(n_iterations=1))
    encoder = make_small_encoder().requires_grad_()
    for stage in encoder.stages:
        stage.train()
    features = encoder(encoder.normalise(task.images()))
    support, query = features[:15], features[15:]
    prototypes = torch.stack([support[i : i + 5].mean(0) for i in (0, 5, 10)])
    h = torch.cdist(query, prototypes).square()
    d_support = torch.cdist(support, prototypes).square()
    soft = torch.softmax(-0.495 * h.detach(), 1)  # h̃⁰ = 0, α_1 = .495
    chosen = soft.amax(1) > 0.4
    ce_query = -(soft * torch.log_softmax(-h, 1)).sum(1)[chosen].sum()
    ce_support = torch.nn.functional.cross_entropy(-d_support, task.class_ids, reduction="sum")
    pairs = [(0, 1), (0, 2), (1, 2)]
    dis = 1 / sum((prototypes[a] - prototypes[b]).square().sum() for a, b in pairs)
    coh = sum(d_support[i, task.class_ids[i]] for i in range(15))
    loss = ce_support + ce_query + 0.1 * dis + 1e-3 * coh
    record = result.records[0]
    assert record.loss == pytest.approx(loss.item(), rel=1e-4)
    assert record.query_loss == pytest.approx(ce_query.item(), rel=1e-3, abs=1e-5)
    assert record.selected_share == pytest.approx(chosen.float().mean().item())
    parameters = list(encoder.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.data -= 1e-2 * gradient
    for ours, expected in zip(result.encoder.parameters(), parameters, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-5)


@settings(deadline=None, max_examples=25)
@given(
    shots=st.lists(st.sampled_from([1, 2, 3, 4, 5, 7, 20, 50]), min_size=2, max_size=10),
    name=st.sampled_from(["released", "robust"]),
    seed=st.integers(0, 99),
)
def test_any_number_of_classes_and_unequal_shots(shots, name, seed):
    task = make_episode(len(shots), shots, n_query=2, seed=seed).task
    result = adapt(make_small_encoder(), PCN(WIDTH), task, preset(name, n_iterations=2))
    assert result.scores.shape == (2 * len(shots), len(shots))
    assert result.scores.isfinite().all() and result.termination == "finished"


@settings(deadline=None, max_examples=15)
@given(shot=st.sampled_from([1, 2, 3, 5, 7, 20]), seed=st.integers(0, 99))
def test_shuffling_files_does_not_change_a_prediction_of_robust(shot, seed):
    """In float64: Adam turns the rounding of another order of summation into steps of its own."""
    task = make_episode(3, shot, n_query=5, seed=seed).task
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(task.n_support, generator=generator)
    queries = torch.randperm(task.n_query, generator=generator)
    shuffled = Task(task.support[order], task.class_ids[order], task.query[queries])
    chosen = preset("robust", n_iterations=3)
    encoder, pcn = make_small_encoder().double(), PCN(WIDTH).double()
    before = adapt(encoder, pcn, task, chosen).scores[queries]
    after = adapt(encoder, pcn, shuffled, chosen).scores
    torch.testing.assert_close(before, after, rtol=1e-5, atol=1e-5)
    assert torch.equal(before.argmax(1), after.argmax(1))


def test_renaming_the_classes_permutes_the_scores(small_encoder):
    task = make_episode().task
    renamed = torch.tensor([2, 0, 1])
    other = Task(task.support, renamed[task.class_ids], task.query)
    first = adapt(small_encoder, PCN(WIDTH), task, preset()).scores
    second = adapt(small_encoder, PCN(WIDTH), other, preset()).scores
    torch.testing.assert_close(first, second[:, renamed], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", sorted(VARIANTS))
@pytest.mark.parametrize("base", PRESETS)
def test_every_ablation_runs_and_differs_from_the_whole(small_encoder, base, name):
    task = make_episode(noise=0.3).task
    pcn = PCN(WIDTH)
    with torch.no_grad():  # near the class mean, but not equal to it
        noise = torch.randn(pcn.linear.weight.shape, generator=torch.Generator().manual_seed(1))
        pcn.linear.weight += 0.05 * noise
    whole = adapt(small_encoder, pcn, task, preset(base, threshold=0.1))
    changed = adapt(small_encoder, pcn, task, variant(preset(base, threshold=0.1), name))
    assert changed.scores.isfinite().all()
    assert not torch.equal(changed.scores, whole.scores)


def test_an_unknown_variant_gets_the_nearest_name():
    with pytest.raises(SettingsError, match="did you mean 'without_wma'"):
        variant(AdaptSettings(), "witout_wma")


@pytest.mark.parametrize("at", [1, 3])
def test_a_loss_that_is_not_finite_stops_with_the_last_good_state(small_encoder, monkeypatch, at):
    """The step before iteration 3 is poisoned: its loss is infinite, so the state goes back."""
    task = make_episode().task
    calls = []
    real = module.separation_loss

    def poisoned(prototypes, pairs):
        calls.append(1)
        return real(prototypes, pairs) * (torch.inf if len(calls) == at else 1)

    monkeypatch.setattr(module, "separation_loss", poisoned)
    result = adapt(small_encoder, PCN(WIDTH), task, preset(n_iterations=6))
    assert result.termination == f"the loss was not finite at iteration {at}"
    assert len(result.records) == at - 1
    assert result.scores.isfinite().all()
    monkeypatch.undo()
    good = adapt(small_encoder, PCN(WIDTH), task, preset(n_iterations=max(0, at - 2)))
    expected, found = dict(good.encoder.named_parameters()), dict(result.encoder.named_parameters())
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_an_exploding_rate_ends_finite(small_encoder):
    task = make_episode().task
    result = adapt(small_encoder, PCN(WIDTH), task, preset(n_iterations=20, learning_rate=1e30))
    assert "not finite" in result.termination
    assert result.scores.isfinite().all()
    assert all(p.isfinite().all() for p in result.encoder.parameters())


def test_adaptation_helps_on_a_shifted_task():
    """Clear classes under noise that hides them from an untrained encoder: adapting must gain."""
    gains = []
    for seed in range(6):
        episode = make_episode(4, 5, n_query=12, seed=seed, noise=0.35)
        encoder = make_small_encoder(seed)
        chosen = preset("robust", n_iterations=40, learning_rate=1e-2, frozen_stages=0)
        protonet = adapt(encoder, PCN(WIDTH), episode.task, variant(chosen, "protonet"))
        adapted = adapt(encoder, PCN(WIDTH), episode.task, chosen)
        gains.append(episode.accuracy(adapted.scores) - episode.accuracy(protonet.scores))
    assert sum(gains) / len(gains) > 0.03


def test_every_setting_of_the_method_is_explained():
    groups = ("prototypes", "wma", "views", "information")
    paper = AdaptSettings()
    for group in (paper, *(getattr(paper, name) for name in groups)):
        for item in fields(group):
            assert item.name in groups or item.metadata["why"]


@pytest.mark.parametrize("source", ["propagation", "information"])
def test_answers_and_pseudo_labels_from_all_images_together(small_encoder, source):
    """Both ways solve an easy task, and the pseudo-labels of iteration 1 are the head's own."""
    episode = make_episode(noise=0.05)
    settings = preset("robust", pseudo_from=source, predict_from=source, n_iterations=1)
    settings = with_changes(settings, views={"n_views": 1})
    result = adapt(small_encoder, PCN(WIDTH), episode.task, settings)
    assert episode.accuracy(result.scores) == 1.0
    torch.testing.assert_close(result.scores.exp().sum(1), torch.ones(12), atol=1e-4, rtol=0)
    assert torch.equal(result.records[0].labels, episode.query_class_ids)


def test_an_iteration_may_take_a_part_of_the_queries(small_encoder):
    task = make_episode(n_query=6).task  # 18 queries
    settings = with_changes(AdaptSettings.preset("robust"), n_iterations=4, query_batch=5)
    result = adapt(small_encoder, PCN(WIDTH), task, settings)
    taken = [(record.labels >= 0).sum().item() for record in result.records]
    assert taken[0] == 5 and taken == sorted(taken) and taken[-1] <= 18
    assert result.records[0].n_label_changes == 0
    assert all(sum(r.class_balance) == pytest.approx(1) for r in result.records)
    assert result.scores.shape == (18, 3) and result.scores.isfinite().all()
    again = adapt(small_encoder, PCN(WIDTH), task, settings)
    assert torch.equal(result.scores, again.scores)
    other = adapt(small_encoder, PCN(WIDTH), task, with_changes(settings, seed=1))
    assert not torch.equal(result.records[0].labels, other.records[0].labels)


def test_a_batch_as_large_as_the_pile_is_the_whole_pile(small_encoder):
    task = make_episode().task
    whole = with_changes(AdaptSettings.preset("robust"), n_iterations=3)
    a = adapt(small_encoder, PCN(WIDTH), task, whole)
    b = adapt(small_encoder, PCN(WIDTH), task, with_changes(whole, query_batch=task.n_query))
    assert torch.equal(a.scores, b.scores)


@pytest.mark.parametrize("preset", ["paper", "robust"])
def test_the_answer_judges_the_queries_one_by_one_as_the_task_did(small_encoder, preset):
    task = make_episode().task
    settings = with_changes(
        AdaptSettings.preset(preset), n_iterations=3, batch_norm="running", learning_rate=1e-3
    )
    result = adapt(small_encoder, PCN(WIDTH), task, settings)
    for i in range(task.n_query):
        vectors = describe(
            result.encoder,
            task.query[i : i + 1],
            mirrored=result.mirrored,
            with_texture=settings.texture_weight > 0,
        )
        scores = result.answer.scores(result.answer.place(vectors))[0]
        torch.testing.assert_close(torch.softmax(scores, 0), result.probs[i], rtol=1e-3, atol=1e-5)


@pytest.mark.golden
def test_the_threshold_by_the_number_of_classes():
    robust = AdaptSettings.preset("robust")  # ε = .4
    by_hand = {2: 0.625, 3: 0.5, 4: 0.4375, 5: 0.4, 10: 0.2, 38: 2 / 38}
    for n_way, threshold in by_hand.items():
        assert confidence_threshold(n_way, robust) == pytest.approx(threshold)
        assert confidence_threshold(n_way, AdaptSettings.preset("paper")) == 0.4


def test_two_classes_are_self_trained(small_encoder):
    """ε·5/2 = 1 would select nothing, and the pile would be of no use."""
    task = make_episode(n_way=2).task
    settings = with_changes(AdaptSettings.preset("robust"), n_iterations=2)
    assert adapt(small_encoder, PCN(WIDTH), task, settings).records[-1].selected_share > 0.5
