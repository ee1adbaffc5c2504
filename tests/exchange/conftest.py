"""A run whose class and file names are as odd as a disk allows."""

from pathlib import Path

import pytest

from appl.labelling.corrections import Correction, append_corrections
from tests.report.fake_run import FakeRun, picture

CLASSES = ("a/b", "a:b", "..", "=cmd", "CON", "Test", "validation", "café 🌿", "_review")


@pytest.fixture
def odd(tmp_path: Path) -> FakeRun:
    """Two images of each class, one to review, one none of these, one unreadable, two corrected."""
    fake = FakeRun(tmp_path / "run", CLASSES, n_shot=1)
    for i, name in enumerate(CLASSES):
        # The same file name in two folders, and names that mean something elsewhere.
        for j, file in enumerate(("test.png", f"train {i}, 'x'.png")):
            path = picture(tmp_path / "pile" / f"part {i}" / file, 10 * i + j)
            fake.add(name, 0.9, path=path)
    fake.add("a/b", 0.5, "review", name="ünsure.png")
    fake.add("a/b", 0.5, "none-of-these", name="stranger.png")
    fake.add_unreadable()
    fake.write()
    corrections = [Correction.now(0, "Test"), Correction.now(1, "")]
    append_corrections(fake.folder, corrections)
    return fake
