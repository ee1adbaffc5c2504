import doctest
import pickle
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from appl.errors import SettingsError
from appl.method import objective
from appl.solver import features_classifier
from appl.solver.features_classifier import APPLClassifier


@parametrize_with_checks([APPLClassifier()])
def test_scikit_learn_finds_nothing_wrong(estimator, check):
    check(estimator)


def make_blobs(n_way=3, n_each=40, width=20, apart=4.0, seed=0):
    """Round classes of deviation one, their centres `apart` from each other; rows shuffled."""
    rng = np.random.default_rng(seed)
    centres = np.zeros((n_way, width))
    centres[:, :n_way] = apart / 2**0.5 * np.eye(n_way)
    truth = rng.permutation(np.repeat(np.arange(n_way), n_each))
    return centres[truth] + rng.normal(size=(len(truth), width)), truth


def hide(truth, shots):
    """Keep the first labels of each class, `shots` of them (one number, or one a class)."""
    labels = np.full_like(truth, -1)
    for class_id, n_shot in enumerate(np.broadcast_to(shots, truth.max() + 1)):
        labels[np.flatnonzero(truth == class_id)[:n_shot]] = class_id
    return labels


def test_unlabelled_rows_raise_accuracy():
    # One noisy example of each class is far from its centre; where the pile is dense is not.
    gains = []
    for seed in range(6):
        rows, truth = make_blobs(seed=seed)
        new_rows, new_truth = make_blobs(seed=100 + seed)
        labels = hide(truth, 1)
        alone = APPLClassifier().fit(rows[labels >= 0], labels[labels >= 0])
        together = APPLClassifier().fit(rows, labels)
        gains.append(together.score(new_rows, new_truth) - alone.score(new_rows, new_truth))
        assert (together.transduction_ == together.predict(rows))[labels < 0].all()
    assert min(gains) > 0.05 and np.mean(gains) > 0.1


def test_adapting_the_map_raises_accuracy_beyond_the_class_means():
    # Columns of pure noise, which squared distances count like any other; the map learns not to.
    gains = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows, truth = make_blobs(n_each=60, width=4, seed=seed)
        rows = np.hstack([rows, 4 * rng.normal(size=(len(rows), 6))])
        train, test = slice(0, 60), slice(60, None)
        first, last = (
            APPLClassifier(n_iterations=n).fit(rows[train], truth[train]) for n in (0, 60)
        )
        gains.append(last.score(rows[test], truth[test]) - first.score(rows[test], truth[test]))
    assert min(gains) > 0.03 and np.mean(gains) > 0.1


def test_without_iterations_and_pile_it_is_the_nearest_class_mean():
    rows, truth = load_iris(return_X_y=True)
    ours = APPLClassifier(n_iterations=0).fit(rows, truth)
    assert (ours.predict(rows) == NearestCentroid().fit(rows, truth).predict(rows)).all()
    assert ours.n_iter_ == 0 and ours.termination_condition_ == "finished"
    means = [rows[truth == class_id].mean(0) for class_id in range(3)]
    np.testing.assert_allclose((means - ours.centre_) @ ours.map_.T, ours.prototypes_, atol=1e-12)


def test_the_order_of_training_rows_has_no_say():
    rows, truth = make_blobs()
    labels, order = hide(truth, 3), np.random.default_rng(1).permutation(len(rows))
    first = APPLClassifier().fit(rows, labels)
    second = APPLClassifier().fit(rows[order], labels[order])
    np.testing.assert_allclose(first.predict_proba(rows), second.predict_proba(rows), atol=1e-5)
    assert (first.transduction_[order] == second.transduction_).all()


def test_shifting_scaling_and_rotating_the_rows_has_no_effect():
    rows, truth = make_blobs(width=6)
    labels = hide(truth, 3)
    rotation = np.linalg.qr(np.random.default_rng(2).normal(size=(6, 6)))[0]
    moved = 300 * rows @ rotation + 1000
    first, second = APPLClassifier().fit(rows, labels), APPLClassifier().fit(moved, labels)
    np.testing.assert_allclose(first.predict_proba(rows), second.predict_proba(moved), atol=1e-5)


