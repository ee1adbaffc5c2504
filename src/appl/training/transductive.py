"""Training the transductive prototype network: thousands of tasks on features made once.

Tasks are of all kinds: few and many classes and examples, even and uneven piles, with and without
images of no class, features alone or with texture and mirror images, one encoder or several side by
side. They are drawn from classes that the encoder has not been trained on, in disguises, and from
drawn domains. A step is a function of the seed and its number, so a run that was killed goes on to
the same weights.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import save
from torch import Tensor

from appl.core.files import write_atomically
from appl.core.information import information_scores
from appl.core.seeds import generator_for
from appl.datasets.disguises import DISGUISES
from appl.datasets.packed import PackedImages
from appl.encoders import sizes_side_by_side
from appl.errors import DataError, WeightsError
from appl.settings.files import to_toml
from appl.settings.transductive_training import TransductiveTrainSettings
from appl.training.task_pools import (
    LEFT_FOR_QUERIES,
    TEXTURE_WEIGHT,
    Domain,
    TaskDraw,
    TaskPool,
    described_pool,
    drawn_domains,
    source_domains,
)
from appl.transduction.network import (
    FIXED,
    TransductivePCN,
    fixed_weights,
    principal_axes,
    task_facts,
)
from appl.transduction.placing import Described, Placing
from appl.weights import Pretrained, class_mean_pcn, weights_digest
from appl.weights.checkpoint import read_checkpoint, write_checkpoint

SHOTS = (1, 1, 2, 3, 5, 5, 5, 10, 20, 30)
PILES = (75, 75, 75, 40, 150)
EVENNESS = (0.0, 0.0, 1.0, 2.0, 5.0)
STRANGE = (0, 0, 0, 15)
FEW_SUPPORTS = 100  # with more of them, a step has a third of the tasks
WARM_UP = 0.05
VALIDATED = ((1, 0.0), (1, 2.0), (5, 0.0), (5, 2.0), (20, 0.0), (20, 2.0))  # shots, dirichlet

OnStep = Callable[[int, int, float], None]


@dataclass(frozen=True)
class Validation:
    """Learnt minus fixed rule on validation classes, in points, by shots and pile."""

    step: int
    loss: float  # mean of the steps since the last one
    gains: dict[str, float]

    @property
    def mean(self) -> float:
        """The mean of all gains."""
        return sum(self.gains.values()) / max(len(self.gains), 1)


@dataclass
class TransductiveTraining:
    """The network and how it came about."""

    network: TransductivePCN
    history: list[Validation] = field(default_factory=list)


OnValidation = Callable[[Validation], None]


@dataclass(frozen=True)
class Pools:
    """The same domains as each of the encoders describes them."""

    learnt: list[list[TaskPool]]  # one list of domains for each encoder
    drawn: list[list[TaskPool]]
    validation: list[list[TaskPool]]


def make_pools(
    start: Pretrained,
    source: PackedImages,
    class_names: Sequence[str],
    validation_classes: Sequence[str],
    settings: TransductiveTrainSettings,
    cache: Path,
    on_encoded: Callable[[int, int], None] = lambda _done, _total: None,
) -> Pools:
    """Describe all domains by each encoder, or read what is in `cache`."""
    n = settings.n_images
    learnt = list(source_domains(source, class_names, n, list(DISGUISES)))
    validation = list(source_domains(source, validation_classes, n, ["plain", "inverted_grey"]))
    drawn = list(drawn_domains(settings.drawn_classes, settings.drawn_images))
    sizes = sizes_side_by_side(start.encoders)
    groups = [("learnt", learnt), ("drawn", drawn), ("validation", validation)]
    total = len(start.encoders) * sum(len(d.class_ids) for _, part in groups for d in part)
    done = 0
    made: dict[str, list[list[TaskPool]]] = {name: [] for name, _ in groups}
    for encoder, own_px in zip(start.encoders, sizes, strict=True):
        digest = weights_digest(Pretrained(encoder, class_mean_pcn(encoder)))[:16]
        size_px = own_px or settings.image_px
        for name, domains in groups:
            pools = []
            for domain in domains:
                place = f"{source.digest[:16]}-{digest}-{size_px}px-{name}-{_key(domain)}"
                before = done
                pools.append(
                    described_pool(
                        domain,
                        encoder,
                        size_px,
                        cache / f"{place}.safetensors",
                        lambda n_done, _n, before=before: on_encoded(before + n_done, total),  # type: ignore[misc]
                    )
                )
                done += len(domain.class_ids)
            made[name].append(pools)
    return Pools(**made)


def train_transductive(
    pools: Pools,
    settings: TransductiveTrainSettings,
    folder: Path,
    origin: dict[str, Any],
    on_step: OnStep = lambda _done, _total, _loss: None,
    on_validation: OnValidation = lambda _validation: None,
) -> TransductiveTraining:
    """Train, or go on from the checkpoint in `folder`."""
    run = TransductiveTraining(TransductivePCN(settings.n_layers))
    adam = torch.optim.Adam(run.network.parameters(), lr=settings.rate)
    course = torch.optim.lr_scheduler.OneCycleLR(
        adam, settings.rate, total_steps=settings.n_steps, pct_start=WARM_UP
    )
    first, losses = 1, []
    path = folder / "last.pt"
    if path.exists():
        saved = read_checkpoint(path, frozenset({"origin", "network", "history"}))
        if saved["origin"] != origin:
            raise WeightsError(
                f"{path} was made with other settings, images or encoders; choose another folder"
            )
        run.network.load_state_dict(saved["network"])
        adam.load_state_dict(saved["adam"])
        course.load_state_dict(saved["course"])
        run.history = [Validation(**item) for item in saved["history"]]
        first = run.history[-1].step + 1
    write_atomically(folder / "settings.toml", to_toml(settings).encode())
    for step in range(first, settings.n_steps + 1):
        support, class_ids, query, truth = draw_tasks(pools, settings, step)
        scores = run.network(support, class_ids, query).scores(query)
        loss = F.cross_entropy(scores.flatten(0, 1), truth.flatten(), ignore_index=-1)
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(run.network.parameters(), 1.0)
        adam.step()
        course.step()
        losses.append(loss.item())
        on_step(step, settings.n_steps, losses[-1])
        if step % settings.validate_every == 0 or step == settings.n_steps:
            gains = validate(run.network, pools.validation[0], settings)
            run.history.append(Validation(step, sum(losses) / len(losses), gains))
            losses = []
            state = {
                "origin": origin,
                "network": run.network.state_dict(),
                "adam": adam.state_dict(),
                "course": course.state_dict(),
                "history": [asdict(item) for item in run.history],
            }
            write_checkpoint(path, state)
            on_validation(run.history[-1])
    return run


def write_network(path: Path, run: TransductiveTraining, card: dict[str, Any]) -> None:
    """Write the network with its card: some tens of kilobytes."""
    tensors = {
        name: value.detach().contiguous() for name, value in run.network.state_dict().items()
    }
    card = card | {"history": [asdict(item) for item in run.history]}
    write_atomically(path, save(tensors, metadata={"card": json.dumps(card)}))


def draw_tasks(
    pools: Pools, settings: TransductiveTrainSettings, step: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the tasks of a step, placed: supports, class ids, queries and their truth (−1: none).

    All have as many classes, examples and images; domains, piles and disturbances are their own.
    """
    generator = generator_for("transductive", settings.seed, step)

    def one_of(options: Sequence[Any]) -> Any:
        return options[int(torch.randint(len(options), (), generator=generator))]

    def chance(share: float) -> bool:
        return bool(torch.rand((), generator=generator) < share)

    n_shot = one_of([n for n in SHOTS if n <= settings.most_shots])
    n_way = one_of(range(2, settings.most_ways + 1)) if chance(0.4) else min(5, settings.most_ways)
    n_query, dirichlet, n_ood = one_of(PILES), one_of(EVENNESS), one_of(STRANGE)
    n_encoders = len(pools.learnt)
    chosen = one_of([*([i] for i in range(n_encoders)), list(range(n_encoders))])
    is_full = chance(0.5)
    n_tasks = settings.n_tasks
    if n_way * n_shot > FEW_SUPPORTS:
        n_tasks = max(n_tasks // 3, 1)
    source = [i for i, pool in enumerate(pools.learnt[0]) if pool.most_ways(n_shot) >= n_way]
    drawn = [i for i, pool in enumerate(pools.drawn[0]) if pool.most_ways(n_shot) >= n_way]
    if not source and not drawn:
        raise DataError(
            f"no domain has {n_way} classes with {n_shot + LEFT_FOR_QUERIES} images; lower "
            "most_ways, or take more classes and images"
        )
    placed: list[tuple[Tensor, Tensor, TaskDraw]] = []
    while len(placed) < n_tasks:
        is_drawn = bool(drawn) and (chance(settings.drawn_share) or not source)
        number = one_of(drawn if is_drawn else source)
        views = [(pools.drawn if is_drawn else pools.learnt)[i][number] for i in chosen]
        draw = views[0].draw(
            generator,
            n_way=n_way,
            n_shot=n_shot,
            n_query=n_query,
            dirichlet=dirichlet,
            n_ood=n_ood,
        )
        kinds = described_task(views, draw, full=is_full)
        if settings.disturb:
            kinds = [disturbed(kind, generator) for kind in kinds]
        placing = Placing.of(kinds, draw.class_ids)
        placed.append((*placing.task(kinds), draw))
    return (
        torch.stack([support for support, _, _ in placed]),
        torch.stack([draw.class_ids for _, _, draw in placed]),
        torch.stack([query for _, query, _ in placed]),
        torch.stack([draw.query_class_ids for _, _, draw in placed]),
    )


def described_task(views: Sequence[TaskPool], draw: TaskDraw, *, full: bool) -> list[Described]:
    """Return a task's images as one or more encoders describe them.

    In full: features and texture, both with the mirror image's; else features alone.
    """
    kinds = []
    for pool in views:
        vectors = pool.kinds[1:] if full else pool.kinds[:1]
        for kind, weight in zip(vectors, (1.0, TEXTURE_WEIGHT), strict=False):
            kinds.append(Described(kind[draw.support].float(), kind[draw.query].float(), weight))
    return kinds


def disturbed(kind: Described, generator: torch.Generator) -> Described:
    """Drop dimensions, add noise, rescale dimensions, each for some tasks: other domains' features.

    Features without negative entries are changed as their roots, which is how they are compared,
    and stay so.
    """
    support, query = kind.support, kind.query
    has_root = bool(support.amin() >= 0 and query.amin() >= 0)
    if has_root:
        support, query = support.sqrt(), query.sqrt()
    chances = torch.rand(6, generator=generator).tolist()
    width = support.shape[1]
    if chances[0] < 0.5:
        n_kept = max(int(width * (0.1 + 0.9 * chances[1])), 1)
        kept = torch.zeros(width)
        kept[torch.randperm(width, generator=generator)[:n_kept]] = 1
        support, query = support * kept, query * kept
    if chances[2] < 0.5:
        size = 1.2 * chances[3] * query.std(0)
        support = support + size * torch.randn(support.shape, generator=generator)
        query = query + size * torch.randn(query.shape, generator=generator)
    if chances[4] < 0.3:
        factor = torch.exp(chances[5] * torch.randn(width, generator=generator))
        support, query = support * factor, query * factor
    if has_root:
        support, query = support.clamp(min=0).square(), query.clamp(min=0).square()
    return Described(support, query, kind.weight)


@torch.no_grad()
def validate(
    network: TransductivePCN, pools: Sequence[TaskPool], settings: TransductiveTrainSettings
) -> dict[str, float]:
    """Return learnt minus fixed rule in points, on the same tasks of the validation classes."""
    gains = {}
    for n_shot, dirichlet in VALIDATED:
        found = []
        for pool in pools:
            if pool.most_ways(n_shot) < 5:
                continue
            generator = generator_for("transductive validation", n_shot, dirichlet)
            for _ in range(settings.n_validation_tasks):
                draw = pool.draw(
                    generator, n_way=5, n_shot=n_shot, n_query=75, dirichlet=dirichlet, n_ood=0
                )
                kinds = described_task([pool], draw, full=False)
                support, query = Placing.of(kinds, draw.class_ids).task(kinds)
                learnt = network(support, draw.class_ids, query).scores(query)
                fixed = fixed_scores(support, draw.class_ids, query)
                known = draw.query_class_ids >= 0
                right = [
                    (scores.argmax(1) == draw.query_class_ids)[known].double().mean().item()
                    for scores in (fixed, learnt)
                ]
                found.append(100 * (right[1] - right[0]))
        if found:
            pile = "uneven" if dirichlet else "even"
            gains[f"{n_shot} shots, {pile}"] = round(sum(found) / len(found), 3)
    return gains


def fixed_scores(support: Tensor, class_ids: Tensor, query: Tensor) -> Tensor:
    """Return the scores of the fixed rule (…, n_query, n_way), for unit vectors."""
    axes, variances = principal_axes(torch.cat([support, query], -2))
    _, evenness = task_facts(support @ axes, class_ids, query @ axes, variances)
    weights = fixed_weights(support, class_ids, query, evenness)
    return information_scores(query, weights, FIXED.temperature)


def _key(domain: Domain) -> str:
    return f"{domain.name}-{len(domain.class_ids)}"
