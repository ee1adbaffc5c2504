"""The model of a run: it judges any image by itself, and is a folder on disk.

`encoder.safetensors` holds encoder and PCN as every weights file does (further encoders side by
side: `encoder-2.safetensors` …; copies that were not adapted, where the answer takes both:
`unmoved.safetensors` …), `rule.safetensors` the rule and the examples' vectors, and
`model.json` what they mean: classes, preprocessing, temperature, thresholds, where they come from,
and the digests of the files beside it, which are checked when they are read.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from appl.core.compute import Compute
from appl.core.distances import squared_distances
from appl.core.features import Centring, directions
from appl.core.files import write_atomically
from appl.encoders import Describer, Encoder
from appl.errors import WeightsError
from appl.labelling.confidence import Acceptance
from appl.labelling.left_out import how_far
from appl.labelling.novelty import Novelty
from appl.method.classifier import PrototypeRule
from appl.method.pcn import PCN
from appl.solver.solve import Rule
from appl.transduction.answer import InformationRule
from appl.transduction.learnt import LearntRule
from appl.transduction.network import Found
from appl.transduction.placing import Placing
from appl.weights import Pretrained, class_mean_pcn, load_weights, save_weights

FORMAT = "appl-model-3"
RULE = "rule.safetensors"


@dataclass(frozen=True)
class Judgement:
    """What a model says of some images."""

    scores: Tensor  # (n, n_way)
    probs: Tensor  # (n, n_way), calibrated
    novelty: Tensor  # (n,)
    nearest_example: Tensor  # (n,) index into the model's examples

    def cpu(self) -> "Judgement":
        """Return the same in the processor's memory."""
        return Judgement(
            self.scores.cpu(), self.probs.cpu(), self.novelty.cpu(), self.nearest_example.cpu()
        )


@dataclass(frozen=True)
class LabelModel:
    """How images are described, the rule found on a task, and how far both are to be trusted."""

    describer: Describer
    pcn: PCN  # that the encoder came with: a later run can start from both
    rule: Rule
    class_names: tuple[str, ...]
    temperature: float
    acceptance: Acceptance
    novelty: Novelty
    example_names: tuple[str, ...]
    example_class_ids: tuple[int, ...]
    examples: Tensor  # (n_examples, width), placed
    example_directions: Tensor  # (n_examples, width of the features)
    is_adapted: bool
    provenance: dict[str, Any]
    n_unmoved: int = 0  # of the describer's encoders, the last: as they were before adapting

    @property
    def size_px(self) -> int:
        """The side that images are brought to."""
        return self.describer.image_px

    @property
    def encoder(self) -> Encoder:
        """The first encoder."""
        return self.describer.encoders[0]

    def describe(self, images: Tensor) -> list[Tensor]:
        """Return the vectors of uint8 images (n, 3, size_px, size_px) that the rule takes."""
        return self.describer.in_parts(images)

    def judge(self, images: Tensor) -> Judgement:
        """Judge images, each by itself: the others beside it change nothing."""
        return self.judge_vectors(self.describe(images)).cpu()

    def judge_vectors(self, vectors: list[Tensor]) -> Judgement:
        """Judge images by what `describe` gives."""
        placed = self.rule.place(vectors)
        scores = self.rule.scores(placed)
        examples = self.example_directions.to(vectors[0])
        far = how_far(self.rule, placed, directions(vectors[0]), examples)
        return Judgement(
            scores,
            torch.softmax(scores / self.temperature, 1),
            self.novelty(*far),
            squared_distances(placed, self.examples.to(placed)).argmin(1),
        )

    def place(self, compute: Compute) -> "LabelModel":
        """Move to a device and take on its precision; return self."""
        self.describer.place(compute)
        return self

    def as_start(self) -> Pretrained:
        """Return encoder and PCN to start a further labelling from."""
        return Pretrained(
            self.encoder,
            self.pcn,
            {"previous_run": self.provenance},
            beside=self.describer.encoders[1 : len(self.describer.encoders) - self.n_unmoved],
        )

    def save(self, folder: Path, *, has_encoders: bool = False) -> None:
        """Write all files; the JSON last: it never speaks of weights that are not there.

        With `has_encoders` the folder holds this model's encoders already, under another rule.
        """
        names = _encoder_files(len(self.describer.encoders), self.n_unmoved)
        for name, encoder in zip(names, self.describer.encoders, strict=True):
            if has_encoders and (folder / name).exists():
                continue
            pcn = self.pcn if encoder is self.encoder else class_mean_pcn(encoder)
            save_weights(folder / name, Pretrained(encoder, pcn, self.provenance), exact=True)
        tensors = {f"rule.{k}": v for k, v in _rule_tensors(self.rule).items()}
        tensors["examples"] = self.examples
        tensors["example_directions"] = self.example_directions
        kept = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        write_atomically(folder / RULE, save(kept, metadata={"format": FORMAT}))
        metas = [encoder.meta for encoder in self.describer.encoders]
        content = {
            "format": FORMAT,
            "classes": list(self.class_names),
            "encoder": "+".join(meta.name for meta in metas),
            "encoder_sources": [asdict(m.weights) if m.weights else None for m in metas],
            "prototypes": self.pcn.summary,
            "preprocessing": {
                "sizes_px": list(self.describer.sizes_px),
                "resize": "both sides, bilinear with antialiasing",
                "means": [list(meta.mean) for meta in metas],
                "stds": [list(meta.std) for meta in metas],
                "standardised": self.encoder.standardise,
                "mirrored": self.describer.mirrored,
                "texture_weight": self.describer.texture_weight,
            },
            "rule": _rule_values(self.rule),
            "temperature": self.temperature,
            "acceptance": asdict(self.acceptance),
            "novelty": asdict(self.novelty),
            "examples": list(self.example_names),
            "example_class_ids": list(self.example_class_ids),
            "is_adapted": self.is_adapted,
            "n_unmoved": self.n_unmoved,
            "provenance": self.provenance,
            "sha256": {name: _sha256(folder / name) for name in (*names, RULE)},
        }
        text = json.dumps(content, indent=1, ensure_ascii=True)
        write_atomically(folder / "model.json", text.encode())

    @classmethod
    def load(cls, folder: Path, encoder: Encoder | None = None) -> "LabelModel":
        """Read what `save` wrote; a run's folder or its `model` folder.

        `encoder` is needed where the model stands on a module of your own.
        """
        if (folder / "model").is_dir():
            folder = folder / "model"
        values, tensors = _read(folder)
        preprocessing = values["preprocessing"]
        sizes_px = tuple(preprocessing["sizes_px"])
        n_unmoved = values.get("n_unmoved", 0)
        names = _encoder_files(len(sizes_px), n_unmoved)
        parts = [load_weights(folder / name, encoder) for name in names]
        encoders = tuple(part.encoder for part in parts)
        return cls(
            describer=Describer(
                encoders, sizes_px, preprocessing["mirrored"], preprocessing["texture_weight"]
            ),
            pcn=parts[0].pcn,
            rule=_rule_of(values["rule"], _below(tensors, "rule.")),
            class_names=tuple(values["classes"]),
            temperature=values["temperature"],
            acceptance=Acceptance(**values["acceptance"]),
            novelty=Novelty(**values["novelty"]),
            example_names=tuple(values["examples"]),
            example_class_ids=tuple(values["example_class_ids"]),
            examples=tensors["examples"],
            example_directions=tensors["example_directions"],
            is_adapted=values["is_adapted"],
            provenance=values["provenance"],
            n_unmoved=n_unmoved,
        )


