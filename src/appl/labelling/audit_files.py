"""An audit in the folder of a run: the sample, what was said of it, the certificate.

RUN/audit/
  sample.json    which labels to look at, and of which labels.csv they are
  audit.csv      one row for each, to be filled in; report/audit_page.py writes the page beside it
  verdicts.csv   all that was said so far, in the same form
RUN/certificate.json and `audit` in RUN/run.json: what it says of all accepted labels.

The certificate is a file beside labels.csv, not a line in it: a comment or a new column there
would break those who read version 1 of it, and its digest in the record.
"""

import csv
import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from appl.core.files import write_atomically
from appl.core.seeds import seed_of
from appl.errors import DataError
from appl.labelling.audit import (
    VERDICTS,
    Certificate,
    Sample,
    Verdict,
    certify,
    draw_sample,
    n_to_look,
)
from appl.labelling.corrections import (
    append_corrections,
    known_classes,
    read_corrections,
    said_at_once,
)
from appl.labelling.rows import LabelRow, class_names_of, harmless, unharmed
from appl.labelling.run_folder import CERTIFICATE, LABELS, SAMPLE, RunFolder

FORMAT = "appl-audit-1"
SHEET = "audit/audit.csv"
PAGE = "audit/audit.html"
SAID = "audit/verdicts.csv"
COLUMNS = ("key", "path", "label", "verdict", "true_label")
NONE_OF_THESE = "none-of-these"


@dataclass(frozen=True)
class Said:
    """What a person said of one label: right, wrong or unsure, and which class it is instead."""

    verdict: Verdict
    true_label: str = ""  # of a wrong one: a class, none-of-these, or not said


@dataclass
class Audit:
    """A sample of a run's accepted labels, and what was said of it so far."""

    run: RunFolder
    rows: list[LabelRow]
    accepted: tuple[int, ...]  # numbers of images in the pile
    sample: Sample
    seed: int
    wanted: float
    n_looks: int = 0
    said: dict[int, Said] = field(default_factory=dict)  # by the number of the image

    @property
    def images(self) -> tuple[int, ...]:
        """The numbers, in the pile, of the images to look at."""
        return tuple(self.accepted[chosen] for chosen in self.sample.chosen)

    @property
    def waiting(self) -> tuple[int, ...]:
        """Those of which nothing was said yet."""
        return tuple(image for image in self.images if image not in self.said)

    @property
    def by_class(self) -> tuple[int, ...]:
        """The images as they are looked at: class by class, in no order of confidence."""
        return tuple(sorted(self.images, key=lambda image: (self.rows[image].label, image)))

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """The classes of the run, those that only a person named among them."""
        known = known_classes(read_corrections(self.run.path))
        return class_names_of(self.run.record["classes"], self.rows, known)

    def key(self, image: int) -> str:
        """Name a label in tables and pages: no spreadsheet takes it for a number or a date."""
        digest = hashlib.blake2b(f"{_labels_digest(self.run)} {image}".encode(), digest_size=6)
        return f"k{digest.hexdigest()}"


def begin_audit(
    run: RunFolder, n: int = 0, *, wanted: float | None = None, seed: int | None = None
) -> Audit:
    """Draw accepted labels to look at, or more of them, and write them into the run.

    `n` 0 takes as many as show `wanted` (by default the run's target error) if none is wrong, or as
    before. An audit of the same labels goes on: what was said stays, a larger sample holds it.
    """
    rows = run.rows()
    accepted = _accepted(rows)
    if not accepted:
        raise DataError(
            f"{run.path}: no label was accepted, so there is nothing to audit; give more examples, "
            "or a larger --target-error"
        )
    before = find_audit(run)
    if before is not None and before.said and seed not in (None, before.seed):
        raise DataError(
            f"{run.path} holds an audit with --seed {before.seed} and {len(before.said)} verdicts; "
            f"go on with that seed, or remove {run.path / 'audit'} to begin another"
        )
    if before is None:
        _put_aside(run)
    if wanted is None:
        wanted = before.wanted if before else _target_error(run)
    if not 0 <= wanted <= 1:
        raise DataError(f"wanted = {wanted}: a share of wrong labels is from 0 to 1")
    seed = seed if seed is not None else before.seed if before else 0
    if before is not None:
        n = max(n or len(before.images), len(before.said))
    n = n or n_to_look(len(accepted), wanted)
    confidences = [rows[image].confidence or 0.0 for image in accepted]
    # Other labels, another sample: one that came back after its images had become examples would
    # find them right.
    sample = draw_sample(confidences, n, seed_of(seed, _labels_digest(run)))
    audit = Audit(run, rows, accepted, sample, seed, wanted)
    if before is not None:
        audit.said, audit.n_looks = before.said, before.n_looks
    _save(audit)
    return audit


