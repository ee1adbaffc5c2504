"""The adapted model: it judges any image by itself, and is a folder on disk.

`model.safetensors` holds the encoder, the rule and the examples' vectors; `model.json` what they
mean: classes, preprocessing, temperature, thresholds, where they come from.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from appl.core.compute import Compute
from appl.core.distances import squared_distances
from appl.core.features import Centring, directions
from appl.core.files import write_atomically
from appl.encoders import ENCODERS, Encoder, WeightsSource
from appl.errors import WeightsError
from appl.labelling.confidence import Acceptance
from appl.labelling.left_out import how_far
from appl.labelling.novelty import Novelty
from appl.method.answer import Answer, InformedAnswer, Placing, PrototypeAnswer
from appl.method.describing import describe

FORMAT = "appl-model-2"


@dataclass(frozen=True)
class Judgement:
    """What a model says of some images."""

    scores: Tensor  # (n, n_way)
    probs: Tensor  # (n, n_way), calibrated
    novelty: Tensor  # (n,)
    nearest_example: Tensor  # (n,) index into the model's examples


@dataclass(frozen=True)
class LabelModel:
    """An encoder, the rule found on a task, and how far both are to be trusted."""

    encoder: Encoder
    answer: Answer
    class_names: tuple[str, ...]
    size_px: int
    mirrored: bool
    with_texture: bool
    temperature: float
    acceptance: Acceptance
    novelty: Novelty
    example_names: tuple[str, ...]
    example_class_ids: tuple[int, ...]
    examples: Tensor  # (n_examples, width), placed
    example_directions: Tensor  # (n_examples, width of the features)
    is_adapted: bool
    provenance: dict[str, Any]

    def describe(self, images: Tensor) -> list[Tensor]:
        """Return the vectors of uint8 images (n, 3, size_px, size_px) that the rule takes."""
        return describe(
            self.encoder, images, mirrored=self.mirrored, with_texture=self.with_texture
        )

    def judge(self, images: Tensor) -> Judgement:
        """Judge images, each by itself: the others beside it change nothing."""
        return self.judge_vectors(self.describe(images))

    def judge_vectors(self, vectors: list[Tensor]) -> Judgement:
        """Judge images by what `describe` gives."""
        placed = self.answer.place(vectors)
        scores = self.answer.scores(placed)
        return Judgement(
            scores.cpu(),
            torch.softmax(scores / self.temperature, 1).cpu(),
            self.novelty_of(vectors[0], placed).cpu(),
            squared_distances(placed, self.examples.to(placed)).argmin(1).cpu(),
        )

    def novelty_of(self, features: Tensor, placed: Tensor) -> Tensor:
        """Return how far images are from every class and every example (n,)."""
        examples = self.example_directions.to(features)
        return self.novelty(*how_far(self.answer, placed, directions(features), examples))

    def place(self, compute: Compute) -> "LabelModel":
        """Move to a device and take on its precision; return self."""
        self.encoder.place(compute)
        return self

    def save(self, folder: Path) -> None:
        """Write both files; the JSON last: it never speaks of weights that are not there."""
        tensors = {f"encoder.{k}": v for k, v in self.encoder.state_dict().items()}
        tensors |= {f"answer.{k}": v for k, v in _answer_tensors(self.answer).items()}
        tensors["examples"] = self.examples
        tensors["example_directions"] = self.example_directions
        kept = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        meta = self.encoder.meta
        content = {
            "format": FORMAT,
            "classes": list(self.class_names),
            "encoder": meta.name,
            "encoder_source": asdict(meta.weights) if meta.weights else None,
            "preprocessing": {
                "size_px": self.size_px,
                "resize": "both sides, bilinear with antialiasing",
                "mean": list(meta.mean),
                "std": list(meta.std),
                "standardised": self.encoder.standardise,
                "mirrored": self.mirrored,
                "with_texture": self.with_texture,
            },
            "rule": _answer_values(self.answer),
            "temperature": self.temperature,
            "acceptance": asdict(self.acceptance),
            "novelty": asdict(self.novelty),
            "examples": list(self.example_names),
            "example_class_ids": list(self.example_class_ids),
            "is_adapted": self.is_adapted,
            "provenance": self.provenance,
        }
        write_atomically(folder / "model.safetensors", save(kept, metadata={"format": FORMAT}))
        text = json.dumps(content, indent=1, ensure_ascii=True)
        write_atomically(folder / "model.json", text.encode())

    @classmethod
    def load(cls, folder: Path) -> "LabelModel":
        """Read what `save` wrote; a run's folder or its `model` folder."""
        if (folder / "model").is_dir():
            folder = folder / "model"
        values, tensors = _read(folder)
        encoder = ENCODERS.get(values["encoder"])()
        state = _below(tensors, "encoder.")
        try:
            encoder.load_state_dict(state)
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip()
            raise WeightsError(
                f"{folder / 'model.safetensors'} does not fit {values['encoder']}: {reason}"
            ) from error
        source = values["encoder_source"]
        encoder.meta = replace(encoder.meta, weights=WeightsSource(**source) if source else None)
        preprocessing = values["preprocessing"]
        encoder.standardise = preprocessing["standardised"]
        return cls(
            encoder=encoder.eval(),
            answer=_answer_of(values["rule"], _below(tensors, "answer.")),
            class_names=tuple(values["classes"]),
            size_px=preprocessing["size_px"],
            mirrored=preprocessing["mirrored"],
            with_texture=preprocessing["with_texture"],
            temperature=values["temperature"],
            acceptance=Acceptance(**values["acceptance"]),
            novelty=Novelty(**values["novelty"]),
            example_names=tuple(values["examples"]),
            example_class_ids=tuple(values["example_class_ids"]),
            examples=tensors["examples"],
            example_directions=tensors["example_directions"],
            is_adapted=values["is_adapted"],
            provenance=values["provenance"],
        )


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        values = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        found = values.get("format")
    except FileNotFoundError as error:
        raise WeightsError(f"{folder} holds no model.json; give the folder of a run") from error
    except (ValueError, AttributeError) as error:
        raise WeightsError(f"{folder / 'model.json'} is damaged: {error}") from error
    if found != FORMAT:
        raise WeightsError(f"{folder} has format {found!r}, this version reads {FORMAT!r}")
    path = folder / "model.safetensors"
    try:
        with safe_open(path, framework="pt") as file:
            return values, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise WeightsError(f"{path} is missing; run `appl label` again") from error
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{path} is not a whole safetensors file: {error}") from error


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _answer_tensors(answer: Answer) -> dict[str, Tensor]:
    if isinstance(answer, PrototypeAnswer):
        return {"prototypes": answer.prototypes}
    centres = {f"centre.{i}": c.centre for i, c in enumerate(answer.placing.centrings)}
    return {"class_weights": answer.class_weights, **centres}


def _answer_values(answer: Answer) -> dict[str, Any]:
    if isinstance(answer, PrototypeAnswer):
        return {"kind": "prototypes", "scale": answer.scale}
    return {
        "kind": "information",
        "temperature": answer.temperature,
        "shares": list(answer.placing.shares),
        "takes_root": [centring.takes_root for centring in answer.placing.centrings],
    }


def _answer_of(values: dict[str, Any], tensors: dict[str, Tensor]) -> Answer:
    if values["kind"] == "prototypes":
        return PrototypeAnswer(tensors["prototypes"], values["scale"])
    centrings = tuple(
        Centring(takes_root, tensors[f"centre.{i}"])
        for i, takes_root in enumerate(values["takes_root"])
    )
    placing = Placing(centrings, tuple(values["shares"]))
    return InformedAnswer(placing, tensors["class_weights"], values["temperature"])
