from pathlib import Path

import pytest

from tests.report.fake_run import FakeRun


@pytest.fixture
def run(tmp_path: Path) -> FakeRun:
    """Two classes, 60 images: 48 accepted, 9 to review, 3 novel."""
    fake = FakeRun(tmp_path / "run")
    for i in range(48):
        fake.add("rust" if i % 2 else "healthy", 0.7 + i / 200)
    for i in range(9):
        fake.add("rust", 0.5 + i / 100, "review")
    for i in range(3):
        fake.add("healthy", 0.6, "none-of-these", novelty=2.0 + i, name=f"stranger{i}.png")
    return fake
