import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestCentroid

from appl.method.classifier import PrototypeClassifier
from appl.method.pcn import PCN
from appl.settings import PrototypeSettings
from tests.method.test_slots import ROBUST, SHOTS, draw


@pytest.mark.golden
def test_mean_initialisation_by_hand():
    pcn = PCN(width=2, n_slots=3)
    slots = torch.tensor([[[1.0, 0], [3, 2], [2, 4]], [[1, -3], [3, 0], [2, 0]]])
    torch.testing.assert_close(pcn(slots), torch.tensor([[2.0, 2], [2, 0]]))


@pytest.mark.golden
def test_without_its_relu_a_prototype_may_be_negative():
    pcn = PCN(width=2, n_slots=3, rectifies=False)
    slots = torch.tensor([[[1.0, 0], [3, 2], [2, 4]], [[1, -3], [3, 0], [2, 0]]])
    torch.testing.assert_close(pcn(slots), torch.tensor([[2.0, 2], [2, -1]]))
    torch.testing.assert_close(pcn.symmetric(slots.mean(1)), torch.tensor([[2.0, 2], [2, -1]]))


def test_it_says_whether_it_was_trained():
    torch.manual_seed(0)
    for rectifies in (True, False):
        pcn = PCN(4, 3, rectifies=rectifies)
        assert pcn.is_class_mean and pcn.summary == "class mean (untrained)"
        # A third is rounded in fp16: what comes back from such a file is still the mean.
        assert pcn.half().float().is_class_mean
    assert PCN(4, initialisation="random").summary == "trained"
    for parameter in ("weight", "bias"):
        pcn = PCN(4)
        with torch.no_grad():
            getattr(pcn.linear, parameter).view(-1)[2] += 1e-3
        assert not pcn.is_class_mean and pcn.summary == "trained"


@pytest.mark.golden
def test_parameter_counts():
    assert sum(p.numel() for p in PCN(512).parameters()) == 1_311_232
    assert sum(p.numel() for p in PCN(640).parameters()) == 2_048_640


def test_random_initialisation_is_torchs_default():
    torch.manual_seed(0)
    weight = PCN(512, initialisation="random").linear.weight
    assert weight.abs().max() <= 2560**-0.5
    assert weight.std().item() == pytest.approx(2560**-0.5 / 3**0.5, rel=0.01)


def test_symmetric_equals_the_average_over_all_orders():
    torch.manual_seed(0)
    pcn = PCN(3, n_slots=4, initialisation="random").double()
    with torch.no_grad():
        pcn.linear.bias.fill_(5.0)  # before the ReLU nothing is cut off, so it can be averaged
    slots = torch.rand(2, 4, 3, dtype=torch.float64)
    every = [pcn(slots[:, list(order)]) for order in itertools.permutations(range(4))]
    torch.testing.assert_close(pcn.symmetric(slots.mean(1)), torch.stack(every).mean(0))


# scikit-learn divides by the spread inside a class, which one image does not have.
@pytest.mark.filterwarnings("ignore:invalid value encountered in divide")
@settings(deadline=None, max_examples=40)
@given(shots=st.lists(SHOTS, min_size=2, max_size=10), seed=st.integers(0, 99))
def test_mean_pcn_equals_protonet_equals_nearest_centroid(shots, seed):
    features, class_ids = draw(shots, seed)
    queries, _ = draw([30], seed + 1000)
    with_pcn = PrototypeClassifier(PCN(4), class_ids, ROBUST)
    protonet = PrototypeClassifier(PCN(4), class_ids, PrototypeSettings(kind="mean"))
    for classifier in (with_pcn, protonet):
        classifier.group(features)
    ours = with_pcn.distances(features, queries)
    torch.testing.assert_close(ours, protonet.distances(features, queries), rtol=1e-4, atol=1e-5)
    theirs = NearestCentroid().fit(features.numpy(), class_ids.numpy()).predict(queries.numpy())
    gap = ours.topk(2, 1, largest=False).values.diff(dim=1).squeeze(1)
    clear = gap > 1e-4  # a tie may fall either way
    assert (ours.argmin(1)[clear] == torch.from_numpy(theirs)[clear]).all()


@settings(deadline=None, max_examples=30)
@given(
    shots=st.lists(SHOTS, min_size=2, max_size=5),
    seed=st.integers(0, 99),
    order=st.sampled_from(["canonical", "symmetric"]),
)
def test_a_trained_pcn_does_not_see_the_order_of_files(shots, seed, order):
    torch.manual_seed(seed)
    pcn = PCN(4, initialisation="random")
    chosen = PrototypeSettings(order=order, few_shots="class_mean", cluster_start="plus_plus")
    features, class_ids = draw(shots, seed)
    shuffle = torch.randperm(len(features))
    results = []
    for index in (torch.arange(len(features)), shuffle):
        classifier = PrototypeClassifier(pcn, class_ids[index], chosen)
        classifier.group(features[index])
        results.append(classifier.prototypes(features[index]))
    torch.testing.assert_close(results[0], results[1], rtol=1e-3, atol=1e-5)


def test_literal_concatenation_does_see_the_order_and_this_is_how_much():
    """The effect that docs/method.md states: tens of per cent for a random PCN, none for a mean."""
    torch.manual_seed(0)
    features, class_ids = draw([5, 5], width=64)
    order = torch.tensor([4, 3, 2, 1, 0, 9, 8, 7, 6, 5])
    moved = {}
    for initialisation in ("random", "mean"):
        classifier = PrototypeClassifier(
            PCN(64, initialisation=initialisation), class_ids, PrototypeSettings()
        )
        classifier.group(features)
        before, after = classifier.prototypes(features), classifier.prototypes(features[order])
        moved[initialisation] = ((before - after).norm() / before.norm()).item()
    assert moved["mean"] < 1e-5
    assert 0.1 < moved["random"] < 1.5


def test_asking_before_grouping_is_a_programming_error():
    with pytest.raises(RuntimeError, match="group"):
        PrototypeClassifier(PCN(4), torch.tensor([0, 1]), PrototypeSettings()).prototypes(
            torch.rand(2, 4)
        )
