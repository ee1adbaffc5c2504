import numpy as np
from sklearn.neighbors import NearestCentroid

from appl.rivals.prototypical import Prototypical
from tests.rivals.test_every_method import blobs


def test_it_is_scikit_learns_nearest_centroid() -> None:
    support, class_ids, query, _ = blobs(spread=0.5)
    expected = NearestCentroid().fit(support.numpy(), class_ids.numpy()).predict(query.numpy())
    scores = Prototypical().scores(support, class_ids, query)
    assert np.array_equal(scores.argmax(1).numpy(), expected)
