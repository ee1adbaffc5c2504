"""An encoder that is no convolutional network goes the same ways as one."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from appl.core.distances import class_means
from appl.encoders import Encoder, EncoderSpec, WeightsSource, from_spec
from appl.errors import UnknownNameError
from appl.method.classifier import PrototypeClassifier
from appl.method.pcn import PCN
from appl.settings import MetaTrainSettings, PrototypeSettings
from appl.settings.files import with_changes
from appl.settings.solving import SolveSettings
from appl.solver.solve import solve_task
from appl.training.checkpoint import origin_of
from appl.weights import Pretrained, class_mean_pcn, load_file, load_pretrained, save_weights
from appl.weights.checkpoint import write_checkpoint
from tests.conftest import are_equal, make_episode, weights_of
from tests.token_encoder import META, make_token_encoder


@pytest.fixture
def encoder() -> Encoder:
    return make_token_encoder()


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.rand(5, 3, 12, 12, generator=torch.Generator().manual_seed(0))


@pytest.mark.golden
@pytest.mark.parametrize(
    ("pooling", "n_prefix_tokens", "expected"),
    [
        ("class_token", 1, [[1, -2], [0, 4]]),
        ("mean", 1, [[4, -3], [1, 2]]),
        ("mean", 0, [[3, -8 / 3], [2 / 3, 8 / 3]]),
        ("mean", 2, [[5, 0], [2, 2]]),  # a class token and one more that is no patch
        ("class_and_patches", 1, [[1, -2, 4, -3], [0, 4, 1, 2]]),
    ],
)
def test_tokens_are_pooled_as_the_record_says(encoder, pooling, n_prefix_tokens, expected):
    encoder.meta = replace(META, pooling=pooling, n_prefix_tokens=n_prefix_tokens)
    tokens = torch.tensor([[[1.0, -2], [3, -6], [5, 0]], [[0, 4], [0, 2], [2, 2]]])
    torch.testing.assert_close(encoder.pool(tokens), torch.tensor(expected).float())
    assert encoder.pool(tokens.half()).dtype == torch.float32


def test_features_are_the_class_token_of_the_last_stage(encoder, images):
    with torch.no_grad():
        outputs = encoder.stage_outputs(encoder.normalise(images))
    assert [tuple(tokens.shape) for tokens in outputs.values()] == [(5, 10, 8)] * 3
    features = encoder.encode(images)
    torch.testing.assert_close(features, outputs["block2"][:, 0])
    assert (features < 0).any() and (features > 0).any()


def test_an_image_is_encoded_alike_alone_and_in_a_batch(encoder, images):
    together = encoder.encode(images)
    for i in range(5):
        alone = encoder.encode(images[i : i + 1])
        torch.testing.assert_close(alone, together[i : i + 1], rtol=1e-4, atol=1e-6)
    others = torch.cat([images[:1], 1 - images[1:]])
    torch.testing.assert_close(encoder.encode(others)[:1], together[:1], rtol=1e-4, atol=1e-6)


def test_texture_is_the_deviation_of_the_patches(encoder, images):
    with torch.no_grad():
        features, texture = encoder.describe(encoder.normalise(images))
        tokens = encoder.stage_outputs(encoder.normalise(images))["block1"]
    patches = tokens[:, 1:]
    mean = patches.mean(1, keepdim=True)
    torch.testing.assert_close(texture, ((patches - mean).square().sum(1) / 9).sqrt())
    torch.testing.assert_close(features, encoder.encode(images))
    # From what the frozen stage has made, it is the same.
    for start in (1, 2):
        maps = encoder.encode(images, start)
        with torch.no_grad():
            late = encoder.describe(maps, start)
        for one, other in zip(late, (features, texture), strict=True):
            torch.testing.assert_close(one, other)


def norm_names(encoder: Encoder) -> set[str]:
    return {
        f"{module_name}.{name}"
        for module_name, module in encoder.named_modules()
        if type(module) is nn.LayerNorm
        for name in ("weight", "bias")
    }


@pytest.mark.parametrize("from_stage", [0, 1, 2])
def test_norms_are_the_scales_and_shifts_and_weights_the_rest(encoder, from_stage):
    late = {
        name: parameter
        for name, parameter in encoder.named_parameters()
        if int(name.split(".")[1]) >= from_stage
    }
    expected = {name for name in late if name in norm_names(encoder)}
    assert len(expected) == {0: 8, 1: 8, 2: 4}[from_stage]

    def found(kind: str) -> set[str]:
        chosen = [id(parameter) for parameter in encoder.parameters_of(kind, from_stage)]
        assert len(chosen) == len(set(chosen))
        return {name for name, parameter in late.items() if id(parameter) in chosen}

    assert found("norms") == expected
    assert found("weights") == set(late) - expected
    assert found("all") == set(late)
    assert from_stage or "stages.0.class_token" in found("weights")


def test_without_its_relu_a_mean_pcn_is_the_class_mean_of_negative_features(encoder):
    task = make_episode().task
    features = encoder.encode(task.support)
    means = class_means(features, task.class_ids, 3)
    assert (means < 0).any()
    assert class_mean_pcn(encoder).rectifies is False
    for order in ("as_given", "symmetric"):
        prototypes = {}
        for rectifies in (False, True):
            pcn = PCN(8, rectifies=rectifies)
            classifier = PrototypeClassifier(pcn, task.class_ids, PrototypeSettings(order=order))
            classifier.group(features)
            prototypes[rectifies] = classifier.prototypes(features)
        torch.testing.assert_close(prototypes[False], means)
        torch.testing.assert_close(prototypes[True], means.clamp(min=0))
        assert not torch.allclose(prototypes[True], means, atol=1e-2)


@pytest.mark.parametrize("n_iterations", [0, 3])
def test_robust_adapts_its_norms_alone_and_tells_easy_classes_apart(encoder, n_iterations):
    episode = make_episode(noise=0.02)
    before = weights_of(encoder)
    chosen = with_changes(SolveSettings.preset("robust"), adaptation={"n_iterations": n_iterations})
    solved = solve_task(encoder, class_mean_pcn(encoder), episode.task, chosen)
    assert solved.termination == "finished" and len(solved.records) == n_iterations
    assert solved.scores.shape == (12, 3) and solved.scores.isfinite().all()
    assert episode.accuracy(solved.scores) == 1.0
    assert [kind.weight for kind in solved.vectors] == [1.0, 0.5]
    assert are_equal(before, weights_of(encoder))
    after = weights_of(solved.encoder)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == (norm_names(encoder) if n_iterations else set())


@pytest.mark.parametrize("name", ["paper", "released"])
def test_the_presets_of_the_paper_run_on_it(encoder, name):
    """Batch statistics have nothing to take hold of; all parameters move."""
    episode = make_episode(noise=0.02)
    chosen = with_changes(SolveSettings.preset(name), adaptation={"n_iterations": 2})
    solved = solve_task(encoder, class_mean_pcn(encoder), episode.task, chosen)
    assert solved.termination == "finished" and episode.accuracy(solved.scores) == 1.0
    before, after = weights_of(encoder), weights_of(solved.encoder)
    assert any(
        not torch.equal(before[name], after[name]) for name in set(before) - norm_names(encoder)
    )


def test_weights_come_back_with_specification_record_and_values(encoder, images, tmp_path):
    source = WeightsSource("ours", "1", "MIT", "leaves")
    encoder.meta = replace(encoder.meta, weights=source, input_px=16)
    torch.manual_seed(0)
    pcn = PCN(8, 3, "random", rectifies=False)
    path = tmp_path / "tokens.safetensors"
    save_weights(path, Pretrained(encoder, pcn, {"hours": 1}), exact=True)
    found = load_pretrained(path)
    assert found.encoder is not encoder
    assert found.encoder.spec == encoder.spec == EncoderSpec("registered", "test_tokens")
    assert found.encoder.meta == encoder.meta and found.encoder.meta.weights == source
    assert are_equal(found.encoder.state_dict(), encoder.state_dict())
    assert are_equal(found.pcn.state_dict(), pcn.state_dict())
    assert (found.pcn.n_slots, found.pcn.rectifies) == (3, False)
    assert found.provenance == {"hours": 1}
    assert torch.equal(found.encoder.encode(images), encoder.encode(images))
    built = from_spec(encoder.spec, encoder.meta.to_dict())
    assert built.meta == encoder.meta
    assert not are_equal(built.state_dict(), encoder.state_dict())  # weights are not its affair


@pytest.mark.parametrize("has_pcn", [True, False])
def test_a_checkpoint_of_it_has_prototypes_without_a_relu(encoder, tmp_path, has_pcn):
    settings, pcn = MetaTrainSettings(), PCN(8, rectifies=False)
    origin = origin_of("meta", encoder, settings, "digest", None, 1)
    state = {"encoder": encoder.state_dict(), "history": []}
    state |= {"pcn": pcn.state_dict()} if has_pcn else {}
    write_checkpoint(tmp_path / "best.pt", origin | state)
    found = load_file(tmp_path / "best.pt")
    assert found.encoder.meta.name == "test_tokens" and found.holds_pcn == has_pcn
    assert are_equal(found.encoder.state_dict(), encoder.state_dict())
    assert found.pcn.rectifies is False and found.pcn.is_class_mean


def test_it_has_no_weights_of_its_own():
    with pytest.raises(UnknownNameError, match="test_tokens has no weights of its own"):
        load_pretrained("test_tokens")
