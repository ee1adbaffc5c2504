"""The report of a run: one HTML file, made to be looked at, that needs nothing else.

Pictures are inside as data URIs, charts as SVG; class and file names are escaped by the template
and in `embedding`. It is for a person who knows the images, not the method.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appl.core.files import write_atomically
from appl.labelling.novelty import NOVEL_AT
from appl.report.adaptation_charts import balance_chart, curve_charts
from appl.report.audit_words import AuditPart, audit_part
from appl.report.content import RunContent
from appl.report.embedding import Chart
from appl.report.image_map import ImageMaps, make_maps
from appl.report.label_charts import confidence_chart, trust_chart
from appl.report.palette import colour_slots
from appl.report.pictures import find_pictures
from appl.report.remarks import Doubt, Remark, find_doubts, find_remarks, why_not_adapted
from appl.report.rendering import render_template
from appl.report.sheets import MAX_PICTURES, Sheets, choose_sheets, spare_rows
from appl.report.words import counted, listed

FOLD_FROM = 13  # classes: with so many, each sheet is folded


@dataclass(frozen=True)
class NumberTile:
    """A big number and what it counts."""

    n: int
    words: str
    meaning: str
    mark: str


@dataclass(frozen=True)
class Page:
    """Everything that the template shows."""

    summary: tuple[str, str]
    numbers: tuple[NumberTile, ...]
    audit: AuditPart
    remarks: list[Remark]
    doubts: list[Doubt]
    n_more_doubts: int
    sheets: Sheets
    folds_classes: bool
    novel_at: float
    confidence: tuple[Chart, ...]
    trust_missing: bool
    maps: ImageMaps
    spare: tuple[str, ...]  # keys of pictures that only the map shows
    curves: tuple[Chart, ...]
    why_not_adapted: str
    facts: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    pictures: dict[str, str]  # data URI by key; empty: no picture


def write_report(folder: Path) -> Path:
    """Write report.html from what a run left in its folder, and return its path."""
    text = render(compose(RunContent.load(folder)))
    path = folder / "report.html"
    # A name that is no text becomes one, rather than ending the report.
    write_atomically(path, text.encode("utf-8", "backslashreplace"))
    return path


def render(page: Page) -> str:
    """Turn a page into HTML."""
    return render_template("report.html.j2", page=page)


def compose(content: RunContent) -> Page:
    """Choose what the report shows of a run."""
    counts = {name: len(rows) for name, rows in content.labelled.items()}
    slots = colour_slots(content.class_names, counts)
    sheets = choose_sheets(content)
    doubts, n_more_doubts = find_doubts(content)
    tiles = [*sheets.tiles, *(doubt.tile for doubt in doubts)]
    maps = make_maps(content, slots)
    spare = tuple(f"r{row}" for row in spare_rows(tiles, maps.rows, MAX_PICTURES - len(tiles)))
    trust = trust_chart(content.history.left_out, content.model["temperature"])
    confidence = confidence_chart(content.rows, content.acceptance.threshold)
    records = content.history.records
    return Page(
        summary=_summary(content),
        numbers=tuple(_numbers(content)),
        audit=audit_part(content),
        remarks=find_remarks(content),
        doubts=doubts,
        n_more_doubts=n_more_doubts,
        sheets=sheets,
        folds_classes=len(content.class_names) >= FOLD_FROM,
        novel_at=NOVEL_AT,
        confidence=tuple(chart for chart in (confidence, trust) if chart),
        trust_missing=trust is None,
        maps=maps,
        spare=spare,
        curves=(
            (*curve_charts(records), balance_chart(records, content.class_names, slots))
            if records
            else ()
        ),
        why_not_adapted=why_not_adapted(content),
        facts=tuple(_facts(content)),
        pictures=find_pictures(content, [*(tile.key for tile in tiles), *spare]),
    )


def _summary(content: RunContent) -> tuple[str, str]:
    examples = counted(len(content.examples), "example")
    classes = counted(len(content.class_names), "class", "classes")
    images = counted(len(content.rows), "image")
    found = content.decisions
    reason = why_not_adapted(content)
    how = "after the software had adapted itself to your images"
    if content.history.facts.get("fell_back"):
        how = f"and an adaptation to your images was tried but not used, since {reason}"
    elif reason:
        how = f"without an adaptation to your images, since {reason}"
    n_review = found["review"]
    parts = [
        f"{counted(found['accept'], 'label is', 'labels are')} accepted",
        f"{n_review:,} {'is' if n_review == 1 else 'are'} for you to review",
    ]
    if found["none-of-these"]:
        novel = counted(found["none-of-these"], "image looks", "images look")
        parts.append(f"{novel} like none of your classes")
    if found["unreadable"]:
        parts.append(f"{counted(found['unreadable'], 'file')} could not be read")
    return f"{examples} of {classes} were used to label {images}, {how}.", f"{listed(parts)}."


def _numbers(content: RunContent) -> Iterator[NumberTile]:
    found, promise = content.decisions, content.acceptance
    yield NumberTile(
        len(content.rows),
        "images",
        f"{counted(len(content.class_names), 'class', 'classes')}, "
        f"{counted(len(content.examples), 'example')}",
        "all",
    )
    meaning = "nothing can be promised, so no label is accepted"
    if promise.promised < 1:
        meaning = (
            f"sure enough: of images like your examples, at most {promise.promised:.1%} end up "
            "here with a wrong label"
        )
    yield NumberTile(found["accept"], "accepted", meaning, "accept")
    yield NumberTile(found["review"], "to review", "not sure enough: look at these", "review")
    novel = found["none-of-these"]
    yield NumberTile(novel, "none of these", "unlike every class you gave", "none-of-these")
    if found["unreadable"]:
        meaning = "could not be opened; labels.csv says why"
        yield NumberTile(found["unreadable"], "unreadable", meaning, "unreadable")


def _facts(content: RunContent) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Yield what is needed to repeat the run, group by group."""
    record, model = content.record, content.model
    encoder = {"network": model["encoder"], "prototype_network": model["prototypes"]}
    sources = model.get("encoder_sources", [])
    for number, source in enumerate(sources, 1):
        place = f"_{number}" if len(sources) > 1 else ""
        encoder |= {f"{key}{place}": value for key, value in (source or {}).items()}
    encoder |= model.get("preprocessing", {})
    rule = {
        "temperature": model["temperature"],
        "novelty": model["novelty"],
        "augmentations_tolerated": content.history.facts.get("augmentations") or "none",
        **model["acceptance"],
    }
    yield "Network", _flat(encoder)
    yield "Time", tuple((key, f"{value:.1f} s") for key, value in record["seconds"].items())
    yield "Versions", _flat({"appl": record["version"], **record.get("versions", {})})
    digests = {"run": record["identity"], **record.get("input_digests", {})}
    yield "Digests (SHA-256)", _flat(digests)
    yield "Rule and thresholds", _flat(rule)
    yield "Settings", _flat(record["settings"])


def _flat(values: dict[str, Any], prefix: str = "") -> tuple[tuple[str, str], ...]:
    """Return nested settings as pairs, keys joined by dots."""
    pairs: list[tuple[str, str]] = []
    for key, value in values.items():
        if isinstance(value, dict):
            pairs += _flat(value, f"{prefix}{key}.")
        else:
            parts = value if isinstance(value, (list, tuple)) else [value]
            texts = [f"{part:.6g}" if isinstance(part, float) else str(part) for part in parts]
            pairs.append((f"{prefix}{key}", ", ".join(texts)))
    return tuple(pairs)