def find_audit(run: RunFolder) -> Audit | None:
    """Return the audit of a run's labels as they are now; None: there is none."""
    path = run.checked(SAMPLE)
    if not path.exists():
        return None
    values = json.loads(path.read_text(encoding="utf-8"))
    if values["format"] != FORMAT:
        raise DataError(f"{path} has format {values['format']!r}, this version reads {FORMAT!r}")
    if values["labels_sha256"] != _labels_digest(run):
        return None  # of labels that were answered anew since
    rows = run.rows()
    sample = Sample(*(tuple(values[name]) for name in ("chosen", "strata", "sizes")))
    audit = Audit(
        run, rows, _accepted(rows), sample, values["seed"], values["wanted"], values["n_looks"]
    )
    audit.said = read_verdicts(audit, run.path / SAID) if (run.path / SAID).exists() else {}
    return audit


def judge_audit(audit: Audit, said: Mapping[int, Said]) -> Certificate:
    """Take what was said of images by their number, keep it, and write the certificate.

    Every label of the sample needs a word; what is said again of one replaces what was.
    """
    known = audit.said | dict(said)
    foreign = sorted(known.keys() - set(audit.images))
    if foreign:
        raise DataError(f"{audit.run.path}: image {foreign[0]} is not in the sample of the audit")
    for image, word in known.items():
        _check(audit, image, word)
    missing = [image for image in audit.images if image not in known]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(audit.images)} labels have no verdict, first that of "
            f"{audit.rows[missing[0]].path}; write right, wrong or unsure for each"
        )
    audit.n_looks = max(audit.n_looks + bool(audit.waiting), 1)
    audit.said = known
    certificate = certify(
        audit.sample,
        [known[image].verdict for image in audit.images],
        [audit.rows[image].label for image in audit.accepted],
        [audit.rows[image].confidence or 0.0 for image in audit.accepted],
        wanted=audit.wanted,
        n_looks=audit.n_looks,
    )
    _save(audit, certificate)
    return certificate


def take_verdicts(run: RunFolder, path: Path) -> tuple[Certificate, int]:
    """Read a filled-in table, certify, and keep what it teaches as corrections; return how many.

    Corrections are examples when the run's `appl label` command is given again.
    """
    audit = find_audit(run)
    if audit is None:
        raise DataError(
            f"{run.path} has no audit of its labels as they are; draw one with `appl audit "
            f"{run.path}`"
        )
    certificate = judge_audit(audit, read_verdicts(audit, path))
    new = unsaid(lessons(audit), known_classes(read_corrections(run.path)))
    if new:
        append_corrections(run.path, said_at_once(new))
    return certificate, len(new)


def find_certificate(run: RunFolder) -> tuple[Certificate | None, bool]:
    """Return a run's certificate, and whether there is one of earlier labels only."""
    values = run.record.get("audit")
    if values is None:
        return None, False
    if values["labels_sha256"] != _labels_digest(run):
        return None, True
    return Certificate.of_dict(values), False


def lessons(audit: Audit) -> dict[int, str]:
    """Return what an audit teaches: classes by image, "" for none; for `Session.correct`."""
    taught = {}
    for image, word in audit.said.items():
        if word.verdict == "right":
            taught[image] = audit.rows[image].label
        elif word.verdict == "wrong" and word.true_label:
            is_none = word.true_label not in audit.class_names
            taught[image] = "" if is_none else word.true_label
    return taught


def unsaid(lessons: Mapping[int, str], known: Mapping[int, str]) -> dict[int, str]:
    """Return the lessons that are news: classes by image, beside what is known of images."""
    return {image: name for image, name in lessons.items() if known.get(image) != name}


