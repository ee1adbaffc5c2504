"""The network that learns over tasks: its pools, its tasks, its training, its file."""

import json

import pytest
import torch
from safetensors import safe_open

from appl.core.seeds import generator_for
from appl.errors import WeightsError
from appl.settings.solving import InformationSettings
from appl.settings.transductive_training import TransductiveTrainSettings
from appl.training.task_pools import TaskPool, drawn_domains, source_domains
from appl.training.transductive import (
    Pools,
    described_task,
    disturbed,
    draw_tasks,
    fixed_scores,
    train_transductive,
    validate,
    write_network,
)
from appl.transduction.answer import InformationRule
from appl.transduction.learnt import read_network
from appl.transduction.network import TransductivePCN
from appl.transduction.placing import Described, Placing

SETTINGS = TransductiveTrainSettings(
    n_steps=6, n_tasks=2, most_ways=4, n_layers=2, validate_every=3, n_validation_tasks=2
)


def make_pool(name: str, seed: int, n_classes: int = 8, n_images: int = 40, spread=0.6) -> TaskPool:
    generator = torch.Generator().manual_seed(seed)
    class_ids = torch.arange(n_classes).repeat_interleave(n_images)
    centres = torch.rand(n_classes, 12, generator=generator)
    noise = spread * torch.rand(len(class_ids), 12, generator=generator)
    features = (centres[class_ids] + noise).half()
    return TaskPool(name, (features, features, features[:, :5]), class_ids)


def make_pools() -> Pools:
    return Pools(
        learnt=[[make_pool("a", 1), make_pool("b", 2)]],
        drawn=[[make_pool("drawn", 3)]],
        validation=[[make_pool("validation", 4)]],
    )


@pytest.mark.parametrize("dirichlet", [0.0, 2.0])
def test_a_task_has_its_classes_apart_and_strangers_marked(dirichlet):
    pool = make_pool("a", 1)
    draw = pool.draw(generator_for(0), n_way=4, n_shot=3, n_query=20, dirichlet=dirichlet, n_ood=6)
    assert draw.class_ids.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert not set(draw.support.tolist()) & set(draw.query.tolist())
    true = pool.class_ids[draw.support].view(4, 3)
    assert (true == true[:, :1]).all() and len(set(true[:, 0].tolist())) == 4
    assert len(draw.query) == 26 and int((draw.query_class_ids < 0).sum()) >= 6
    known = draw.query_class_ids >= 0
    of_task = true[draw.query_class_ids[known], 0]
    assert torch.equal(pool.class_ids[draw.query[known]], of_task)
    assert not torch.isin(pool.class_ids[draw.query[~known]], true[:, 0]).any()
    counts = draw.query_class_ids[known].bincount(minlength=4)
    assert (counts.tolist() == [5, 5, 5, 5]) == (dirichlet == 0)


def test_disturbed_features_stay_what_they_are():
    generator = torch.Generator().manual_seed(0)
    positive = Described(torch.rand(6, 30), torch.rand(9, 30))
    signed = Described(torch.randn(6, 30), torch.randn(9, 30))
    changed = [disturbed(positive, generator) for _ in range(20)]
    assert all(kind.support.amin() >= 0 and kind.query.amin() >= 0 for kind in changed)
    same = [torch.allclose(kind.support, positive.support, atol=1e-6) for kind in changed]
    assert any(same) and not all(same)
    assert all(disturbed(signed, generator).support.amin() < 0 for _ in range(5))


def test_an_untrained_network_answers_as_the_fixed_rule_and_gains_nothing():
    network = TransductivePCN(2)
    gains = validate(network, [make_pool("a", 1)], SETTINGS)
    assert gains.keys() >= {"1 shots, even", "5 shots, uneven"}
    assert all(abs(gain) < 3 for gain in gains.values())


