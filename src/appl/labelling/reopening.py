"""Going on with a run by its folder alone: its files tell what was given."""

from pathlib import Path

from appl.core.compute import Compute
from appl.errors import ApplError
from appl.labelling.inputs import Inputs, read_inputs
from appl.labelling.model import LabelModel
from appl.labelling.run_folder import INPUTS, RunFolder, open_again, read_run
from appl.labelling.session import Session
from appl.settings.files import structure_settings
from appl.settings.labelling import LabelSettings
from appl.weights import Pretrained, load_pretrained, weights_digest


def reopen(folder: Path, compute: Compute) -> Session:
    """Open a run to go on with it; locks the folder.

    A run whose starting weights are not to be had any more starts from its own model.
    """
    run = open_again(folder)
    try:
        settings = structure_settings(LabelSettings, run.record["settings"], str(folder))
        inputs = _inputs(run)
        session = Session.of(inputs, settings, run, _start(run, settings), compute)
        session.is_reopened = True
        return session
    except BaseException:
        run.release()
        raise


def read_run_inputs(folder: Path) -> Inputs:
    """Read which files a run is about, without a claim on it."""
    return _inputs(read_run(folder))


def _inputs(run: RunFolder) -> Inputs:
    path = run.path / INPUTS
    if path.exists():
        return read_inputs(path)
    # Of an earlier version: labels.csv names the pile as it was given, from a folder not known.
    record, rows = run.record, run.rows()
    return Inputs(
        tuple(record["classes"]),
        tuple(Path(name) for name in record["support"]),
        tuple(record["support_class_ids"]),
        tuple(Path(row.path) for row in rows),
    )


def _start(run: RunFolder, settings: LabelSettings) -> Pretrained:
    try:
        start = load_pretrained(settings.encoder)
        if run.record.get("weights") in (None, weights_digest(start)):
            return start
    except ApplError:
        if not (run.path / "model" / "model.json").exists():
            raise
    return LabelModel.load(run.path).as_start()
