"""Settings: frozen dataclasses, read from TOML, checked in one place."""

from appl.settings.adaptation import AdaptSettings
from appl.settings.compute import ComputeSettings
from appl.settings.files import load_settings, to_toml
from appl.settings.meta_training import MetaTrainSettings
from appl.settings.prototypes import PrototypeSettings

__all__ = [
    "AdaptSettings",
    "ComputeSettings",
    "MetaTrainSettings",
    "PrototypeSettings",
    "load_settings",
    "to_toml",
]
