"""A registry: an explicit dict filled by a decorator, used for encoders, data sets and methods.

Files of a folder register themselves when the folder is first asked for a name; a clash of
names is an error, and a wrong name is answered with the nearest right ones.
"""

import importlib
import pkgutil
from collections.abc import Callable
from difflib import get_close_matches
from typing import Generic, TypeVar

from appl.errors import UnknownNameError

T = TypeVar("T")


class Registry(Generic[T]):
    """Named entries of one kind (`kind` is the word used in messages), living in these modules.

    A home that is a package stands for all its public modules.
    """

    def __init__(self, kind: str, *homes: str) -> None:
        self.kind = kind
        self._homes = homes
        self._entries: dict[str, T] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that files its object under `name`."""

        def add(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"two {self.kind}s are called {name!r}")
            self._entries[name] = entry
            return entry

        return add

    def names(self) -> list[str]:
        """List all names, sorted."""
        self._load()
        return sorted(self._entries)

    def get(self, name: str) -> T:
        """Return the entry called `name`, or say which names are near."""
        self._load()
        if name not in self._entries:
            near = get_close_matches(name, self._entries, n=3) or self.names()
            raise UnknownNameError(f"no {self.kind} is called {name!r}; try {', '.join(near)}")
        return self._entries[name]

    def _load(self) -> None:
        if self._loaded:
            return
        for home in self._homes:
            package = importlib.import_module(home)
            for module in pkgutil.iter_modules(getattr(package, "__path__", [])):
                if not module.name.startswith("_"):
                    importlib.import_module(f"{home}.{module.name}")
        self._loaded = True
