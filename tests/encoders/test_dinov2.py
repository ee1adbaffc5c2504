"""Our transformer against timm's; files in three forms of names; what is refused."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from appl.encoders import ENCODERS, bring
from appl.encoders._vit import ViTShape, stage_names, vision_transformer
from appl.encoders.dinov2 import meta_of, our_names
from appl.errors import WeightsError

SMALL = ViTShape(width=24, depth=2, n_heads=3, grid=5)
REAL = (
    Path(os.environ.get("APPL_ENCODERS", Path(__file__).parents[3] / "shared" / "encoders"))
    / "dinov2_vits14.safetensors"
)
needs_the_file = pytest.mark.skipif(not REAL.exists(), reason="no DINOv2 file beside the project")


def timm_network(shape, **options):
    from timm.models.vision_transformer import VisionTransformer

    torch.manual_seed(0)
    network = VisionTransformer(
        img_size=shape.grid * 14, patch_size=14, embed_dim=shape.width, depth=shape.depth,
        num_heads=shape.n_heads, init_values=1.0, num_classes=0, global_pool="token",
        dynamic_img_size=True, **options,
    )  # fmt: skip
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return network.eval()


def official(state):
    """timm's names as the authors have them."""
    return {name.replace("reg_token", "register_tokens"): v for name, v in state.items()}


def on_the_hub(state):
    """timm's names as the hub has them."""
    names = {
        "patch_embed.proj": "embeddings.patch_embeddings.projection",
        "cls_token": "embeddings.cls_token",
        "pos_embed": "embeddings.position_embeddings",
        "reg_token": "embeddings.register_tokens",
        "attn.proj": "attention.output.dense",
        "ls1.gamma": "layer_scale1.lambda1",
        "ls2.gamma": "layer_scale2.lambda1",
        "blocks.": "encoder.layer.",
    }
    found = {"embeddings.mask_token": torch.zeros(1, 24)}
    for name, value in state.items():
        if name.startswith("norm."):
            name = "layer" + name
        if "attn.qkv" in name:
            place = name.replace("blocks.", "encoder.layer.")
            for part, third in zip(("query", "key", "value"), value.chunk(3), strict=True):
                found[place.replace("attn.qkv", f"attention.attention.{part}")] = third
            continue
        for old, new in names.items():
            name = name.replace(old, new)
        found[name] = value
    return found


def ours(state, shape):
    meta = meta_of("dinov2_vits14")
    small = replace(
        meta, width=shape.width, stages=stage_names(shape.depth), max_frozen_stages=2,
        n_prefix_tokens=1 + shape.n_registers,
    )  # fmt: skip
    encoder = vision_transformer(shape, small).eval()
    encoder.load_state_dict(our_names(state, shape))
    return encoder


@pytest.mark.parametrize("form", [dict, official, on_the_hub])
def test_every_form_of_names_gives_what_timm_computes(form):
    network = timm_network(SMALL)
    encoder = ours(form(network.state_dict()), SMALL)
    images = torch.rand(2, 3, 70, 70)  # the grid that was learnt: nothing is interpolated
    with torch.no_grad():
        expected = network(encoder.normalise(images))
    torch.testing.assert_close(encoder.encode(images), expected, rtol=1e-4, atol=1e-4)


def test_registers_stand_after_the_class_token_and_have_no_position():
    shape = ViTShape(width=24, depth=2, n_heads=3, grid=5, n_registers=4)
    network = timm_network(shape, reg_tokens=4, no_embed_class=True)
    images = torch.rand(2, 3, 70, 98)
    for form in (dict, official):
        encoder = ours(form(network.state_dict()), shape)
        with torch.no_grad():
            expected = network(encoder.normalise(images))  # antialiased, as these were trained
        torch.testing.assert_close(encoder.encode(images), expected, rtol=1e-3, atol=1e-3)


def test_positions_between_the_learnt_ones_are_the_authors():
    """Bicubic with a scale of (n + 0.1) / grid: written out with torch alone, not by size."""
    encoder = ours(timm_network(SMALL).state_dict(), SMALL)
    patches = encoder.stages[0]
    learnt = patches.positions.reshape(1, 5, 5, 24).permute(0, 3, 1, 2)
    expected = torch.nn.functional.interpolate(
        learnt, scale_factor=(3.1 / 5, 4.1 / 5), mode="bicubic"
    )
    found = patches.positions_at(3, 4)
    assert found.shape == (1, 12, 24)
    torch.testing.assert_close(found, expected.flatten(2).mT)
    by_size = torch.nn.functional.interpolate(learnt, (3, 4), mode="bicubic").flatten(2).mT
    assert not torch.allclose(found, by_size, atol=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s | {"head.weight": torch.ones(1)}, "'head.weight' belongs to no DINOv2"),
        (lambda s: s | {"blocks.0.odd.weight": torch.ones(1)}, "'blocks.0.odd.weight' belongs"),
        (lambda s: {k: v for k, v in s.items() if k != "cls_token"}, "no class token"),
        (lambda s: {k: v for k, v in s.items() if "blocks.7.norm1" not in k}, "is missing"),
        (lambda s: s | {"norm.bias": torch.ones(3)}, r"has shape \(3,\), dinov2_vits14 needs"),
    ],
)
def test_a_file_of_something_else_is_refused_in_one_line(tmp_path, change, message):
    network = timm_network(ViTShape(384, 12, 6))
    save_file(
        change({k: v.contiguous() for k, v in network.state_dict().items()}),
        tmp_path / "f.safetensors",
    )
    with pytest.raises(WeightsError, match=message) as caught:
        bring("dinov2_vits14", tmp_path / "f.safetensors")
    assert "\n" not in str(caught.value) and "f.safetensors" in str(caught.value)


@needs_the_file
def test_the_real_one_gives_what_timm_computes():
    encoder = bring("dinov2_vits14", REAL)
    assert encoder.meta.source == "LVD-142M (no labels)" and len(encoder.meta.weights.sha256) == 64
    import timm

    network = timm.create_model("vit_small_patch14_dinov2.lvd142m", num_classes=0).eval()
    network.load_state_dict({k: v.float() for k, v in load_file(REAL).items()})
    images = torch.rand(1, 3, 518, 518)
    with torch.no_grad():
        expected = network(encoder.normalise(images))
    torch.testing.assert_close(encoder.encode(images), expected, rtol=1e-3, atol=1e-3)


@needs_the_file
def test_the_real_one_is_the_same_from_fp16_and_fp32(tmp_path):
    exact = {name: value.float() for name, value in load_file(REAL).items()}
    save_file(exact, tmp_path / "fp32.safetensors")
    torch.save(exact, tmp_path / "fp32.pth")
    images = torch.rand(1, 3, 56, 70)
    expected = bring("dinov2_vits14", REAL).encode(images)
    for name in ("fp32.safetensors", "fp32.pth"):
        found = bring("dinov2_vits14", tmp_path / name).encode(images)
        torch.testing.assert_close(found, expected)
    assert ENCODERS.get("dinov2_vits14").meta.weights is None  # the registered record stays bare
