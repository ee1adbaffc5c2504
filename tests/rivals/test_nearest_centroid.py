import numpy as np
import torch
import torch.nn.functional as F
from sklearn.neighbors import NearestCentroid as SklearnCentroid

from appl.rivals.nearest_centroid import NearestCentroid
from appl.rivals.prototypical import Prototypical
from tests.rivals.test_every_method import blobs


def by_hand(support, class_ids, query):
    centre = torch.stack([support[class_ids == n].mean(0) for n in range(4)]).mean(0)
    return F.normalize(support - centre, dim=1), F.normalize(query - centre, dim=1)


def test_it_is_scikit_learns_rule_on_vectors_transformed_by_hand() -> None:
    support, class_ids, query, _ = blobs(spread=0.5)
    z, q = by_hand(support, class_ids, query)
    expected = SklearnCentroid().fit(z.numpy(), class_ids.numpy()).predict(q.numpy())
    scores = NearestCentroid().scores(support, class_ids, query)
    assert np.array_equal(scores.argmax(1).numpy(), expected)
    # The length of a centroid counts: by cosine, some answers would be others.
    centroids = torch.stack([z[class_ids == n].mean(0) for n in range(4)])
    by_cosine = (q @ F.normalize(centroids, dim=1).mT).argmax(1)
    assert not np.array_equal(by_cosine.numpy(), expected)


def test_scores_are_distances_not_squared() -> None:
    support, class_ids, query, _ = blobs(spread=0.5)
    z, q = by_hand(support, class_ids, query)
    expected = Prototypical().scores(z, class_ids, q)
    scores = NearestCentroid().scores(support, class_ids, query)
    torch.testing.assert_close(-scores.square(), expected, atol=1e-5, rtol=1e-5)


def test_a_constant_added_to_all_features_changes_nothing() -> None:
    support, class_ids, query, _ = blobs(spread=0.5)
    method = NearestCentroid()
    scores = method.scores(support, class_ids, query)
    shifted = method.scores(support + 3, class_ids, query + 3)
    torch.testing.assert_close(shifted, scores, atol=1e-4, rtol=1e-4)
    plain = NearestCentroid(centre="none")
    assert not torch.allclose(
        plain.scores(support + 3, class_ids, query + 3), plain.scores(support, class_ids, query)
    )


def test_the_length_of_a_query_does_not_count() -> None:
    support, class_ids, query, _ = blobs(spread=0.5)
    method = NearestCentroid(centre="none")
    longer = query * torch.linspace(0.1, 9, len(query))[:, None]
    torch.testing.assert_close(
        method.scores(support, class_ids, longer), method.scores(support, class_ids, query)
    )


def test_unequal_shots_do_not_move_the_centre() -> None:
    """A class whose supports are all given twice is the same class."""
    support, class_ids, query, _ = blobs(spread=0.5)
    twice = class_ids == 2
    method = NearestCentroid()
    torch.testing.assert_close(
        method.scores(
            torch.cat([support, support[twice]]), torch.cat([class_ids, class_ids[twice]]), query
        ),
        method.scores(support, class_ids, query),
    )
