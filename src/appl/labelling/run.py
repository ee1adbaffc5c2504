"""From SUPPORT and PILE to a folder with labels and model, in stages that can be resumed.

Each stage leaves its result on disk, whole, before the next one starts. The same command goes on
after the last finished stage; another command in the same folder is refused.
"""

import hashlib
import itertools
from collections.abc import Callable
from pathlib import Path

import torch

from appl.core.compute import Compute
from appl.core.episode import Task
from appl.images.store import ImageStore, read_images
from appl.labelling.checks import Finding, check_images
from appl.labelling.cross_fitting import folds_of
from appl.labelling.fitting import draw_pool, fit_model
from appl.labelling.history import History
from appl.labelling.inputs import Inputs, shown
from appl.labelling.rows import LabelRow, judge_names, unreadable_row, write_rows
from appl.labelling.run_folder import Run, open_run, pile_thumbnails, support_thumbnails
from appl.labelling.sorting import sort_files
from appl.settings.labelling import LabelSettings
from appl.training.weights import Pretrained

JUDGED_AT_ONCE = 256

# stage, done, total
OnProgress = Callable[[str, int, int], None]


def label_pile(
    inputs: Inputs,
    settings: LabelSettings,
    folder: Path,
    start: Pretrained,
    compute: Compute,
    *,
    on_progress: OnProgress = lambda _stage, _done, _total: None,
    on_findings: Callable[[list[Finding]], None] = lambda _findings: None,
) -> Run:
    """Label a pile, or go on where an earlier call in the same folder was stopped."""
    meta = start.encoder.meta
    size_px = settings.size_px or meta.label_px or meta.input_px
    run = open_run(inputs, settings, folder, size_px, start)
    work = folder / "work"
    if run.record["state"] == "finished":
        return run
    with run.timed("reading"):
        support = read_images(
            inputs.support,
            work / "support",
            size_px,
            lambda *n: on_progress("examples", *n),
            thumbnails=support_thumbnails(folder),
        )
        pile = read_images(
            inputs.pile,
            work / "pile",
            size_px,
            lambda *n: on_progress("decoding", *n),
            thumbnails=pile_thumbnails(folder),
        )
        run.record["input_digests"] = {
            "support": _content_digest(support),
            "pile": _content_digest(pile),
        }
        findings = check_images(inputs, support, pile)
    on_findings(findings)
    if not (folder / "history.json").exists():
        with run.timed("adapting"):
            _fit(run, start, compute, support, pile, findings, on_progress)
    if not (folder / "labels.csv").exists():
        with run.timed("labelling"):
            rows = _judge_pile(run, compute, pile, on_progress)
            if settings.sort != "no":
                sort_files(rows, inputs, folder / "sorted", settings.sort)
            write_rows(folder / "labels.csv", rows)
    run.record["state"] = "labelled"
    run.save()
    return run


def _fit(
    run: Run,
    start: Pretrained,
    compute: Compute,
    support: ImageStore,
    pile: ImageStore,
    findings: list[Finding],
    on_progress: OnProgress,
) -> None:
    settings, inputs = run.settings, run.inputs
    examples = support.readable
    readable = pile.readable
    pool = readable[draw_pool(len(readable), settings)]
    task = Task(
        support.images(examples),
        torch.tensor(inputs.class_ids)[examples],
        pile.images(pool),
    )
    # Once for the labels, then without some of the examples in turn, to know how far to trust them.
    n_adaptations = 1 + len(folds_of(task.class_ids)) if settings.adapt else 0
    n_iterations = n_adaptations * settings.adaptation.n_iterations
    steps = itertools.count(1)
    on_progress("adapting", 0, n_iterations)
    fit = fit_model(
        start.encoder.place(compute),
        start.pcn.to(compute.device),
        task,
        pool,
        settings,
        class_names=inputs.class_names,
        example_names=tuple(shown(inputs.support[i]) for i in examples.tolist()),
        prior_temperature=start.encoder.meta.temperature,
        on_iteration=lambda _record: on_progress("adapting", next(steps), n_iterations),
    )
    fit.model.provenance.update(
        {key: run.record[key] for key in ("version", "encoder", "settings", "input_digests")}
    )
    fit.model.save(run.folder / "model")
    History.of(fit, findings).save(run.folder)


def _judge_pile(
    run: Run, compute: Compute, pile: ImageStore, on_progress: OnProgress
) -> list[LabelRow]:
    model = run.model.place(compute)
    rows: dict[int, LabelRow] = {}
    for i, fact in enumerate(pile.facts):
        if fact.problem:
            rows[i] = unreadable_row(shown(run.inputs.pile[i]), fact.problem)
    on_progress("labelling", len(rows), len(pile.facts))
    for part in pile.readable.split(JUDGED_AT_ONCE):
        index = part.tolist()
        names = [shown(run.inputs.pile[i]) for i in index]
        rows |= dict(zip(index, judge_names(model, names, pile.images(part)), strict=True))
        on_progress("labelling", len(rows), len(pile.facts))
    return [rows[i] for i in range(len(pile.facts))]


def _content_digest(store: ImageStore) -> str:
    digest = hashlib.sha256()
    for fact in store.facts:
        digest.update(f"{fact.content}\n".encode())
    return digest.hexdigest()
