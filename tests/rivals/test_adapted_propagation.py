import torch

from appl.encoders import Encoder
from appl.rivals.adapted_propagation import AdaptedPropagation
from appl.rivals.fine_tune import FineTune
from appl.rivals.label_propagation import LabelPropagation
from tests.conftest import make_episode

PCN = torch.nn.Identity()


def test_without_an_epoch_it_is_label_propagation(small_encoder: Encoder) -> None:
    task = make_episode(noise=0.3).task
    scores = AdaptedPropagation(n_epochs=0).solve(small_encoder, PCN, task).scores
    features = small_encoder.encode(task.support), task.class_ids, small_encoder.encode(task.query)
    torch.testing.assert_close(scores, LabelPropagation().scores(*features))
    adapted = AdaptedPropagation(n_epochs=3).solve(small_encoder, PCN, task).scores
    assert not torch.allclose(adapted, scores, atol=1e-2)


def test_a_graph_of_the_queries_adds_to_fine_tuning(small_encoder: Encoder) -> None:
    gains = []
    for seed in range(4):
        episode = make_episode(shots=1, n_query=30, noise=0.45, seed=seed)
        accuracies = [
            episode.accuracy(kind(n_epochs=20).solve(small_encoder, PCN, episode.task).scores)
            for kind in (AdaptedPropagation, FineTune)
        ]
        gains.append(accuracies[0] - accuracies[1])
    assert sum(gains) / len(gains) > 0.02