def test_renamed_classes_permute_the_probabilities():
    rows, truth = make_blobs()
    labels = hide(truth, 2)
    names = np.array([5, 9, 2])  # in sorted order: the classes 2, 0, 1
    first = APPLClassifier().fit(rows, labels)
    second = APPLClassifier().fit(rows, np.where(labels < 0, -1, names[labels]))
    assert second.classes_.tolist() == [2, 5, 9]
    np.testing.assert_allclose(
        first.predict_proba(rows)[:, [2, 0, 1]], second.predict_proba(rows), atol=1e-5
    )
    assert (names[first.transduction_] == second.transduction_).all()


@pytest.mark.parametrize("shots", [1, [1, 4, 2], [7, 1, 12]])
def test_given_labels_stay_and_every_row_gets_one(shots):
    rows, truth = make_blobs(apart=1.0)  # so close that predictions contradict given labels
    labels = hide(truth, shots)
    model = APPLClassifier().fit(rows, labels)
    given = labels >= 0
    assert (model.transduction_[given] == labels[given]).all()
    assert (model.transduction_[~given] == model.predict(rows)[~given]).all()
    np.testing.assert_allclose(model.predict_proba(rows).sum(1), 1)
    assert model.termination_condition_ == "finished" and model.n_iter_ == 30


def test_given_labels_stay_where_the_prediction_is_another():
    rows, truth = make_blobs(apart=6.0)
    labels = truth.copy()
    labels[7] = (truth[7] + 1) % 3
    model = APPLClassifier().fit(rows, labels)
    assert model.predict(rows[7:8]) == truth[7] and model.transduction_[7] == labels[7]


def test_a_row_is_answered_by_itself():
    rows, truth = make_blobs()
    model = APPLClassifier().fit(rows, hide(truth, 1))
    alone = np.concatenate([model.predict_proba(rows[i : i + 1]) for i in range(len(rows))])
    np.testing.assert_allclose(model.predict_proba(rows), alone, atol=1e-10)
    assert (model.predict(rows) == model.classes_[alone.argmax(1)]).all()


def test_many_classes_from_one_example_each():
    rows, truth = make_blobs(n_way=30, n_each=8, width=40, apart=12.0)
    model = APPLClassifier().fit(rows, hide(truth, 1))
    assert model.predict_proba(rows).shape == (240, 30)
    assert (model.transduction_ == truth).mean() > 0.95


def test_separate_unlabelled_rows_are_the_same_as_minus_one():
    rows, truth = make_blobs()
    labels = hide(truth, 2)
    given = labels >= 0
    marked = APPLClassifier().fit(rows, labels)
    apart = APPLClassifier().fit(rows[given], labels[given], unlabelled=rows[~given])
    np.testing.assert_allclose(marked.predict_proba(rows), apart.predict_proba(rows), atol=1e-5)
    assert (apart.transduction_[given.sum() :] == marked.transduction_[~given]).all()
    assert (apart.transduction_[: given.sum()] == labels[given]).all()
    # Half of the pile each way.
    half = np.flatnonzero(~given)[::2]
    rest = np.setdiff1d(np.arange(len(rows)), half)
    both = APPLClassifier().fit(rows[rest], labels[rest], unlabelled=rows[half])
    np.testing.assert_allclose(both.predict_proba(rows), marked.predict_proba(rows), atol=1e-5)
    assert (both.transduction_ == marked.transduction_[np.concatenate([rest, half])]).all()


@pytest.mark.parametrize("kind", [str, object])
def test_text_labels_go_in_and_out(kind):
    rows, truth = make_blobs(apart=6.0)
    names = np.array(["oak", "ash", "elm"])
    given = hide(truth, 3) >= 0
    model = APPLClassifier().fit(
        rows[given], names[truth[given]].astype(kind), unlabelled=rows[~given]
    )
    assert model.classes_.tolist() == ["ash", "elm", "oak"]
    assert (model.predict(rows) == names[truth]).mean() > 0.9
    assert set(model.transduction_) == set(names) and len(model.transduction_) == len(rows)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["a", "b", "-1"]),
        np.array(["a", "b", -1], dtype=object),
        np.array(["a", "b", None], dtype=object),
    ],
)
def test_text_labels_have_no_minus_one(labels):
    with pytest.raises(ValueError, match="`unlabelled`"):
        APPLClassifier().fit(np.eye(3), labels)


