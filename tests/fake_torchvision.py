"""A stand-in for torchvision, which timm imports: its operators are built for another torch here.

Modules are empty; what is asked of them is made on demand. Nothing of it is run by the networks.
"""

import enum
import importlib.machinery
import sys
import types


class InterpolationMode(enum.Enum):
    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


class Empty(types.ModuleType):
    __path__: tuple[str, ...] = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return InterpolationMode if name == "InterpolationMode" else type(name, (), {})


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torchvision":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Empty(spec.name)

    def exec_module(self, module):
        pass


def install() -> None:
    """Answer every import of torchvision from here on."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
