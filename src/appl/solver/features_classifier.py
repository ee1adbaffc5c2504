"""APPL on feature arrays: Algorithm 2 as a scikit-learn classifier.

The encoder f_θ is a linear map (width, width) that starts at the identity and is applied to the
rows of X. The loop is `method.algorithm2.self_train` with the settings of `robust`; what differs:

- Prototypes are class means: what the PCN starts as, but without its ReLU, which would cut off
  features below zero. Algorithm 2 freezes the PCN, so there is nothing else to it.
- Rows are centred and calibrated (A19) once, before all losses, and the steps are those of plain
  gradient descent (B8), limited in length: how X is shifted, scaled or rotated has no effect.
- Information maximisation works on these distances, not on unit vectors: rows of few columns lose
  too much with their length. The class weights that it finds answer for any row by itself.
"""

import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from appl.core.distances import class_probs, squared_distances
from appl.core.information import information_weights, marginal_weight_for
from appl.method.algorithm2 import self_train
from appl.method.classifier import PrototypeClassifier
from appl.method.objective import distance_scale
from appl.method.pcn import PCN
from appl.settings.adaptation import AdaptSettings
from appl.settings.files import with_changes
from appl.settings.solving import SolveSettings


class APPLClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify rows of features from a few labelled ones and a pile without labels.

    Settings: `n_iterations` steps of length `learning_rate` at most; `threshold` ε, above which a
    pseudo-label counts (ε·5/N with N > 5 classes); `alpha` and `gamma` of the moving average;
    the weights `lambda_dis` and `lambda_coh`. Out of range: `SettingsError`. Nothing is random.

    Rows without a label have −1 in a numeric y, or come as the array `unlabelled` (the only way
    with text labels). One exception: where y holds −1 and 1 and nothing else, both are classes, as
    in the usual coding of two; a warning says so. Read otherwise there would be one class, which
    cannot be learnt. Without unlabelled rows the labelled ones alone adapt the map; with
    `n_iterations=0` besides, the answer is the nearest class mean.

    After `fit`: `classes_`; `transduction_`, a label for each row of X and then of `unlabelled`,
    as given where one was given; `termination_condition_`, "finished" or why it stopped early;
    `n_iter_`, the steps in the fitted map; `map_` (width, width) and `centre_` (width,), which
    take a row x to map_ (x − centre_), where the nearest of `prototypes_` (n_classes, width) wins.

    Memory grows with the square of the number of labelled rows: thousands, not millions. In a
    `Pipeline` mark unlabelled rows by −1: earlier steps do not transform `unlabelled`.

    >>> rows = [[0.0, 0.1], [5.0, 5.2], [0.3, 0.2], [5.1, 4.9], [0.2, 0.0]]
    >>> APPLClassifier().fit(rows, [7, 9, -1, -1, -1]).transduction_.tolist()
    [7, 9, 7, 9, 7]
    """

    def __init__(
        self,
        *,
        n_iterations: int = 30,
        learning_rate: float = 0.03,
        threshold: float = 0.4,
        alpha: float = 0.5,
        gamma: float = 0.99,
        lambda_dis: float = 0.1,
        lambda_coh: float = 1e-3,
    ) -> None:
        self.n_iterations = n_iterations
        self.learning_rate = learning_rate
        self.threshold = threshold
        self.alpha = alpha
        self.gamma = gamma
        self.lambda_dis = lambda_dis
        self.lambda_coh = lambda_coh

    def fit(self, X: ArrayLike, y: ArrayLike, unlabelled: ArrayLike | None = None) -> Self:  # noqa: N803
        """Adapt to the rows X (n, width) with labels y (n,), and to `unlabelled` (m, width)."""
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        has_label = _has_label(labels)
        self.classes_, class_ids = np.unique(labels[has_label], return_inverse=True)
        if len(self.classes_) < 2:
            found = "one class" if len(self.classes_) else "no class"
            raise ValueError(f"y has labels of {found}; label rows of at least two classes")
        if unlabelled is not None:
            more = validate_data(self, unlabelled, dtype=np.float64, reset=False)
            rows = np.concatenate([rows, more])
            has_label = np.concatenate([has_label, np.zeros(len(more), dtype=bool)])
        self.centre_ = rows.mean(0)
        rows = rows - self.centre_
        # A caller may have switched gradients off; both switches go back at the end.
        with torch.inference_mode(False), torch.enable_grad():
            support, query = (torch.from_numpy(rows[chosen]) for chosen in (has_label, ~has_label))
            task, unit = _calibrated(support, torch.from_numpy(class_ids), query, self._settings())
            learner, self.termination_condition_ = _adapt(task)
            prototypes = task.class_weights(*learner.clean_features())
        self.n_iter_ = learner.n_steps
        self.map_, self.prototypes_ = unit * learner.map.detach().numpy(), prototypes.numpy()
        self.transduction_ = self.classes_[self._probs(rows).argmax(1)]
        self.transduction_[has_label] = self.classes_[class_ids]
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """Return P(y = j | x) of each row by itself (n, n_classes), in the order of `classes_`."""
        check_is_fitted(self)
        return self._probs(validate_data(self, X, dtype=np.float64, reset=False) - self.centre_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the likeliest class of each row by itself (n,)."""
        answers = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[answers])

    def _probs(self, centred: NDArray[np.float64]) -> NDArray[np.float64]:
        mapped = torch.from_numpy(centred @ self.map_.T)
        # A copy: the arrays of an estimator that came through a memory map are read-only.
        return class_probs(squared_distances(mapped, torch.tensor(self.prototypes_))).numpy()

    def _settings(self) -> SolveSettings:
        robust = SolveSettings.preset("robust")
        return with_changes(
            robust,
            adaptation={
                "n_iterations": self.n_iterations,
                "learning_rate": self.learning_rate,
                "recluster_every": 1,
                "prototypes": {"kind": "mean"},
                "objective": {
                    "lambda_dis": self.lambda_dis,
                    "lambda_coh": self.lambda_coh,
                    "gap": 2.0,  # 5 makes labels from single examples too sure for the pile to move
                },
                "pseudo_labels": {
                    "threshold": self.threshold,
                    "wma": {"alpha": self.alpha, "gamma": self.gamma},
                },
            },
            # Half of τ is the factor on the distances, which are calibrated already. On them the
            # weight of the supports of `robust` lets a single odd or wrong example move its class
            # too far. So few rows stand for a class that a prior as weak as there lets one vanish.
            answer={
                "information": {
                    "temperature": 2.0,
                    "support_weight": 0.3,
                    "least_marginal_weight": 0.1,
                }
            },
        )


