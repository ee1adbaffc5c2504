"""Read pickles of plain data and arrays from anywhere: nothing that a pickle names is called.

Numpy's own rebuilding functions are not let in either: `dtype.__setstate__` takes flags that turn
raw bytes into object pointers, which crashes the process or worse. Small stand-ins take their
place. What remains open is memory: a pickle may ask for as much as its own size, several times.
"""

import pickle
import re
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from appl.errors import DataError


class _Dtype:
    def __init__(self, code: str, *_align_and_copy: object) -> None:
        if not re.fullmatch(r"[biuf]\d", code):
            raise DataError(f"an array of type {code!r} where only plain numbers are read")
        self.dtype: np.dtype[Any] = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """An array on its way out of a pickle; `numpy.asarray` gives the array, read-only."""

    array: NDArray[Any]

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, kind, is_fortran, raw = state
        self.fill(raw, kind, shape, "F" if is_fortran else "C")

    def fill(self, raw: bytes | str, kind: _Dtype, shape: tuple[int, ...], order: Any) -> None:
        # Python 2 wrote the bytes as a string, which the latin1 encoding gives back unchanged.
        data = raw.encode("latin1") if isinstance(raw, str) else raw
        self.array = np.frombuffer(data, kind.dtype).reshape(shape, order=order)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.array, dtype=dtype, copy=copy)


def _reconstruct(_subtype: object, _shape: object, _code: object) -> _Array:
    return _Array()


def _from_buffer(raw: bytes, kind: _Dtype, shape: tuple[int, ...], order: str) -> _Array:
    array = _Array()
    array.fill(raw, kind, shape, order)
    return array


def _scalar(kind: _Dtype, raw: bytes | str) -> Any:
    array = _Array()
    array.fill(raw, kind, (), "C")
    return array.array.item()


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":  # the only one that pickle writes for bytes
        raise DataError(f"bytes in the encoding {encoding!r}")
    return text.encode("latin1")


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
    ("collections", "OrderedDict"): OrderedDict,
}
for _core in ("numpy.core", "numpy._core"):  # before and since numpy 2
    ALLOWED[f"{_core}.multiarray", "_reconstruct"] = _reconstruct
    ALLOWED[f"{_core}.multiarray", "scalar"] = _scalar
    ALLOWED[f"{_core}.numeric", "_frombuffer"] = _from_buffer


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise DataError(f"it asks for {module}.{name}, which could run code")
        return ALLOWED[module, name]


def load_plain(path: Path) -> Any:
    """Read dicts, lists, text, numbers and arrays of numbers, from Python 2's pickles too.

    Arrays come as objects that `numpy.asarray` takes.
    """
    try:
        with path.open("rb") as file:
            return _Unpickler(file, encoding="latin1").load()
    except DataError as error:
        raise DataError(f"{path} is refused: {error}; use a copy from a known source") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    except Exception as error:  # a damaged pickle fails in as many ways as it has bytes
        raise DataError(f"{path} is no whole pickle ({error!r}); download it again") from error
