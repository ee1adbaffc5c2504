"""A short, kept list of encoders that people would choose: where each is good, what it costs.

Licences are those that the sources state. Megabytes of what is fetched: four bytes per parameter.
"""

from dataclasses import dataclass

# What is worth having beside an encoder, and what it brings (docs/encoders.md, "Alone or side by
# side": frozen, development domains).
BESIDE = {"efficientnet_lite0": ("dinov2_vits14", "3 to 4 points more labels right")}


@dataclass(frozen=True)
class Recommended:
    """What a person wants to know before choosing an encoder."""

    name: str  # as `--encoder` takes it
    width: int
    size_px: int
    megabytes: int
    licence: str
    good_for: str


RECOMMENDED = (
    Recommended("efficientnet_lite0", 1280, 160, 19, "Apache-2.0", "the default: quick, on board"),
    Recommended("efficientnet_lite1", 1280, 176, 22, "Apache-2.0", "a little larger"),
    Recommended("efficientnet_lite2", 1280, 192, 25, "Apache-2.0", "birds, cars, places"),
    Recommended("resnet10", 512, 84, 10, "Apache-2.0", "the paper's protocol; small pictures"),
    Recommended("dinov2_vits14", 384, 154, 88, "Apache-2.0", "most photographs, animals, plants"),
    Recommended("dinov2_vits14_reg", 384, 154, 88, "Apache-2.0", "the same, with registers"),
    Recommended("dinov2_vitb14", 768, 154, 346, "Apache-2.0", "the same, where time is no matter"),
    Recommended("dinov2_vitb14_reg", 768, 154, 346, "Apache-2.0", "the same, with registers"),
    Recommended(
        "timm:vit_small_patch16_dinov3.lvd1689m", 384, 256, 86, "dinov3-license",
        "successor of DINOv2; read its licence",
    ),
    Recommended(
        "timm:convnext_tiny.dinov3_lvd1689m", 768, 224, 111, "dinov3-license",
        "the same as a convolutional network",
    ),
    Recommended(
        "timm:vit_base_patch16_siglip_224.v2_webli", 768, 224, 372, "Apache-2.0",
        "things that captions speak of",
    ),
    Recommended(
        "timm:vit_pe_core_small_patch16_384.fb", 384, 384, 95, "Apache-2.0", "the same, smaller"
    ),
    Recommended(
        "timm:fastvit_mci0.apple_mclip2_dfndr2b", 1024, 256, 46, "apple-amlr (research only)",
        "the same, quick",
    ),
)  # fmt: skip