class _MapLearner:
    """A linear map on its way to fit one task: the learner of Algorithm 2 on rows of features."""

    has_views = False

    def __init__(self, support: Tensor, query: Tensor, learning_rate: float) -> None:
        self.support, self.query, self.learning_rate = support, query, learning_rate
        self.n_query, self.n_steps = len(query), 0
        self.map = torch.eye(support.shape[1], dtype=torch.float64).requires_grad_()
        self._before = self.map

    def features(self, _rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Map all rows."""
        return self.support @ self.map.mT, self.query @ self.map.mT

    def clean_features(self) -> tuple[Tensor, Tensor]:
        """Map all rows, without gradients."""
        with torch.no_grad():
            return self.features()

    def step(self, loss: Tensor) -> bool:
        """Take a step of plain gradient descent (B8) of limited length."""
        self._before = self.map
        (gradient,) = torch.autograd.grad(loss, self.map)
        if not bool(gradient.isfinite().all()):
            return False
        rate = self.learning_rate / gradient.norm().clamp(min=1)
        self.map = (self.map - rate * gradient).detach().requires_grad_()
        self.n_steps += 1
        return True

    def roll_back(self) -> None:
        """Return to the map before the last step."""
        if self._before is not self.map:
            self.map, self.n_steps = self._before, self.n_steps - 1


@dataclass(frozen=True)
class _Task:
    """Rows in the unit that calibrates their squared distances."""

    support: Tensor  # (n_support, width)
    query: Tensor  # (n_query, width), may be empty
    classifier: PrototypeClassifier
    information: dict[str, Any]  # arguments of `information_weights`
    settings: AdaptSettings

    def class_weights(self, support: Tensor, query: Tensor) -> Tensor:
        """Return the class weights (n_way, width): prototypes, moved by what the pile says."""
        if not len(query):
            return self.classifier.prototypes(support)
        return information_weights(support, self.classifier.class_ids, query, **self.information)

    def label(
        self, support: Tensor, query: Tensor, h: Tensor, _rows: Tensor | None = None
    ) -> Tensor:
        """Label queries by their distances to the class weights, for Algorithm 2 to learn from."""
        return squared_distances(query, self.class_weights(support, query)) if len(query) else h


def _calibrated(
    support: Tensor, class_ids: Tensor, query: Tensor, settings: SolveSettings
) -> tuple[_Task, float]:
    """Return the task and the factor on its rows, the root of that on the distances (A19)."""
    with torch.device("meta"):  # class means ask no PCN; here it draws no random numbers either
        pcn = PCN(1)
    adaptation = settings.adaptation
    objective = adaptation.objective
    classifier = PrototypeClassifier(pcn, class_ids, adaptation.prototypes)
    distances = classifier.distances(support, query if len(query) else support)
    scale = distance_scale(classifier, support, distances, objective)
    values = asdict(settings.answer.information)
    if len(query):
        # Where few left-out supports tell nothing apart, the scale must still let the pile do so.
        by_gap = replace(objective, distance_scale="task")
        scale = max(scale, distance_scale(classifier, support, distances, by_gap))
    if not 0 < scale < float("inf"):
        raise ValueError("squared distances between rows are not finite; scale X down")
    unit = scale**0.5
    support, query = unit * support, unit * query
    if len(query):
        # Once: the shares of the pile are not the map's to change.
        values["marginal_weight"] = marginal_weight_for(support, class_ids, query, **values)
    del values["least_marginal_weight"], values["uneven_at"]
    # The rows are calibrated, and with two classes ε·5/N as in `robust` would select none (B5).
    threshold = adaptation.pseudo_labels.threshold * min(1.0, 5 / classifier.n_way)
    in_unit = with_changes(
        adaptation,
        objective={"distance_scale": "raw"},
        pseudo_labels={"threshold": threshold, "threshold_rule": "fixed"},
    )
    return _Task(support, query, classifier, values, in_unit), unit


def _adapt(task: _Task) -> tuple[_MapLearner, str]:
    """Run Algorithm 2; return the last map whose loss was finite, and why it ended."""
    learner = _MapLearner(task.support, task.query, task.settings.learning_rate)
    run = self_train(learner, task.classifier, task.settings, task.label)
    if run.termination != "finished" or not _is_finite(learner, task):
        n_steps = learner.n_steps
        learner.roll_back()
        what = "a gradient" if "gradient" in run.termination else "the loss"
        return learner, f"{what} was not finite after {n_steps} steps"
    return learner, run.termination


def _is_finite(learner: _MapLearner, task: _Task) -> bool:
    """Tell whether the last map, too, gives finite distances."""
    support, query = learner.clean_features()
    prototypes = task.classifier.prototypes(support)
    rows = torch.cat([support, query])
    return bool(squared_distances(rows, prototypes).isfinite().all())


def _has_label(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which rows have a label (n,); `APPLClassifier` states the rule about −1."""
    values = labels.tolist()
    n_texts = sum(isinstance(value, str) for value in values)
    # numpy makes the text "-1" of a −1 among texts.
    if 0 < n_texts < len(values) or "-1" in values:
        raise ValueError("y mixes texts with -1 or other values; give such rows as `unlabelled`")
    check_classification_targets(labels)
    is_coded = set(values) == {-1, 1}
    if is_coded:
        warnings.warn("y holds -1 and 1 only: both are taken as classes", stacklevel=3)
    return np.array([is_coded or value != -1 for value in values])
