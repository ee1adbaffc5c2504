"""The seven variants of the paper's ablation (Table 3): settings, not forks."""

from collections.abc import Callable
from typing import Any

from appl.errors import SettingsError
from appl.settings.checks import suggest
from appl.settings.files import with_changes
from appl.settings.meta_training import MetaTrainSettings
from appl.settings.solving import SolveSettings

Change = Callable[[SolveSettings], SolveSettings]


def _adaptation(**changes: Any) -> Change:
    return lambda settings: with_changes(settings, adaptation=changes)


def _without_adaptation(settings: SolveSettings) -> SolveSettings:
    """Return ProtoNet: class means of the frozen encoder, the nearest one wins."""
    return with_changes(
        settings,
        adaptation={
            "n_iterations": 0,
            "answer": "current",
            "standardise_images": False,
            "parameters": {"batch_norm": "running"},
            "prototypes": {"kind": "mean"},
            "views": {"n_views": 1},
        },
        answer={"rule": "prototypes"},
    )


VARIANTS: dict[str, Change] = {
    "without_pcn": _adaptation(prototypes={"kind": "mean"}),
    "without_separation": _adaptation(objective={"lambda_dis": 0.0}),
    "without_cohesion": _adaptation(objective={"lambda_coh": 0.0}),
    "without_support_loss": _adaptation(objective={"use_support_loss": False}),
    # The queries still enter joint batch statistics; only their loss is gone.
    "without_query_loss": _adaptation(objective={"use_query_loss": False}),
    "without_wma": _adaptation(pseudo_labels={"wma": {"use": False}}),
    "protonet": _without_adaptation,
}


def variant(settings: SolveSettings, name: str) -> SolveSettings:
    """Return the settings of Algorithm 2 for a row of Table 3."""
    if name not in VARIANTS:
        raise SettingsError(f"no variant is called {name!r}; {suggest(name, list(VARIANTS))}")
    return VARIANTS[name](settings)


def meta_training_variant(settings: MetaTrainSettings, name: str) -> MetaTrainSettings:
    """Return the settings of Algorithm 1 for the same row: the regularisers go in both phases."""
    if name not in VARIANTS:
        raise SettingsError(f"no variant is called {name!r}; {suggest(name, list(VARIANTS))}")
    if name == "without_separation":
        return with_changes(settings, lambda_dis=0.0)
    if name == "without_cohesion":
        return with_changes(settings, lambda_coh=0.0)
    return settings
