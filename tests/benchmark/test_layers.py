"""Rows on several layers: one cache for each choice of layers, and the method's own answers."""

from pathlib import Path

import pytest
import torch

from appl.benchmark.features import embed, layer_widths, open_features
from appl.benchmark.plan import Plan, make_outline, make_plan
from appl.benchmark.runner import embedding_rows
from appl.benchmark.solving import Job, solve
from appl.encoders import layers_of
from appl.errors import SettingsError
from appl.rivals.chef import CHEF
from appl.settings.benchmark import BenchSettings
from appl.settings.files import structure_settings
from appl.weights import Pretrained, class_mean_pcn, load_pretrained, save_weights, weights_digest
from tests.map_encoder import make_map_encoder

ROWS = [
    {"method": "prototypical"},
    {"method": "chef", "settings": {"fused": "blocks"}},
    {"method": "chef", "title": "equal", "settings": {"fused": "blocks", "scale": "equal"}},
    {"method": "chef", "title": "all", "settings": {"fused": "blocks+map+logits"}},
]


def write_weights(path: Path, class_head: torch.nn.Linear | None) -> Pretrained:
    encoder = make_map_encoder()
    pretrained = Pretrained(encoder, class_mean_pcn(encoder), class_head=class_head)
    save_weights(path, pretrained, exact=True)
    return pretrained


def bench(weights: Path, rows: list[dict]) -> BenchSettings:
    values = {
        "targets": {"noise": "Noise"},
        "rows": rows,
        "weights": str(weights),
        "image_px": 32,
        "n_episodes": 2,
        "protocol": {"n_way": 3, "n_shot": 2, "n_query": 3},
    }
    return structure_settings(BenchSettings, values, "bench")


@pytest.fixture
def plan(bench_root: Path, tmp_path: Path) -> Plan:
    write_weights(tmp_path / "w.safetensors", torch.nn.Linear(6, 9))
    settings = bench(tmp_path / "w.safetensors", ROWS)
    return make_plan(settings, bench_root / "data", tmp_path / "cache")


def test_a_row_gets_its_layers_from_the_cache(plan: Plan, tmp_path: Path) -> None:
    target = plan.targets["noise"]
    files = [embed(plan, row, target, tmp_path / "cache") for row in plan.rows]
    assert files[1] == files[2] and len(set(files)) == 3
    assert [row.title for row in embedding_rows(plan)] == ["ProtoNet", "equal", "all"]
    assert layer_widths(plan, plan.rows[1]) == [4, 6]
    assert layer_widths(plan, plan.rows[3]) == [4, 6, 6 * 8 * 8, 9]

    def features_of(row, target):
        return open_features(embed(plan, row, target, tmp_path / "cache"))

    pretrained = plan.pretrained(plan.rows[3])
    (found,) = solve(plan, Job((3,), "noise", (0, 1)), features_of)
    for result in found:
        draw = target.draw(plan, result.episode)
        parts = [
            layers_of(
                pretrained.encoder,
                target.data.images(index),
                ("blocks", "map", "logits"),
                pretrained.class_head,
            )
            for index in (draw.support, draw.query)
        ]
        scores = CHEF(fused="blocks+map+logits").layer_scores(parts[0], draw.class_ids, parts[1])
        right = (scores.argmax(1) == draw.query_class_ids).double().mean().item()
        assert result.accuracy == pytest.approx(100 * right)


def test_the_head_that_classified_the_source_travels_with_the_weights(tmp_path: Path) -> None:
    path = tmp_path / "with.safetensors"
    with_head = write_weights(path, torch.nn.Linear(6, 9))
    found = load_pretrained(str(path))
    assert torch.equal(found.class_head.weight, with_head.class_head.weight)
    assert weights_digest(found) == weights_digest(with_head)
    without = write_weights(tmp_path / "without.safetensors", None)
    assert load_pretrained(str(tmp_path / "without.safetensors")).class_head is None
    assert weights_digest(without) != weights_digest(with_head)


def test_logits_of_weights_without_such_a_head_are_refused(tmp_path: Path) -> None:
    write_weights(tmp_path / "w.safetensors", None)
    with pytest.raises(SettingsError, match="takes the source's logits"):
        make_outline(bench(tmp_path / "w.safetensors", ROWS[3:]))
