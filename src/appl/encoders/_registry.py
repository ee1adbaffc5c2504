"""The registry of encoders: a name gives a function that builds the network, weights included."""

from collections.abc import Callable

from appl.core.registry import Registry
from appl.encoders._encoder import Encoder

ENCODERS: Registry[Callable[[], Encoder]] = Registry("encoder", "appl.encoders")
