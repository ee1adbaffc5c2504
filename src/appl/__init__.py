"""Few-shot image classification across domains: Adaptive Parametric Prototype Learning.

Public names load on first use, so that importing the package (and `appl --help`) is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from appl._version import __version__

if TYPE_CHECKING:
    from appl.core.compute import resolve_compute
    from appl.core.episode import Episode, Task
    from appl.encoders import ENCODERS, Encoder, EncoderMeta, from_module, import_resnet10
    from appl.labeler import FewShotLabeler
    from appl.labelling.features_classifier import APPLClassifier
    from appl.method.adaptation import adapt
    from appl.method.meta_training import MetaTrainer
    from appl.method.outcome import Adaptation
    from appl.method.pcn import PCN
    from appl.method.variants import variant
    from appl.settings import AdaptSettings, ComputeSettings, MetaTrainSettings, load_settings
    from appl.training.shipped import load_pretrained
    from appl.training.weights import Pretrained

_HOMES = {
    "APPLClassifier": "appl.labelling.features_classifier",
    "Adaptation": "appl.method.outcome",
    "AdaptSettings": "appl.settings",
    "ComputeSettings": "appl.settings",
    "ENCODERS": "appl.encoders",
    "Encoder": "appl.encoders",
    "EncoderMeta": "appl.encoders",
    "Episode": "appl.core.episode",
    "FewShotLabeler": "appl.labeler",
    "MetaTrainSettings": "appl.settings",
    "MetaTrainer": "appl.method.meta_training",
    "PCN": "appl.method.pcn",
    "Task": "appl.core.episode",
    "adapt": "appl.method.adaptation",
    "from_module": "appl.encoders",
    "import_resnet10": "appl.encoders",
    "Pretrained": "appl.training.weights",
    "load_pretrained": "appl.training.shipped",
    "load_settings": "appl.settings",
    "resolve_compute": "appl.core.compute",
    "variant": "appl.method.variants",
}

__all__ = [
    "ENCODERS",
    "PCN",
    "APPLClassifier",
    "AdaptSettings",
    "Adaptation",
    "ComputeSettings",
    "Encoder",
    "EncoderMeta",
    "Episode",
    "FewShotLabeler",
    "MetaTrainSettings",
    "MetaTrainer",
    "Pretrained",
    "Task",
    "__version__",
    "adapt",
    "from_module",
    "import_resnet10",
    "load_pretrained",
    "load_settings",
    "resolve_compute",
    "variant",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'appl' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
