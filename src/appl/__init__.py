"""Few-shot image classification across domains: Adaptive Parametric Prototype Learning.

Public names load on first use, so that importing the package (and `appl --help`) is quick.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from appl._version import __version__

# The same command gives the same bits. Intel's matrix library (MKL) rounds by the number of threads
# that it takes: strict products do not depend on it, and it shall take as many as it was given
# however busy the machine is. Read when the library is first used; a user's own choice stays.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
os.environ.setdefault("MKL_DYNAMIC", "FALSE")
# A thread that waits for another lets go of its core: where other programs share the cores, busy
# waiting takes the time that the thread waited for would need (benchmarks/waiting.py).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if TYPE_CHECKING:
    from appl.core.compute import resolve_compute
    from appl.core.episode import Episode, Task
    from appl.encoders import ENCODERS, Encoder, EncoderMeta, from_module, import_resnet10
    from appl.labeler import FewShotLabeler
    from appl.method.algorithm1 import MetaTrainer
    from appl.method.algorithm2 import Adaptation, adapt
    from appl.method.pcn import PCN
    from appl.settings import AdaptSettings, ComputeSettings, MetaTrainSettings, load_settings
    from appl.settings.solving import SolveSettings
    from appl.solver.features_classifier import APPLClassifier
    from appl.solver.solve import Solved, solve_task
    from appl.solver.variants import variant
    from appl.weights import Pretrained, load_pretrained

_HOMES = {
    "APPLClassifier": "appl.solver.features_classifier",
    "Adaptation": "appl.method.algorithm2",
    "AdaptSettings": "appl.settings",
    "ComputeSettings": "appl.settings",
    "ENCODERS": "appl.encoders",
    "Encoder": "appl.encoders",
    "EncoderMeta": "appl.encoders",
    "Episode": "appl.core.episode",
    "FewShotLabeler": "appl.labeler",
    "MetaTrainSettings": "appl.settings",
    "MetaTrainer": "appl.method.algorithm1",
    "PCN": "appl.method.pcn",
    "SolveSettings": "appl.settings.solving",
    "Solved": "appl.solver.solve",
    "Task": "appl.core.episode",
    "adapt": "appl.method.algorithm2",
    "from_module": "appl.encoders",
    "import_resnet10": "appl.encoders",
    "Pretrained": "appl.weights",
    "load_pretrained": "appl.weights",
    "load_settings": "appl.settings",
    "resolve_compute": "appl.core.compute",
    "solve_task": "appl.solver.solve",
    "variant": "appl.solver.variants",
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
    "SolveSettings",
    "Solved",
    "Task",
    "__version__",
    "adapt",
    "from_module",
    "import_resnet10",
    "load_pretrained",
    "load_settings",
    "resolve_compute",
    "solve_task",
    "variant",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'appl' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
