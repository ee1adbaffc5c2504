"""Writing files so that a kill leaves the old file or the new one, never half of one."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` through a temporary file in the same folder."""
    with open_atomically(path) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def open_atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file in the same folder that becomes `path` when the block ends well.

    Its name is its own: processes that write the same path at the same time do not meet.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
