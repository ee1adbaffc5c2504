"""Reading the files of others: whole or not at all, with an error that names them."""

import json
from pathlib import Path
from typing import Any

from appl.errors import DataError


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is no whole JSON file: {error}") from error
