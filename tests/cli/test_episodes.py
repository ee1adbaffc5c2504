"""`appl episodes` as a user runs it."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from appl.cli.app import app
from appl.errors import ApplError
from tests.benchmark.conftest import bench_root
from tests.cli.test_bench import write_config

__all__ = ["bench_root"]  # the fixture, shared with tests/benchmark


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(*arguments: object) -> str:
    """Return the line that `main` prints."""
    done = call(*arguments)
    assert isinstance(done.exception, ApplError)
    return str(done.exception)


def test_it_is_written_checked_and_refused(bench_root: Path, tmp_path: Path) -> None:
    config = write_config(bench_root, tmp_path, n_episodes=3)
    data = shutil.copytree(bench_root / "data", tmp_path / "data")
    manifest = tmp_path / "episodes.json.gz"
    written = call("episodes", config, "--data", data, "--out", manifest)
    assert written.exit_code == 0 and "noise: 3 episodes of 36 images, 4 classes" in written.stdout
    first = manifest.read_bytes()
    call("episodes", config, "--data", data, "--out", manifest)
    assert manifest.read_bytes() == first
    checked = call("episodes", "--check", manifest, "--data", data)
    assert "more: the same 27 images; 3 episodes, those drawn here, too" in checked.stdout
    (data / "noise" / "class2" / "7.png").unlink()
    for arguments in (
        ("episodes", "--check", manifest),
        ("bench", "run", config, "--episodes", manifest, "--results", tmp_path / "r.sqlite"),
    ):
        message = refused(*arguments, "--data", data)
        assert "target 'noise'" in message and "class2/7.png is missing" in message
        assert "\n" not in message
    assert not (tmp_path / "r.sqlite").exists()


@pytest.mark.parametrize("both", [False, True])
def test_either_a_configuration_or_a_manifest(both: bool, tmp_path: Path) -> None:
    arguments = ["x.toml", "--check", "y.json"] if both else []
    assert "give CONFIG.toml" in refused("episodes", *arguments, "--data", tmp_path)
