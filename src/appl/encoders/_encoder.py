"""An encoder f_θ: stages that run one after the other, then pooling to one vector per image.

One class serves every network, ours and a user's: a network contributes its stages and its
metadata record. Layout (channels_last), device and autocast live here and nowhere else, so the
method and the rivals handle plain tensors.
"""

import torch
from torch import Tensor, nn

from appl.core.compute import Compute
from appl.encoders._meta import EncoderMeta
from appl.encoders._spec import EncoderSpec
from appl.errors import TaskError

CACHE_BATCH = 32
# Layers that centre and scale activations, then apply a learnt scale and shift.
NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


class Encoder(nn.Module):
    """Map images (n, 3, h, w) to features (n, width)."""

    pixel_mean: Tensor
    pixel_std: Tensor

    def __init__(
        self, stages: list[nn.Module], meta: EncoderMeta, spec: EncoderSpec | None = None
    ) -> None:
        super().__init__()
        if len(stages) != len(meta.stages):
            raise ValueError(f"{meta.name}: {len(stages)} stages, {len(meta.stages)} names")
        self.stages = nn.ModuleList(stages)
        self.meta = meta
        self.spec = spec or EncoderSpec("registered", meta.name)  # how to build it again
        self._autocast_dtype: torch.dtype | None = None
        self.standardise = False  # also bring every image to mean 0, deviation 1
        # Constants of the metadata, not weights: they follow the device but not the state dict.
        self.register_buffer("pixel_mean", torch.tensor(meta.mean).view(1, 3, 1, 1), False)
        self.register_buffer("pixel_std", torch.tensor(meta.std).view(1, 3, 1, 1), False)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @property
    def n_stages(self) -> int:
        """The number of stages."""
        return len(self.stages)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.pixel_mean.device

    def place(self, compute: Compute) -> "Encoder":
        """Move to the device of `compute` and take on its precision; return self."""
        self._autocast_dtype = compute.autocast_dtype
        return self.to(compute.device)

    def normalise(self, images: Tensor) -> Tensor:
        """Turn pixels (uint8, or float in 0–1) into the network's input."""
        if images.dim() != 4 or images.shape[1] != 3:
            raise TaskError(f"images must be (n, 3, height, width), got {tuple(images.shape)}")
        if min(images.shape[-2:]) < self.meta.min_px:
            raise TaskError(
                f"images of {images.shape[-1]}×{images.shape[-2]} px are too small for "
                f"{self.meta.name}: {self.meta.min_px} px is the least; enlarge them"
            )
        self._check_multiple(images.shape[-2], images.shape[-1])
        images = images.to(self.device, non_blocking=True)
        pixels = images.float() / 255 if images.dtype == torch.uint8 else images.float()
        pixels = (pixels - self.pixel_mean) / self.pixel_std
        if self.standardise:
            deviation = pixels.std((1, 2, 3), keepdim=True) + 1e-5
            pixels = (pixels - pixels.mean((1, 2, 3), keepdim=True)) / deviation
        return pixels.contiguous(memory_format=torch.channels_last)

    def _check_multiple(self, height: int, width: int) -> None:
        step = self.meta.multiple_px
        if height % step == 0 and width % step == 0:
            return
        wrong = height if height % step else width
        smaller = max(wrong // step * step, -(-self.meta.min_px // step) * step)
        raise TaskError(
            f"images of {width}×{height} px do not fit {self.meta.name}, whose patches have "
            f"{step} px: each side must be a multiple of it, such as {smaller} or "
            f"{smaller + step}"
        )

    def run(self, maps: Tensor, start: int = 0, stop: int | None = None) -> Tensor:
        """Run the stages start … stop − 1 on normalised images or on an earlier stage's output."""
        with torch.autocast(
            maps.device.type, dtype=self._autocast_dtype, enabled=self._autocast_dtype is not None
        ):
            for stage in self.stages[start:stop]:
                maps = stage(maps)
        return maps

    def pool(self, maps: Tensor) -> Tensor:
        """Turn the last stage's output into vectors (n, width); never less than fp32.

        A map (n, width, h, w) is averaged over its positions, tokens (n, n_tokens, width) are
        pooled as the record says, a vector passes through.
        """
        maps = maps.to(torch.promote_types(maps.dtype, torch.float32))
        if maps.dim() == 4:
            return maps.mean((2, 3))
        if maps.dim() == 2:
            return maps
        patches = maps[:, self.meta.n_prefix_tokens :].mean(1)
        if self.meta.pooling == "class_token":
            return maps[:, 0]
        if self.meta.pooling == "class_and_patches":
            return torch.cat([maps[:, 0], patches], 1)
        return patches

    def forward(self, pixels: Tensor) -> Tensor:
        """Encode normalised images; see `normalise`."""
        return self.pool(self.run(pixels))

    @torch.no_grad()
    def encode(self, images: Tensor, stop: int | None = None) -> Tensor:
        """Encode images of any kind in small parts, or run them up to stage `stop`, no gradients.

        Small parts stay in the processor's cache: 1.7 times faster than one large batch. Only
        where batch norms use remembered statistics is the result the same.
        """
        runs = [self.run(self.normalise(part), 0, stop) for part in images.split(CACHE_BATCH)]
        return torch.cat(runs if stop is not None else [self.pool(maps) for maps in runs])

    def describe(self, maps: Tensor, start: int = 0) -> list[Tensor]:
        """Return the features of images and, beside them, their texture, if the record has it.

        `maps` is what the stages before `start` have made, none of them after the texture; for
        start = 0, normalised images. Texture is the deviation of each channel of an earlier output
        over its positions or patches: what is averaged away on the way to the features, and tells
        surfaces and styles apart.
        """
        if self.meta.texture_stage is None:
            return [self.pool(self.run(maps, start))]
        cut = self.texture_cut
        maps = self.run(maps, start, cut)
        wide = maps.to(torch.promote_types(maps.dtype, torch.float32))
        if wide.dim() == 3:  # tokens: patches are the positions
            wide = wide[:, self.meta.n_prefix_tokens :].mT
        texture = wide.flatten(2).std(2, correction=0)
        return [self.pool(self.run(maps, cut)), texture]

    @property
    def texture_cut(self) -> int:
        """How many stages come before texture is taken; all, where there is none."""
        stage = self.meta.texture_stage
        return self.n_stages if stage is None else self.meta.stages.index(stage) + 1

    def stage_outputs(self, pixels: Tensor) -> dict[str, Tensor]:
        """Return the output of every stage by name; the last is what is pooled."""
        outputs = {}
        for index, name in enumerate(self.meta.stages):
            pixels = self.run(pixels, index, index + 1)
            outputs[name] = pixels
        return outputs

    def layers(self, pixels: Tensor, n_layers: int) -> list[Tensor]:
        """Return the pooled outputs of the last `n_layers` stages, or of all, in their order."""
        outputs = list(self.stage_outputs(pixels).values())
        return [self.pool(maps) for maps in outputs[-n_layers:]]

    @torch.no_grad()
    def layer_widths(self, n_layers: int) -> list[int]:
        """Return how wide these are, found by one blank image."""
        modes = [(module, module.training) for module in self.modules()]
        side = -(-self.meta.min_px // self.meta.multiple_px) * self.meta.multiple_px
        blank = torch.zeros(1, 3, side, side)
        widths = [layer.shape[1] for layer in self.eval().layers(self.normalise(blank), n_layers)]
        for module, mode in modes:
            module.training = mode
        return widths

    def parameters_of(self, kind: str, from_stage: int = 0) -> list[nn.Parameter]:
        """List the parameters of the stages from `from_stage` on: all, weights or norms.

        `norms` are the scales and shifts of normalisation layers of any kind, `weights` all else.
        """
        return [
            parameter
            for stage in self.stages[from_stage:]
            for module in stage.modules()
            if kind == "all" or isinstance(module, NORMS) == (kind == "norms")
            for parameter in module.parameters(recurse=False)
        ]
