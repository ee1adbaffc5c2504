from dataclasses import fields, is_dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from appl.core.distances import class_means, squared_distances
from appl.core.episode import Task
from appl.errors import SettingsError
from appl.method.algorithm2 import adapt
from appl.method.pcn import PCN
from appl.settings.files import with_changes
from appl.settings.solving import SolveSettings
from appl.solver.solve import solve_task
from appl.solver.variants import VARIANTS, variant
from appl.transduction.adaptive_prior_tim import AdaptivePriorTIM
from appl.transduction.answer import InformationRule
from appl.transduction.placing import Described
from tests.conftest import WIDTH, are_equal, make_episode, make_small_encoder, weights_of
from tests.map_encoder import make_map_encoder
from tests.token_encoder import make_token_encoder

PRESETS = ["paper", "released", "robust"]


def preset(name="paper", answer=None, **adaptation):
    """Settings with four iterations, unless said otherwise; `answer` changes that group."""
    adaptation = {"n_iterations": 4} | adaptation
    return with_changes(SolveSettings.preset(name), adaptation=adaptation, answer=answer or {})


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_returns_scores_and_a_record_an_iteration(small_encoder, name):
    episode = make_episode()
    before = weights_of(small_encoder)
    pcn = PCN(WIDTH)
    seen = []
    result = solve_task(small_encoder, pcn, episode.task, preset(name), seen.append)
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
    first, second = (
        solve_task(small_encoder, PCN(WIDTH), episode.task, preset(name)) for _ in range(2)
    )
    assert torch.equal(first.scores, second.scores)
    assert are_equal(weights_of(first.encoder), weights_of(second.encoder))


@pytest.mark.parametrize("name", PRESETS)
def test_zero_iterations_change_no_weight(small_encoder, name):
    task = make_episode().task
    result = solve_task(small_encoder, PCN(WIDTH), task, preset(name, n_iterations=0))
    learnt = [n for n, _ in small_encoder.named_parameters()]
    before, after = small_encoder.state_dict(), result.encoder.state_dict()
    assert all(torch.equal(before[n], after[n]) for n in learnt)
    assert result.records == ()


@pytest.mark.parametrize("name", ["paper", "released"])
@pytest.mark.parametrize("n_iterations", [0, 4])
def test_the_presets_of_the_paper_are_algorithm_2_to_the_bit(small_encoder, name, n_iterations):
    task = make_episode(noise=0.3).task
    chosen = preset(name, n_iterations=n_iterations)
    solved = solve_task(small_encoder, PCN(WIDTH), task, chosen)
    alone = adapt(small_encoder, PCN(WIDTH), task, chosen.adaptation)
    assert torch.equal(solved.scores, alone.scores)
    assert are_equal(weights_of(solved.encoder), weights_of(alone.encoder))
    assert [r.loss for r in solved.records] == [r.loss for r in alone.records]
    assert torch.equal(solved.rule.prototypes, alone.prototypes)
    assert solved.vectors == ()


@pytest.mark.parametrize("counts", [[8, 8, 8], [12, 2, 2]])
def test_not_adapted_and_of_features_alone_it_is_adaptive_prior_tim(small_encoder, counts):
    """Also on an uneven pile, where the class prior that is found counts."""
    episode = make_episode(n_query=12, noise=0.2, seed=1)
    kept = torch.cat([torch.arange(n) + 12 * i for i, n in enumerate(counts)])
    task = Task(episode.task.support, episode.task.class_ids, episode.task.query[kept])
    plain = {"texture_weight": 0.0, "mirrored": False}
    chosen = preset("robust", plain, n_iterations=0)
    solved = solve_task(small_encoder, PCN(WIDTH), task, chosen)
    support, query = small_encoder.encode(task.support), small_encoder.encode(task.query)
    row = AdaptivePriorTIM()
    scores = row.scores(support, task.class_ids, query)
    torch.testing.assert_close(solved.scores, scores, rtol=1e-4, atol=1e-5)
    # It matters what is left out, and which prior was found.
    whole = solve_task(small_encoder, PCN(WIDTH), task, preset("robust", n_iterations=0))
    assert not torch.allclose(whole.scores, scores, rtol=1e-2, atol=1e-2)
    prior = solved.information.marginal_weight
    assert (prior > 0.9) if counts == [8, 8, 8] else (prior < 0.1)
    held = replace(row.information, marginal_weight=prior, least_marginal_weight=prior)
    same = AdaptivePriorTIM(held).scores(support, task.class_ids, query)
    torch.testing.assert_close(same, scores)
    other = AdaptivePriorTIM(replace(held, marginal_weight=0.5, least_marginal_weight=0.5))
    assert not torch.allclose(other.scores(support, task.class_ids, query), scores, rtol=1e-2)