def read_verdicts(audit: Audit, path: Path) -> dict[int, Said]:
    """Read a filled-in table, by the numbers of its images; rows without a verdict are left out.

    Only `key`, `verdict` and `true_label` are read: a spreadsheet may have made dates of names.
    """
    image_of = {audit.key(image): image for image in audit.images}
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file; save the page of the audit first") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8; save the table as CSV in UTF-8") from error
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)  # a spreadsheet takes that of its country
    reader = csv.DictReader(io.StringIO(text), delimiter=delimiter)
    missing = {"key", "verdict"} - set(reader.fieldnames or ())
    if missing:
        raise DataError(
            f"{path} has no column {sorted(missing)[0]!r}; give the table that the page of the "
            f"audit saved, or {audit.run.path / SHEET} filled in"
        )
    said: dict[int, Said] = {}
    for cells in reader:
        where = f"{path}, line {reader.line_num}"
        key, verdict = (cells["key"] or "").strip(), (cells["verdict"] or "").strip().lower()
        if not key and not verdict:
            continue
        if key not in image_of:
            raise DataError(
                f"{where}: {key!r} is not of this audit; was it saved for other labels or another "
                "sample?"
            )
        if not verdict:
            continue
        if verdict not in VERDICTS:
            raise DataError(f"{where}: {verdict!r} is no verdict; write {', '.join(VERDICTS)}")
        image = image_of[key]
        true_label = unharmed((cells.get("true_label") or "").strip())
        word = Said(verdict, true_label)
        if said.get(image, word) != word:
            raise DataError(f"{where}: {key!r} has two verdicts; keep one")
        _check(audit, image, word, where)
        said[image] = word
    return said


def verdict_table(audit: Audit, images: tuple[int, ...]) -> bytes:
    """Return the table of some labels, with what was said of them."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for image in images:
        row, word = audit.rows[image], audit.said.get(image)
        said = (word.verdict, word.true_label) if word else ("", "")
        writer.writerow(
            [harmless(value) for value in (audit.key(image), row.path, row.label, *said)]
        )
    return text.getvalue().encode("utf-8", "backslashreplace")


def _save(audit: Audit, certificate: Certificate | None = None) -> None:
    folder = audit.run.path
    values = {
        "format": FORMAT,
        "labels_sha256": _labels_digest(audit.run),
        "seed": audit.seed,
        "wanted": audit.wanted,
        "n_looks": audit.n_looks,
        **asdict(audit.sample),
    }
    audit.run.unseal(SAMPLE, CERTIFICATE)
    # What was said first: it is the one thing that nobody could make again.
    if audit.said:
        write_atomically(folder / SAID, verdict_table(audit, tuple(sorted(audit.said))))
    write_atomically(folder / SAMPLE, json.dumps(values).encode())
    write_atomically(folder / SHEET, verdict_table(audit, audit.by_class))
    if certificate is not None:
        found = {
            "labels_sha256": _labels_digest(audit.run),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "seed": audit.seed,
            **certificate.to_dict(),
        }
        write_atomically(folder / CERTIFICATE, json.dumps(found, indent=1).encode())
        audit.run.record["audit"] = found
    audit.run.save()


def _check(audit: Audit, image: int, word: Said, where: str = "") -> None:
    """Refuse what contradicts itself or names a class that there is not."""
    where = where or f"image {image}"
    label, true = audit.rows[image].label, word.true_label
    if not true:
        return
    if word.verdict == "right" and true != label:
        raise DataError(f"{where}: right, but true_label is {true!r}, not {label!r}; which is it?")
    if word.verdict == "wrong" and true == label:
        raise DataError(f"{where}: wrong, but true_label is the label, {label!r}; which is it?")
    if true not in (*audit.class_names, NONE_OF_THESE):
        raise DataError(
            f"{where}: no class is called {true!r}; leave true_label empty, or write "
            f"{NONE_OF_THESE} or one of {', '.join(audit.class_names[:10])}"
        )


def _put_aside(run: RunFolder) -> None:
    """Keep what was said of earlier labels under another name."""
    path = run.path / SAID
    if path.exists():
        number = next(n for n in range(1, 10**6) if not _earlier(path, n).exists())
        path.rename(_earlier(path, number))


def _earlier(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-earlier-{number}{path.suffix}")


def _target_error(run: RunFolder) -> float:
    return float(run.record["settings"]["target_error"]) or 0.05


def _accepted(rows: list[LabelRow]) -> tuple[int, ...]:
    return tuple(i for i, row in enumerate(rows) if row.decision == "accept")


def _labels_digest(run: RunFolder) -> str:
    digest: str | None = run.record["sha256"].get(LABELS)
    return digest or hashlib.sha256((run.path / LABELS).read_bytes()).hexdigest()
