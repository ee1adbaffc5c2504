"""What an audit found, in sentences and rows for a reader: in the report and on the terminal."""

from dataclasses import dataclass

from appl.labelling.audit import CONFIDENCE, Certificate
from appl.report.content import RunContent
from appl.report.words import counted, short

MOST_CLASSES = 50  # with a row of their own


@dataclass(frozen=True)
class CountRow:
    """What was found in one part of the accepted labels."""

    name: str
    n_accepted: int
    n_looked: int
    n_wrong: int
    n_unsure: int
    interval: str = ""


@dataclass(frozen=True)
class AuditPart:
    """The report's part on the audit; without rows where there was none."""

    words: tuple[str, ...]
    is_kept: bool
    has_unsure: bool
    strata: tuple[CountRow, ...]
    classes: tuple[CountRow, ...]


def audit_part(content: RunContent) -> AuditPart:
    """Say what a person found among the accepted labels of a run."""
    certificate = content.certificate
    if certificate is None:
        words = "Nobody has looked yet: `appl audit` draws accepted labels for you to look at, and "
        words += "says what share of them all is wrong."
        if content.was_audited:
            words = (
                "The labels were made anew since somebody looked at them, so what was found then "
                "does not hold for these. `appl audit` draws a new sample."
            )
        return AuditPart((words,), False, False, (), ())
    return AuditPart(
        tuple(certificate_words(certificate)),
        certificate.is_kept,
        certificate.n_unsure > 0,
        stratum_rows(certificate),
        class_rows(certificate),
    )


def certificate_words(certificate: Certificate) -> list[str]:
    """Say what was found, whether what was wanted is shown, and how many more to look at."""
    c = certificate
    unsure = f", {c.n_unsure:,} {'is' if c.n_unsure == 1 else 'are'} unsure" if c.n_unsure else ""
    words = [
        f"Of {counted(c.n_accepted, 'accepted label')} {c.n_looked:,} were looked at: "
        f"{c.n_wrong:,} {'is' if c.n_wrong == 1 else 'are'} wrong{unsure}. "
        f"So at most {share(c.at_most)} of all accepted labels are wrong, with {CONFIDENCE:.0%} "
        f"confidence; the interval of both sides is {share(c.low)} to {share(c.high)}."
    ]
    if c.is_kept:
        words.append(f"That at most {share(c.wanted)} are wrong is shown.")
    else:
        more = f"That at most {share(c.wanted)} are wrong is not shown. "
        more += f"{c.n_more:,} more without a fault would show it"
        if c.n_more_at_this_rate is None:
            more += (
                ", but at the rate so far no number does: accept fewer labels (a smaller "
                "--target-error), or give more examples."
            )
        elif c.n_more_at_this_rate > c.n_more:
            more += f"; at the rate so far it takes about {c.n_more_at_this_rate:,} more."
        else:
            more += "."
        words.append(more)
    if c.n_looks > 1:
        words.append(
            f"This is look {c.n_looks}: the sample was enlarged by somebody who knew what was "
            f"found before. Each look may miss in 5 of 100 cases, so count on "
            f"{max(0.0, 1 - c.n_looks * (1 - CONFIDENCE)):.0%} rather than {CONFIDENCE:.0%}."
        )
    return words


def stratum_rows(certificate: Certificate) -> tuple[CountRow, ...]:
    """Return what was found by confidence, the surest first."""
    return tuple(
        CountRow(
            f"{s.least_confidence:.2f} to {s.most_confidence:.2f}",
            s.n_accepted,
            s.n_looked,
            s.n_wrong,
            s.n_unsure,
        )
        for s in reversed(certificate.strata)
    )


def class_rows(certificate: Certificate) -> tuple[CountRow, ...]:
    """Return what was found by class, the largest classes where there are many."""
    largest = sorted(certificate.classes, key=lambda c: -c.n_accepted)[:MOST_CLASSES]
    kept = {c.name for c in largest}
    return tuple(
        CountRow(
            short(c.name),
            c.n_accepted,
            c.n_looked,
            c.n_wrong,
            c.n_unsure,
            "too few looked at"
            if c.low is None or c.high is None
            else f"{share(c.low)} to {share(c.high)}",
        )
        for c in certificate.classes
        if c.name in kept
    )


def share(value: float) -> str:
    """Return a share with one decimal: audits are about small ones."""
    return f"{value:.1%}"
