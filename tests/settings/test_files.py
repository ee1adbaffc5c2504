import tomllib

import pytest

from appl.errors import SettingsError
from appl.settings import AdaptSettings, ComputeSettings, MetaTrainSettings, load_settings, to_toml
from appl.settings.files import structure_settings, with_changes
from appl.settings.presets import PRESET_NAMES
from appl.settings.solving import SolveSettings


def load(tmp_path, text, group=AdaptSettings, **options):
    path = tmp_path / "run.toml"
    path.write_text(text, encoding="utf-8")
    return load_settings(group, path, **options)


@pytest.mark.parametrize("group", [AdaptSettings, SolveSettings, MetaTrainSettings])
@pytest.mark.parametrize("name", PRESET_NAMES)
def test_every_preset_survives_the_trip_through_toml(tmp_path, group, name):
    assert load(tmp_path, to_toml(group.preset(name)), group) == group.preset(name)


def test_defaults_are_the_papers_numbers():
    s, m = AdaptSettings(), MetaTrainSettings()
    labels = s.pseudo_labels
    assert (labels.wma.alpha, labels.wma.gamma, labels.threshold) == (0.5, 0.99, 0.4)
    assert (s.objective.lambda_dis, s.objective.lambda_coh) == (0.1, 1e-3)
    assert (s.n_iterations, s.learning_rate) == (100, 1e-2)
    assert (m.outer_rate, m.weight_decay, m.n_epochs, m.n_tasks) == (1e-6, 1e-2, 400, 100)
    assert (m.n_query, m.prototypes.n_slots) == (15, 5)
    assert AdaptSettings() == AdaptSettings.preset("paper")
    assert MetaTrainSettings() == MetaTrainSettings.preset("paper")
    assert SolveSettings() == SolveSettings.preset("paper")


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_a_preset_of_the_solver_adapts_as_the_paper_s_part_of_it(name):
    whole = SolveSettings.preset(name)
    assert whole.adaptation == AdaptSettings.preset(name)
    # Only ours answers otherwise than by the nearest prototype.
    assert whole.answer.weighs_all == (name == "robust")
    assert (whole.answer.teacher == "prototypes") == (name != "robust")


def test_a_preset_with_changes(tmp_path):
    text = 'preset = "robust"\nn_iterations = 7\n[pseudo_labels.wma]\nalpha = 0.25\n'
    settings = load(tmp_path, text)
    robust = AdaptSettings.preset("robust")
    changes = {"n_iterations": 7, "pseudo_labels": {"wma": {"alpha": 0.25}}}
    assert settings == with_changes(robust, **changes)
    assert settings.pseudo_labels.wma.start == robust.pseudo_labels.wma.start
    assert settings.pseudo_labels.wma.alpha == 0.25 and robust.pseudo_labels.wma.alpha == 0.5


def test_one_table_of_a_larger_file(tmp_path):
    text = "[compute]\nprecision = 'fp32'\n[adapt.pseudo_labels]\nthreshold = 1\n"
    assert load(tmp_path, text, ComputeSettings, table="compute").precision == "fp32"
    threshold = load(tmp_path, text, table="adapt").pseudo_labels.threshold
    assert threshold == 1.0 and isinstance(threshold, float)
    with pytest.raises(SettingsError, match=r"no table \[train\]"):
        load(tmp_path, text, table="train")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[pseudo_labels]\ntreshold = 0.5",
            r"unknown key 'treshold' \(value 0.5\); did you mean 'threshold'\?",
        ),
        (
            "[pseudo_labels.wma]\nalfa = 0.5",
            r"\[pseudo_labels\] \[wma\]: unknown key 'alfa' .*'alpha'",
        ),
        (
            "n_iteration = 3",
            r"unknown key 'n_iteration' \(value 3\); did you mean 'n_iterations'\?",
        ),
        (
            "[pseudo_labels]\nthreshold = 1.5",
            "threshold = 1.5 is out of range: at least 0 and at most 1",
        ),
        ("[pseudo_labels]\nthreshold = nan", "threshold = nan is out of range"),
        ("n_iterations = -1", "n_iterations = -1 is out of range: at least 0"),
        ("[pseudo_labels.wma]\ngamma = 2.0", "gamma = 2.0 is out of range"),
        ('optimiser = "adm"', r"optimiser = 'adm' is not a choice; did you mean 'adam'\?"),
        ('[parameters]\nbatch_norm = "x"', "use one of joint, running, separate, task"),
        ("n_iterations = 2.5", "n_iterations: 2.5 is not a whole number"),
        ("n_iterations = true", "n_iterations: True is not a whole number"),
        ('[objective]\nuse_query_loss = "false"', "use_query_loss: 'false' is not true or false"),
        ('[pseudo_labels]\nthreshold = "high"', "threshold: 'high' is not a number"),
        ("[pseudo_labels.wma]\nuse = 1", "pseudo_labels.wma.use: 1 is not true or false"),
        ('preset = "robst"', "did you mean 'robust'"),
        ("preset = 3", "preset = 3 is not a text"),
        ("learning_rate = ", "is not TOML"),
    ],
)
def test_a_mistake_names_the_key_the_value_and_the_way_out(tmp_path, text, message):
    with pytest.raises(SettingsError, match=message) as caught:
        load(tmp_path, text)
    assert "\n" not in str(caught.value)
    assert "run.toml" in str(caught.value) or "preset" in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"no settings file at .*absent\.toml"):
        load_settings(AdaptSettings, tmp_path / "absent.toml")


def test_values_from_python_are_checked_alike():
    with pytest.raises(SettingsError, match="out of range"):
        AdaptSettings(learning_rate=-1)
    with pytest.raises(SettingsError, match="not a choice"):
        structure_settings(AdaptSettings, {"pseudo_labels": {"kind": "medium"}})
    assert tomllib.loads(to_toml(ComputeSettings()))["device"] == "auto"


def test_a_value_where_a_table_belongs_is_named():
    with pytest.raises(SettingsError, match=r"pseudo_labels = 'hard' must be a table of settings"):
        structure_settings(AdaptSettings, {"pseudo_labels": "hard"})