def test_protonet_is_the_nearest_class_mean(small_encoder):
    task = make_episode().task
    for name in PRESETS:
        result = solve_task(small_encoder, PCN(WIDTH), task, variant(preset(name), "protonet"))
        support, query = small_encoder.encode(task.support), small_encoder.encode(task.query)
        expected = squared_distances(query, class_means(support, task.class_ids, 3))
        assert torch.equal(result.scores.argmax(1), expected.argmin(1))
        if name != "robust":
            torch.testing.assert_close(result.scores, -expected)


def test_without_its_query_loss_no_query_has_a_say_in_the_loss(small_encoder):
    task = make_episode().task
    one = preset(pseudo_labels={"threshold": 1.0})
    none = variant(preset(), "without_query_loss")
    first, second = (solve_task(small_encoder, PCN(WIDTH), task, s) for s in (one, none))
    assert torch.equal(first.scores, second.scores)


@settings(deadline=None, max_examples=25)
@given(
    shots=st.lists(st.sampled_from([1, 2, 3, 4, 5, 7, 20, 50]), min_size=2, max_size=10),
    name=st.sampled_from(["released", "robust"]),
    seed=st.integers(0, 99),
)
def test_any_number_of_classes_and_unequal_shots(shots, name, seed):
    task = make_episode(len(shots), shots, n_query=2, seed=seed).task
    result = solve_task(make_small_encoder(), PCN(WIDTH), task, preset(name, n_iterations=2))
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
    before = solve_task(encoder, pcn, task, chosen).scores[queries]
    after = solve_task(encoder, pcn, shuffled, chosen).scores
    torch.testing.assert_close(before, after, rtol=1e-5, atol=1e-5)
    assert torch.equal(before.argmax(1), after.argmax(1))


@pytest.mark.parametrize("name", sorted(VARIANTS))
@pytest.mark.parametrize("base", PRESETS)
def test_every_ablation_runs_and_differs_from_the_whole(small_encoder, base, name):
    task = make_episode(noise=0.3).task
    pcn = PCN(WIDTH)
    with torch.no_grad():  # near the class mean, but not equal to it
        noise = torch.randn(pcn.linear.weight.shape, generator=torch.Generator().manual_seed(1))
        pcn.linear.weight += 0.05 * noise
    chosen = preset(base, pseudo_labels={"threshold": 0.1})
    whole = solve_task(small_encoder, pcn, task, chosen)
    changed = solve_task(small_encoder, pcn, task, variant(chosen, name))
    assert changed.scores.isfinite().all()
    assert not torch.equal(changed.scores, whole.scores)


def test_an_unknown_variant_gets_the_nearest_name():
    with pytest.raises(SettingsError, match="did you mean 'without_wma'"):
        variant(SolveSettings(), "witout_wma")


def test_adaptation_helps_on_a_shifted_task():
    """Clear classes under noise that hides them from an untrained encoder: adapting must gain."""
    gains = []
    for seed in range(6):
        episode = make_episode(4, 5, n_query=12, seed=seed, noise=0.35)
        encoder = make_small_encoder(seed)
        chosen = preset(
            "robust", n_iterations=40, learning_rate=1e-2, parameters={"frozen_stages": 0}
        )
        protonet = solve_task(encoder, PCN(WIDTH), episode.task, variant(chosen, "protonet"))
        adapted = solve_task(encoder, PCN(WIDTH), episode.task, chosen)
        gains.append(episode.accuracy(adapted.scores) - episode.accuracy(protonet.scores))
    assert sum(gains) / len(gains) > 0.03


def test_every_setting_of_the_method_is_explained():
    groups, seen = [SolveSettings()], set()
    while groups:
        group = groups.pop()
        for item in fields(group):
            value = getattr(group, item.name)
            assert is_dataclass(value) or item.metadata["why"]
            if is_dataclass(value):
                groups.append(value)
                seen.add(item.name)
    of_the_paper = {"pseudo_labels", "wma", "objective", "parameters", "views", "prototypes"}
    assert seen == {"adaptation", "answer", "information"} | of_the_paper


@pytest.mark.parametrize("source", ["propagation", "information"])
def test_answers_and_pseudo_labels_from_all_images_together(small_encoder, source):
    """Both ways solve an easy task, and the pseudo-labels of iteration 1 are the head's own."""
    episode = make_episode(noise=0.05)
    chosen = preset(
        "robust", {"teacher": source, "rule": source}, n_iterations=1, views={"n_views": 1}
    )
    result = solve_task(small_encoder, PCN(WIDTH), episode.task, chosen)
    assert episode.accuracy(result.scores) == 1.0
    torch.testing.assert_close(result.scores.exp().sum(1), torch.ones(12), atol=1e-4, rtol=0)
    assert torch.equal(result.records[0].labels, episode.query_class_ids)


