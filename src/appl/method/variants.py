"""The seven variants of the paper's ablation (Table 3): settings, not forks."""

from collections.abc import Callable

from appl.errors import SettingsError
from appl.settings._checks import suggest
from appl.settings.adaptation import AdaptSettings
from appl.settings.files import with_changes
from appl.settings.meta_training import MetaTrainSettings

Change = Callable[[AdaptSettings], AdaptSettings]

VARIANTS: dict[str, Change] = {
    "without_pcn": lambda s: with_changes(s, prototypes={"kind": "mean"}),
    "without_separation": lambda s: with_changes(s, lambda_dis=0.0),
    "without_cohesion": lambda s: with_changes(s, lambda_coh=0.0),
    "without_support_loss": lambda s: with_changes(s, use_support_loss=False),
    # The queries still enter joint batch statistics; only their loss is gone.
    "without_query_loss": lambda s: with_changes(s, use_query_loss=False),
    "without_wma": lambda s: with_changes(s, wma={"use": False}),
    "protonet": lambda s: with_changes(
        s,
        n_iterations=0,
        batch_norm="running",
        predict_from="current",
        standardise_images=False,
        prototypes={"kind": "mean"},
        views={"n_views": 1},
    ),
}


def variant(settings: AdaptSettings, name: str) -> AdaptSettings:
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
