"""HVM (Du et al., 2022), our reading: uncertain prototypes at several depths, with a memory each.

The authors published the flat form only (one level, on the last layer); what the levels take from
each other, and how they are weighed, is a reading of ours. Its parts are in `_memory`.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from appl.core.distances import class_means
from appl.core.episode import Episode, Task
from appl.core.methods import METHODS, EpisodeLoss, MethodCard
from appl.core.seeds import generator_for
from appl.encoders import Encoder
from appl.rivals._episodic import source_classes, task_layers
from appl.rivals._memory import HierarchicalMemory, divergence
from appl.settings.checks import check_ranges, setting


@METHODS.register("hvm")
@dataclass(frozen=True)
class HVM:
    """Hierarchical Variational Memory for Few-Shot Learning Across Domains: Du et al., 2022.

    arXiv:2112.08181, our reading. Each of the last blocks is a level l. A class's prototype there
    is z^l ~ p(z | s^l, m^l, z^{l−1}), s^l the mean of its supports, m^l what the level's memory of
    source classes holds for s^l. Scores are γ·Σ_l a_l·(−‖f^l(q) − z^l‖² / d_l), a learnt and
    adding up to one. Trained on −log mean_samples p(y|q) + β·Σ_l KL(q ‖ p), where q knows the
    queries of the class. In a test draws are replaced by their means, and the memory stays.
    """

    card: ClassVar = MethodCard(
        title="HVM, our reading",
        paper="Du et al., 2022",
        summary="uncertain prototypes at several depths, with a memory of source classes each",
        takes="none",
        needs="layers",
        is_meta_trained=True,
    )
    n_levels: int = setting(4, "the last blocks", 1, 4)
    n_hidden: int = setting(256, "units of each layer of the networks", 1)
    n_samples: int = setting(10, "draws of a task's prototypes, in training", 1)
    n_addressed: int = setting(10, "rows of a memory that a class reads", 1)
    kl_weight: float = setting(1e-4, "β", 0)
    kept_share: float = setting(0.2, "of a memory's row, when its class is met again", 0, 1)
    n_source_classes: int = setting(64, "rows of each memory: training classes, at most", 2)

    def __post_init__(self) -> None:
        check_ranges(self)

    def build_head(self, encoder: Encoder, n_way: int) -> HierarchicalMemory:  # noqa: ARG002
        """Return the levels with empty memories; any number of classes."""
        return HierarchicalMemory(
            encoder.layer_widths(self.n_levels), self.n_hidden, self.n_source_classes
        )

    def answer(self, encoder: Encoder, head: HierarchicalMemory, task: Task) -> Tensor:
        """Return the scores by the means of all prototypes."""
        layers = task_layers(encoder, task, self.n_levels)
        class_ids = task.class_ids.to(head.log_scale.device)
        means = [class_means(support, class_ids, task.n_way) for support, _ in layers]
        beliefs = head.prototypes(means, head.written, self.n_addressed)
        return head.scores([query for _, query in layers], [belief.mean for belief in beliefs])

    def training_loss(
        self, encoder: Encoder, head: HierarchicalMemory, episode: Episode
    ) -> EpisodeLoss:
        """Return −log mean p(y|q) + β·KL; a head in training mode remembers the classes."""
        task, device = episode.task, head.log_scale.device
        class_ids, answers = (ids.to(device) for ids in (task.class_ids, episode.query_class_ids))
        source_ids = source_classes(episode, self.n_source_classes).to(device)
        layers = task_layers(encoder, task, self.n_levels)
        means = [class_means(support, class_ids, task.n_way) for support, _ in layers]
        known = torch.cat([class_ids, answers])
        with_queries = [class_means(torch.cat(layer), known, task.n_way) for layer in layers]

        # A task of a test holds new classes: here, too, its own have no row to read.
        readable = head.written.clone()
        readable[source_ids] = False
        generator = generator_for("prototypes", int(head.n_tasks))
        beliefs = head.prototypes(means, readable, self.n_addressed, self.n_samples, generator)
        drawn = [belief.drawn for belief in beliefs]
        sampled = head.scores([query for _, query in layers], drawn).log_softmax(2)
        log_probs = sampled.logsumexp(0) - torch.tensor(float(self.n_samples)).log()

        guides = head.guides(with_queries, drawn)
        kl = torch.stack([divergence(q, p) for q, p in zip(guides, beliefs, strict=True)]).sum()
        if head.training:
            head.remember(source_ids, with_queries, self.kept_share)
        loss = F.nll_loss(log_probs, answers) + self.kl_weight * kl
        return EpisodeLoss(loss, log_probs)
