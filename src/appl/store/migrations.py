"""Settings of stored runs in the form of today, so that results keep their key.

Until version 0.1 the settings of APPL were one flat group. They are grouped by the parts of
Algorithm 2 now, with the answer, which is not the paper's, apart. Values are the same. A setting
that came later has, in an older run, the value that it was as if it had.
"""

from copy import deepcopy
from typing import Any

# Old name → new place; groups and choices that changed their names are handled below.
_PLACES = {
    "n_iterations": "adaptation.n_iterations",
    "optimiser": "adaptation.optimiser",
    "learning_rate": "adaptation.learning_rate",
    "standardise_images": "adaptation.standardise_images",
    "recluster_every": "adaptation.recluster_every",
    "query_batch": "adaptation.query_batch",
    "micro_batch": "adaptation.micro_batch",
    "seed": "adaptation.seed",
    "prototypes": "adaptation.prototypes",
    "pseudo_labels": "adaptation.pseudo_labels.kind",
    "detach_pseudo_labels": "adaptation.pseudo_labels.detach",
    "threshold": "adaptation.pseudo_labels.threshold",
    "threshold_rule": "adaptation.pseudo_labels.threshold_rule",
    "query_loss_from": "adaptation.pseudo_labels.from_iteration",
    "wma": "adaptation.pseudo_labels.wma",
    "views.wma_on": "adaptation.pseudo_labels.views",
    "use_support_loss": "adaptation.objective.use_support_loss",
    "use_query_loss": "adaptation.objective.use_query_loss",
    "support_loss": "adaptation.objective.support_loss",
    "support_reduction": "adaptation.objective.support_reduction",
    "query_reduction": "adaptation.objective.query_reduction",
    "cohesion_reduction": "adaptation.objective.cohesion_reduction",
    "separation_pairs": "adaptation.objective.separation_pairs",
    "lambda_dis": "adaptation.objective.lambda_dis",
    "lambda_coh": "adaptation.objective.lambda_coh",
    "distance_scale": "adaptation.objective.distance_scale",
    "gap": "adaptation.objective.gap",
    "adapts": "adaptation.parameters.move",
    "frozen_stages": "adaptation.parameters.frozen_stages",
    "batch_norm": "adaptation.parameters.batch_norm",
    "predict_batch_norm": "adaptation.parameters.predict_batch_norm",
    "views.n_views": "adaptation.views.n_views",
    "views.kinds": "adaptation.views.kinds",
    "pseudo_from": "answer.teacher",
    "predict_with": "answer.encoders",
    "texture_weight": "answer.texture_weight",
    "views.predict_on": "answer.mirrored",
    "information.n_iterations": "answer.information.n_iterations",
    "information.temperature": "answer.information.temperature",
    "information.support_weight": "answer.information.support_weight",
    "information.evenness": "answer.information.marginal_weight",
    "information.least_evenness": "answer.information.least_marginal_weight",
    "information.uneven_at": "answer.information.uneven_at",
    "information.certainty": "answer.information.conditional_weight",
    "precision": "precision",
}
_CHOICES: dict[tuple[str, Any], Any] = {
    ("adapts", "batch_norm"): "norms",
    ("pseudo_from", "distances"): "prototypes",
    ("views.predict_on", "clean"): False,
    ("views.predict_on", "mirrored"): True,
}
# Settings that came after the groups.
_LATER: dict[str, Any] = {
    "adaptation.feature_scale": 1.0,
    "adaptation.parameters.rank": 4,
    "adaptation.rate_decay": "none",
    "adaptation.weight_average": 0.0,
    "answer.network": "tpcn-1",
}
_SPLIT_GROUPS = ("views", "information")


def migrate_settings(method: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a stored run as this version writes them."""
    if method != "appl":
        return settings
    if "adaptation" in settings:
        return _with_later_settings(settings)
    old = dict(settings)
    for group in _SPLIT_GROUPS:
        old |= {f"{group}.{key}": value for key, value in old.pop(group, {}).items()}
    if "predict_from" not in old or not old.keys() - {"predict_from"} <= _PLACES.keys():
        return settings  # older still: it keeps its key, and no row of today asks for it
    new: dict[str, Any] = {}
    # B12 was one choice; it is the paper's answer now, or another rule instead of it.
    rule = old.pop("predict_from")
    _put(new, "adaptation.answer", "average" if rule == "average" else "current")
    _put(new, "answer.rule", "prototypes" if rule in ("current", "average") else rule)
    for name, value in old.items():
        known = isinstance(value, str)
        _put(new, _PLACES[name], _CHOICES.get((name, value), value) if known else value)
    return _with_later_settings(new)


def _with_later_settings(settings: dict[str, Any]) -> dict[str, Any]:
    found = deepcopy(settings)
    for place, value in _LATER.items():
        *groups, name = place.split(".")
        group = found
        for part in groups:
            group = group[part]
        group.setdefault(name, value)
    return found


def _put(tree: dict[str, Any], place: str, value: Any) -> None:
    *groups, name = place.split(".")
    for group in groups:
        tree = tree.setdefault(group, {})
    tree[name] = value
