"""`appl audit`: a look at some accepted labels, and what it says of all of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from appl.cli._labelling import say_json
from appl.cli.ask import AsJson, RunFolder

if TYPE_CHECKING:
    from appl.labelling.audit import Certificate
    from appl.labelling.audit_files import Audit


def audit(
    run: RunFolder,
    verdict: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The table that the page saved, or audit.csv filled in."),
    ] = None,
    n: Annotated[
        int,
        typer.Option(
            "-n", min=0, help="How many to look at; 0: as many as show --wanted without a fault."
        ),
    ] = 0,
    wanted: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Share of wrong labels to show; by default the run's target error."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Decides which are drawn.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find out how many of the accepted labels are wrong, by looking at some of them.

    Writes audit/audit.html and audit/audit.csv into the run; mark what is wrong in either, and give
    it back with --verdict.
    """
    console = Console(stderr=as_json)
    n_learnt = 0
    with console.status("Reading the run …"):
        from appl.labelling.audit_files import (
            begin_audit,
            find_certificate,
            judge_audit,
            take_verdicts,
        )
        from appl.labelling.run_folder import adding_to
        from appl.report.audit_page import write_audit_page
        from appl.report.page import write_report

        with adding_to(run) as opened:
            if verdict is not None:
                _, n_learnt = take_verdicts(opened, verdict)
            drawn = begin_audit(opened, n, wanted=wanted, seed=seed)
            certificate, _ = find_certificate(opened)
            if certificate and not drawn.waiting and certificate.wanted != drawn.wanted:
                certificate = judge_audit(drawn, {})  # what was said, for another promise
            write_audit_page(drawn)
            if certificate:
                write_report(run)
    if drawn.waiting:
        certificate = None  # of a smaller sample
    if as_json:
        say_json(_summary(drawn, certificate, n_learnt))
    elif certificate is None:
        _say_what_to_do(console, drawn)
    else:
        _say_certificate(console, run, certificate, n_learnt)


def _summary(drawn: "Audit", certificate: "Certificate | None", n_learnt: int) -> dict[str, object]:
    from appl.labelling.audit_files import PAGE, SHEET

    return {
        "folder": str(drawn.run.path),
        "page": str(drawn.run.path / PAGE),
        "table": str(drawn.run.path / SHEET),
        "n_accepted": len(drawn.accepted),
        "n_to_look": len(drawn.images),
        "n_waiting": len(drawn.waiting),
        "wanted": drawn.wanted,
        "seed": drawn.seed,
        "n_learnt": n_learnt,
        "certificate": certificate.to_dict() if certificate else None,
    }


def _say_what_to_do(console: Console, drawn: "Audit") -> None:
    from appl.labelling.audit import at_most
    from appl.labelling.audit_files import PAGE, SHEET

    bound = at_most(0, drawn.sample.design)
    before = f"; {len(drawn.said):,} were judged before" if drawn.said else ""
    console.print(
        f"{len(drawn.waiting):,} of {len(drawn.accepted):,} accepted labels to look at{before}. If "
        f"none of the sample is wrong, at most {bound:.1%} of all accepted labels are (95 %).",
        highlight=False,
    )
    folder = drawn.run.path
    console.print(f"Open: [bold]{escape(str(folder / PAGE))}[/]", highlight=False, soft_wrap=True)
    console.print(f"or fill in: {escape(str(folder / SHEET))}", highlight=False, soft_wrap=True)
    console.print(
        f"and give it back: appl audit {escape(str(folder))} --verdict FILE",
        highlight=False,
        soft_wrap=True,
    )


def _say_certificate(
    console: Console, run: Path, certificate: "Certificate", n_learnt: int
) -> None:
    from appl.labelling.run_folder import CERTIFICATE
    from appl.report.audit_words import certificate_words, class_rows

    for words in certificate_words(certificate):
        console.print(escape(words), highlight=False)
    table = Table("class", "accepted", "looked at", "wrong", "share wrong, 95 % interval")
    for row in class_rows(certificate):
        counts = (f"{n:,}" for n in (row.n_accepted, row.n_looked, row.n_wrong))
        table.add_row(escape(row.name), *counts, row.interval)
    console.print(table)
    if certificate.n_more:
        total = certificate.n_looked + certificate.n_more
        console.print(f"To look at more: appl audit {escape(str(run))} -n {total}", highlight=False)
    if n_learnt:
        console.print(
            f"{n_learnt:,} labels that you judged are examples when the run's `appl label` command "
            "is given again; its new labels then need an audit of their own.",
            highlight=False,
        )
    console.print(f"Certificate: [bold]{escape(str(run / CERTIFICATE))}[/]", highlight=False)