def test_an_iteration_may_take_a_part_of_the_queries(small_encoder):
    task = make_episode(n_query=6).task  # 18 queries
    chosen = preset("robust", n_iterations=4, query_batch=5)
    result = solve_task(small_encoder, PCN(WIDTH), task, chosen)
    taken = [(record.labels >= 0).sum().item() for record in result.records]
    assert taken[0] == 5 and taken == sorted(taken) and taken[-1] <= 18
    assert result.records[0].n_label_changes == 0
    assert all(sum(r.class_balance) == pytest.approx(1) for r in result.records)
    assert result.scores.shape == (18, 3) and result.scores.isfinite().all()
    again = solve_task(small_encoder, PCN(WIDTH), task, chosen)
    assert torch.equal(result.scores, again.scores)
    other = solve_task(
        small_encoder, PCN(WIDTH), task, with_changes(chosen, adaptation={"seed": 1})
    )
    assert not torch.equal(result.records[0].labels, other.records[0].labels)


def test_a_batch_as_large_as_the_pile_is_the_whole_pile(small_encoder):
    task = make_episode().task
    whole = preset("robust", n_iterations=3)
    part = with_changes(whole, adaptation={"query_batch": task.n_query})
    a, b = (solve_task(small_encoder, PCN(WIDTH), task, chosen) for chosen in (whole, part))
    assert torch.equal(a.scores, b.scores)


@pytest.mark.parametrize("name", ["paper", "robust"])
def test_the_rule_judges_the_queries_one_by_one_as_the_task_did(small_encoder, name):
    task = make_episode().task
    chosen = preset(name, n_iterations=3, learning_rate=1e-3, parameters={"batch_norm": "running"})
    result = solve_task(small_encoder, PCN(WIDTH), task, chosen)
    n_kinds = 2 if name == "robust" else 1  # robust counts texture
    assert len(result.describer.weights) == n_kinds
    for i in range(task.n_query):
        vectors = result.describer.in_parts(task.query[i : i + 1])
        assert len(vectors) == n_kinds
        scores = result.rule.scores(result.rule.place(vectors))[0]
        torch.testing.assert_close(torch.softmax(scores, 0), result.probs[i], rtol=1e-3, atol=1e-5)


def test_two_classes_are_self_trained(small_encoder):
    """ε·5/2 = 1 would select nothing, and the pile would be of no use."""
    task = make_episode(n_way=2).task
    result = solve_task(small_encoder, PCN(WIDTH), task, preset("robust", n_iterations=2))
    assert result.records[-1].selected_share > 0.5


def test_encoders_side_by_side_answer_with_what_each_sees():
    """Not adapted: the rule found on the features of both, each at its own size."""
    first, second = make_token_encoder(), make_map_encoder()
    task = make_episode(noise=0.3).task  # 12 px
    chosen = with_changes(
        SolveSettings.preset("robust"),
        adaptation={"n_iterations": 0},
        answer={"texture_weight": 0.0, "mirrored": False},
    )
    pcn = PCN(first.meta.width, rectifies=False)
    solved = solve_task(first, pcn, task, chosen, beside=(second,))
    larger = torch.nn.functional.interpolate(
        task.images(), (24, 24), mode="bilinear", antialias=True
    ).clamp(0, 1)
    kinds = [
        Described(*features.split([task.n_support, task.n_query]))
        for features in (first.encode(task.images()), second.encode(larger))
    ]
    rule = InformationRule.fit(kinds, task.class_ids, solved.information)
    expected = rule.scores(rule.place([kind.query for kind in kinds]))
    torch.testing.assert_close(solved.scores, torch.log_softmax(expected, 1), rtol=1e-3, atol=1e-3)
    alone = solve_task(first, pcn, task, chosen)
    assert not torch.allclose(alone.scores, solved.scores, atol=1e-2)


def test_each_of_two_encoders_learns_from_what_both_say():
    """With the other one replaced, the same encoder ends elsewhere: it has other teachers."""
    first = make_token_encoder()
    task = make_episode(noise=0.5).task
    chosen = with_changes(
        SolveSettings.preset("robust"), adaptation={"n_iterations": 3, "query_batch": 5}
    )
    pcn = PCN(first.meta.width, rectifies=False)
    one, other = (
        solve_task(first, pcn, task, chosen, beside=(make_map_encoder(seed),)) for seed in (0, 5)
    )
    assert len(one.records) == 6 and one.termination == "finished"  # three for each encoder
    weights = [
        torch.cat([p.flatten() for p in solved.encoders[0].parameters()]) for solved in (one, other)
    ]
    assert not torch.equal(*weights)
    with pytest.raises(SettingsError, match=r"side by side need a rule that weighs all images"):
        prototypes = with_changes(chosen, answer={"rule": "prototypes"})
        solve_task(first, pcn, task, prototypes, beside=(make_map_encoder(),))