@pytest.mark.parametrize(
    ("labels", "found"), [([-1, -1, -1], "no class"), ([4, 4, -1], "one class"), ([0, -1, -1], "")]
)
def test_fewer_than_two_classes_are_refused(labels, found):
    with pytest.raises(ValueError, match=f"{found}.*at least two classes"):
        APPLClassifier().fit(np.eye(3), labels)


def test_minus_one_and_one_alone_are_two_classes():
    rows, truth = make_blobs(n_way=2)
    with pytest.warns(UserWarning, match="both are taken as classes"):
        model = APPLClassifier().fit(rows, 2 * truth - 1)
    assert model.classes_.tolist() == [-1, 1]
    assert (model.transduction_ == 2 * truth - 1).all()
    # A third value makes −1 a mark again.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert APPLClassifier().fit(rows, hide(truth, 2) * 1.0).classes_.tolist() == [0, 1]


def test_two_classes_learn_from_the_pile():
    # ε·5/N would be 1 for two classes, which no probability exceeds.
    rows, truth = make_blobs(n_way=2)
    labels = hide(truth, 3)
    first, second = (APPLClassifier(threshold=e).fit(rows, labels) for e in (0.4, 1.0))
    assert not np.allclose(first.map_, second.map_, atol=1e-3)


@pytest.mark.parametrize("has_pile", [True, False])
@pytest.mark.parametrize("n_iterations", [1, 5])
def test_a_loss_that_is_not_finite_ends_it_with_a_finite_answer(has_pile, n_iterations):
    rows, truth = make_blobs()
    labels = hide(truth, 3) if has_pile else truth
    model = APPLClassifier(learning_rate=1e250, n_iterations=n_iterations).fit(rows, labels)
    assert model.termination_condition_ == "the loss was not finite after 1 steps"
    assert model.n_iter_ == 0
    probs = model.predict_proba(rows)
    assert np.isfinite(probs).all()
    # What is left is the map before the step.
    unmoved = APPLClassifier(n_iterations=0).fit(rows, labels)
    np.testing.assert_array_equal(probs, unmoved.predict_proba(rows))


def test_a_gradient_that_is_not_finite_ends_it_too(monkeypatch):
    def broken(distances, class_ids, reduction):
        return (distances.sum() * 0).sqrt()  # zero, with a gradient of 0 · ∞

    monkeypatch.setattr(objective, "cohesion_loss", broken)
    rows, truth = make_blobs()
    model = APPLClassifier().fit(rows, truth)
    assert model.termination_condition_ == "a gradient was not finite after 0 steps"
    assert model.n_iter_ == 0 and np.isfinite(model.predict_proba(rows)).all()
    np.testing.assert_array_equal(model.map_, APPLClassifier(n_iterations=0).fit(rows, truth).map_)


def test_a_loss_that_never_was_finite_leaves_the_class_means(monkeypatch):
    def broken(distances, class_ids, reduction):
        return distances.sum() * float("nan")

    monkeypatch.setattr(objective, "cohesion_loss", broken)
    rows, truth = make_blobs()
    model = APPLClassifier().fit(rows, truth)
    assert model.termination_condition_ == "the loss was not finite after 0 steps"
    assert (model.predict(rows) == NearestCentroid().fit(rows, truth).predict(rows)).all()


@pytest.mark.parametrize("shots", [1, 3])
def test_rows_whose_squares_overflow_are_refused(shots):
    rows, truth = make_blobs()
    with pytest.raises(ValueError, match="scale X down"):
        APPLClassifier().fit(1e200 * rows, hide(truth, shots))


@pytest.mark.parametrize(
    "changes",
    [
        dict(n_iterations=3),
        dict(learning_rate=0.3),
        dict(threshold=0.99),
        dict(alpha=0.01),
        dict(gamma=0.1),
        dict(lambda_dis=100.0),
        dict(lambda_coh=1.0),
    ],
)
def test_every_setting_does_something(changes):
    rows, truth = make_blobs(apart=3.0)
    labels = hide(truth, 2)
    first, second = (APPLClassifier(**s).fit(rows, labels) for s in ({}, changes))
    assert not np.allclose(first.map_, second.map_, rtol=1e-4, atol=0)