def test_the_fixed_rule_here_is_that_of_the_answer():
    pool = make_pool("a", 1, spread=2.0)
    draw = pool.draw(generator_for(1), n_way=5, n_shot=5, n_query=50, dirichlet=2.0, n_ood=0)
    kinds = described_task([pool], draw, full=True)
    rule = InformationRule.fit(kinds, draw.class_ids, InformationSettings())
    expected = rule.scores(rule.place([kind.query for kind in kinds]))
    support, query = Placing.of(kinds, draw.class_ids).task(kinds)
    found = fixed_scores(support, draw.class_ids, query)
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=1e-3)


def test_tasks_are_functions_of_seed_and_step():
    pools = make_pools()
    first, again, later = (draw_tasks(pools, SETTINGS, step) for step in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert first[2].shape != later[2].shape or not torch.equal(first[2], later[2])


def test_a_stopped_training_goes_on_to_the_same_weights(tmp_path):
    whole = train_transductive(make_pools(), SETTINGS, tmp_path / "whole", {"a": 1})

    class Stop(Exception):
        pass

    def stop(done, _total, _loss):
        if done == 5:
            raise Stop

    with pytest.raises(Stop):
        train_transductive(make_pools(), SETTINGS, tmp_path / "part", {"a": 1}, stop)
    seen = []
    later = train_transductive(
        make_pools(), SETTINGS, tmp_path / "part", {"a": 1}, lambda done, *_: seen.append(done)
    )
    assert seen == [4, 5, 6]
    for name, value in whole.network.state_dict().items():
        assert torch.equal(value, later.network.state_dict()[name])
        assert not torch.equal(value, TransductivePCN(2).state_dict()[name])
    assert [item.step for item in later.history] == [3, 6]
    with pytest.raises(WeightsError, match="other settings, images or encoders"):
        train_transductive(make_pools(), SETTINGS, tmp_path / "part", {"a": 2})

    path = tmp_path / "network.safetensors"
    write_network(path, later, {"trained_on": "tests"})
    read = read_network(path.read_bytes())
    assert torch.equal(read.steps, later.network.steps)
    with safe_open(path, "pt") as file:
        card = json.loads(file.metadata()["card"])
    assert card["trained_on"] == "tests" and len(card["history"]) == 2


def test_learning_lowers_the_loss_on_the_tasks_it_learns_on(tmp_path):
    pools = make_pools()
    settings = TransductiveTrainSettings(
        n_steps=60, n_tasks=4, most_ways=4, n_layers=2, validate_every=60, n_validation_tasks=2
    )
    run = train_transductive(pools, settings, tmp_path, {})
    before, after = 0.0, 0.0
    for step in range(1000, 1012):
        support, class_ids, query, truth = draw_tasks(pools, settings, step)
        with torch.no_grad():
            for network in (TransductivePCN(2), run.network):
                scores = network(support, class_ids, query).scores(query).flatten(0, 1)
                loss = torch.nn.functional.cross_entropy(scores, truth.flatten(), ignore_index=-1)
                if network is run.network:
                    after += loss.item()
                else:
                    before += loss.item()
    assert after < before


def test_domains_of_a_source_are_its_classes_in_disguise(source):
    names = list(source.class_names)[:2]
    plain, negative = source_domains(source, names, 5, ["plain", "inverted_grey"])
    assert plain.class_ids.tolist() == [0] * 5 + [1] * 5
    rows = torch.tensor([0, 7])
    images = plain.images(rows)
    grey = 255 - images.float().mean(1, keepdim=True)
    torch.testing.assert_close(negative.images(rows).float(), grey.round().expand(-1, 3, -1, -1))


def test_drawn_domains_are_classes_without_a_source():
    domains = list(drawn_domains(3, 4))
    assert len(domains) == 5 and list(drawn_domains(0, 4)) == []
    for domain in domains:
        images = domain.images(torch.arange(12))
        assert images.shape == (12, 3, 96, 96) and images.dtype == torch.uint8
        assert torch.equal(images[:3], domain.images(torch.arange(3)))
        assert len({image.numpy().tobytes() for image in images}) == 12
