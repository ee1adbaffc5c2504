import numpy as np
import torch.nn.functional as F

from appl.core.rectification import rectified_means
from appl.rivals.bd_cspn import BDCSPN
from tests.rivals.test_every_method import blobs


def test_scores_are_cosines_of_the_queries_as_they_are() -> None:
    support, class_ids, query, _ = blobs(spread=0.3)
    z, q = F.normalize(support, dim=1), F.normalize(query, dim=1)
    prototypes = rectified_means(z, class_ids, q, temperature=6.0).numpy()
    lengths = np.linalg.norm(prototypes, axis=1)
    expected = 6 * q.numpy() @ prototypes.T / lengths
    scores = BDCSPN(features="unit", temperature=6.0).scores(support, class_ids, query)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert lengths.max() < 0.99  # means of unit vectors: a cosine needs their length


def test_queries_mend_a_poor_example() -> None:
    """One example a class, noisy; forty queries show where the classes really are."""
    right = []
    for seed in range(8):
        support, class_ids, query, answers = blobs(n_shot=1, n_query=40, spread=0.25, seed=seed)
        rectified = BDCSPN().scores(support, class_ids, query)
        plain = F.normalize(query, dim=1) @ F.normalize(support, dim=1).mT
        right.append([(s.argmax(1) == answers).float().mean() for s in (rectified, plain)])
    with_queries, alone = np.mean(right, 0)
    assert with_queries > alone + 0.03