@pytest.mark.parametrize("changes", [dict(alpha=2.0), dict(threshold=-1), dict(n_iterations=-1)])
def test_settings_out_of_range_are_refused_by_fit(changes):
    with pytest.raises(SettingsError, match=f"{next(iter(changes))}.*out of range"):
        APPLClassifier(**changes).fit(np.eye(4), [0, 0, 1, 1])


def test_equal_rows_and_constant_columns_stay_finite():
    model = APPLClassifier().fit(np.ones((6, 3)), [0, 0, 1, 1, -1, -1])
    np.testing.assert_allclose(model.predict_proba(np.ones((1, 3))), 0.5)


def test_pipeline_cross_validation_and_grid_search():
    rows, truth = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), APPLClassifier(n_iterations=5))
    assert cross_val_score(pipeline, rows, truth, cv=3, error_score="raise").mean() > 0.8
    grid = {"applclassifier__threshold": [0.3, 0.6], "applclassifier__n_iterations": [0, 5]}
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(rows, truth)
    assert search.best_params_.keys() == grid.keys()
    # Unlabelled rows pass through the scaler when they are marked by −1.
    labels = hide(truth, 5)
    pipeline.fit(rows, labels)
    scaled = StandardScaler().fit_transform(rows)
    expected = APPLClassifier(n_iterations=5).fit(scaled, labels)
    assert (pipeline.predict(rows) == expected.predict(scaled)).all()


def test_clones_and_pickles_answer_alike():
    rows, truth = make_blobs()
    labels = hide(truth, 2)
    model = APPLClassifier(n_iterations=7, threshold=0.5).fit(rows, labels)
    copy = clone(model)
    assert copy.get_params() == model.get_params() and not hasattr(copy, "classes_")
    expected = model.predict_proba(rows)
    np.testing.assert_array_equal(copy.fit(rows, labels).predict_proba(rows), expected)
    unpickled = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(unpickled.predict_proba(rows), expected)


def test_global_torch_state_is_as_before_and_does_not_matter():
    rows, truth = make_blobs()
    labels = hide(truth, 2)
    state = torch.random.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype()
    expected = APPLClassifier().fit(rows, labels).predict_proba(rows)
    assert torch.equal(torch.random.get_rng_state(), state[0])
    assert (torch.get_num_threads(), torch.get_default_dtype()) == state[1:]
    assert torch.is_grad_enabled()
    for switch in (torch.no_grad, torch.inference_mode):
        with switch():
            model = APPLClassifier().fit(rows, labels)
            np.testing.assert_array_equal(model.predict_proba(rows), expected)
            assert not torch.is_grad_enabled()
    torch.manual_seed(5)
    np.testing.assert_array_equal(APPLClassifier().fit(rows, labels).predict_proba(rows), expected)
    torch.random.set_rng_state(state[0])


def test_wide_rows():
    rows, truth = make_blobs(n_each=10, width=1280, apart=30.0)
    model = APPLClassifier(n_iterations=2).fit(rows.astype(np.float32), hide(truth, 2))
    assert model.map_.shape == (1280, 1280) and model.map_.dtype == np.float64
    assert (model.transduction_ == truth).all()


def test_the_example_in_the_docstring():
    assert doctest.testmod(features_classifier).failed == 0
    assert doctest.testmod(features_classifier).attempted > 0


def test_a_gradient_that_is_not_finite_keeps_the_steps_before_it(monkeypatch):
    calls, real = [], objective.cohesion_loss

    def broken(distances, class_ids, reduction):
        calls.append(1)
        harm = (distances.sum() * 0).sqrt() if len(calls) == 3 else 0
        return real(distances, class_ids, reduction) + harm

    monkeypatch.setattr(objective, "cohesion_loss", broken)
    rows, truth = make_blobs()
    model = APPLClassifier().fit(rows, truth)
    monkeypatch.undo()
    assert model.n_iter_ == 2
    np.testing.assert_array_equal(model.map_, APPLClassifier(n_iterations=2).fit(rows, truth).map_)