def read_model_record(folder: Path) -> dict[str, Any]:
    """Read `model.json` of a run's `model` folder, and check the files that it speaks of."""
    try:
        values: dict[str, Any] = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        found = values.get("format")
    except FileNotFoundError as error:
        raise WeightsError(f"{folder} holds no model.json; give the folder of a run") from error
    except (ValueError, AttributeError) as error:
        raise WeightsError(f"{folder / 'model.json'} is damaged: {error}") from error
    if found != FORMAT:
        raise WeightsError(f"{folder} has format {found!r}, this version reads {FORMAT!r}")
    for name, digest in values["sha256"].items():
        path = folder / name
        if not path.exists():
            raise WeightsError(f"{path} is missing; run `appl label` again")
        if _sha256(path) != digest:
            raise WeightsError(
                f"{path} is damaged or not this run's (SHA-256 differs); run `appl label` again"
            )
    return values


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    values = read_model_record(folder)
    try:
        return values, load((folder / RULE).read_bytes())
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{folder / RULE} is not a whole safetensors file: {error}") from error


def _encoder_files(n_encoders: int, n_unmoved: int) -> list[str]:
    """Name the files of a describer's encoders; those that were not adapted come last."""
    counts = {"encoder": n_encoders - n_unmoved, "unmoved": n_unmoved}
    return [
        f"{stem}-{number + 1}.safetensors" if number else f"{stem}.safetensors"
        for stem, count in counts.items()
        for number in range(count)
    ]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _rule_tensors(rule: Rule) -> dict[str, Tensor]:
    if isinstance(rule, PrototypeRule):
        return {"prototypes": rule.prototypes}
    centres = {f"centre.{i}": c.centre for i, c in enumerate(rule.placing.centrings)}
    if isinstance(rule, LearntRule):
        return {**rule.found._asdict(), **centres}
    return {"class_weights": rule.class_weights, **centres}


def _rule_values(rule: Rule) -> dict[str, Any]:
    if isinstance(rule, PrototypeRule):
        return {"kind": "prototypes", "scale": rule.scale}
    placing = {
        "shares": list(rule.placing.shares),
        "takes_root": [centring.takes_root for centring in rule.placing.centrings],
    }
    if isinstance(rule, LearntRule):
        return {"kind": "learnt", **placing}
    return {"kind": "information", "temperature": rule.temperature, **placing}


def _rule_of(values: dict[str, Any], tensors: dict[str, Tensor]) -> Rule:
    if values["kind"] == "prototypes":
        return PrototypeRule(tensors["prototypes"], values["scale"])
    centrings = tuple(
        Centring(takes_root, tensors[f"centre.{i}"])
        for i, takes_root in enumerate(values["takes_root"])
    )
    placing = Placing(centrings, tuple(values["shares"]))
    if values["kind"] == "learnt":
        return LearntRule(placing, Found(**{name: tensors[name] for name in Found._fields}))
    return InformationRule(placing, tensors["class_weights"], values["temperature"])
