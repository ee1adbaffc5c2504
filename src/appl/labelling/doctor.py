"""The checks alone, without a run."""

import tempfile
from pathlib import Path

from appl.images.store import read_images
from appl.labelling.checks import Finding, check_images
from appl.labelling.inputs import Inputs
from appl.labelling.run import OnProgress

LOOK_PX = 64  # enough to see whether an image can be read and which ones are alike


def examine(
    inputs: Inputs, on_progress: OnProgress = lambda _stage, _done, _total: None
) -> list[Finding]:
    """Open every image once and say what is worth knowing."""
    with tempfile.TemporaryDirectory(prefix="appl-doctor-") as folder:
        support = read_images(
            inputs.support, Path(folder, "support"), LOOK_PX, lambda *n: on_progress("examples", *n)
        )
        pile = read_images(
            inputs.pile, Path(folder, "pile"), LOOK_PX, lambda *n: on_progress("decoding", *n)
        )
        return check_images(inputs, support, pile)
