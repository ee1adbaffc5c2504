import pytest
import torch
import torch.nn.functional as F

from appl.core.features import centre_and_normalise
from appl.method.pcn import PCN
from appl.settings.files import with_changes
from appl.settings.solving import AnswerSettings, InformationSettings
from appl.solver.solve import solve_task
from appl.transduction.answer import hold_class_prior, weigh_together
from appl.transduction.placing import Described
from tests.conftest import WIDTH, make_episode, make_small_encoder
from tests.solver.test_solve import preset

CLASS_IDS = torch.tensor([0, 0, 1, 1, 2, 2])


def kinds(*weights: float) -> list[Described]:
    generator = torch.Generator().manual_seed(0)
    return [
        Described(
            torch.rand(6, 8 + i, generator=generator),
            torch.rand(9, 8 + i, generator=generator),
            weight,
        )
        for i, weight in enumerate(weights)
    ]


def test_kinds_side_by_side_average_their_squared_distances() -> None:
    """Without a step of information maximisation, scores are distances to class means."""
    settings = AnswerSettings(information=InformationSettings(n_iterations=0))
    found = -weigh_together("information", kinds(1.0, 0.5), CLASS_IDS, settings)
    expected = torch.zeros(9, 3)
    for kind in kinds(1.0, 0.5):
        support, query = centre_and_normalise(kind.support, CLASS_IDS, kind.query)
        means = support.view(3, 2, -1).mean(1)
        expected -= 15 / 2 * torch.cdist(query, means).square() * kind.weight / 1.5
    torch.testing.assert_close(found, torch.log_softmax(expected, 1), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("source", ["propagation", "information", "learnt"])
def test_the_same_kind_twice_changes_nothing(source: str) -> None:
    once, settings = kinds(1.0), AnswerSettings()
    twice = [*once, Described(once[0].support, once[0].query, 0.3)]
    torch.testing.assert_close(
        weigh_together(source, once, CLASS_IDS, settings),
        weigh_together(source, twice, CLASS_IDS, settings),
        atol=1e-4,
        rtol=1e-4,
    )


def described(encoder, episode, kinds="from_task", **answer) -> tuple[Described, ...]:
    settings = preset("robust", answer, n_iterations=0, views={"kinds": kinds})
    return solve_task(encoder, PCN(WIDTH), episode.task, settings).vectors


def test_texture_counts_if_it_has_a_weight_and_the_encoder_has_it(small_encoder) -> None:
    episode = make_episode()
    both = described(small_encoder, episode, texture_weight=0.5, mirrored=False)
    assert [kind.weight for kind in both] == [1.0, 0.5]
    with torch.no_grad():
        pixels = small_encoder.normalise(episode.task.query)
        features, texture = small_encoder.describe(pixels)
    torch.testing.assert_close(both[0].query, features)
    torch.testing.assert_close(both[1].query, texture)
    assert len(described(small_encoder, episode, texture_weight=0.0, mirrored=False)) == 1
    without = make_small_encoder(texture_stage=None)
    assert len(described(without, episode, texture_weight=0.5, mirrored=False)) == 1


def test_mirror_images_have_a_say_where_the_task_tolerates_them(small_encoder) -> None:
    episode = make_episode(noise=0.3)
    kind = described(small_encoder, episode, "all", texture_weight=0.0, mirrored=True)[0]
    query = episode.task.query
    mean = (small_encoder.encode(query) + small_encoder.encode(query.flip(3))) / 2
    torch.testing.assert_close(kind.query, mean)

    # Classes that are each other's mirror images do not tolerate it.
    left = torch.zeros(1, 3, 12, 12)
    left[..., :4] = 1
    images = torch.cat([left.repeat(5, 1, 1, 1), left.flip(3).repeat(5, 1, 1, 1)])
    images = (images + 0.05 * torch.rand(images.shape)).clamp(0, 1)
    ids = torch.tensor([0] * 5 + [1] * 5)
    episode = type(episode)(type(episode.task)(images, ids, images), ids)
    kind = described(small_encoder, episode, texture_weight=0.0, mirrored=True)[0]
    torch.testing.assert_close(kind.query, small_encoder.encode(images))


def test_both_encoders_have_a_say(small_encoder) -> None:
    episode = make_episode(noise=0.3)
    answer = {"encoders": "both", "texture_weight": 0.0, "mirrored": False}
    result = solve_task(
        small_encoder,
        PCN(WIDTH),
        episode.task,
        preset("robust", answer, n_iterations=3, learning_rate=0.1),
    )
    task = episode.task
    expected = weigh_together(
        "information",
        [
            Described(encoder.encode(task.support), encoder.encode(task.query))
            for encoder in result.describer.encoders
        ],
        task.class_ids,
        AnswerSettings(information=result.information),
    )
    adapted, unmoved = result.describer.encoders
    assert adapted is result.encoder
    torch.testing.assert_close(unmoved.encode(task.query), small_encoder.encode(task.query))
    assert not torch.allclose(
        small_encoder.encode(task.query), result.encoder.encode(task.query), rtol=1e-2
    )
    torch.testing.assert_close(F.log_softmax(result.scores, 1), -expected, atol=1e-3, rtol=1e-3)


def test_the_class_prior_is_found_before_the_encoder_moves(small_encoder) -> None:
    episode = make_episode(noise=0.6)
    settings = preset("robust", {"texture_weight": 0.0}, n_iterations=5, learning_rate=0.3)
    still = with_changes(settings, adaptation={"n_iterations": 0})
    frozen = solve_task(small_encoder, PCN(WIDTH), episode.task, still)
    result = solve_task(small_encoder, PCN(WIDTH), episode.task, settings)
    assert result.information == frozen.information
    assert result.information.marginal_weight == result.information.least_marginal_weight
    information = settings.answer.information
    anew = hold_class_prior(list(result.vectors), episode.task.class_ids, information)
    assert anew.marginal_weight != pytest.approx(result.information.marginal_weight, rel=1e-3)
