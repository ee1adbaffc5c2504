"""What a reader should know before trusting the labels, in plain words."""

from collections.abc import Iterator
from dataclasses import dataclass

from appl.labelling.checks import N_NAMED
from appl.report.content import RunContent
from appl.report.sheets import Tile, example_tile
from appl.report.words import counted, listed, percent, sentence, short

MOST_ENTRIES = 5  # of one kind; the rest is counted
MOST_DOUBTS = 12
KINDS = {
    "conflict": "One image, two classes",
    "duplicate": "The same example twice",
    "few-examples": "Few examples",
    "leak": "Examples among the images to label",
    "near-duplicate": "Near copies of examples",
    "flat": "Images of one colour",
    "unreadable": "Files that could not be read",
}


@dataclass(frozen=True)
class Entry:
    """One remark and the files that it is about."""

    text: str
    files: tuple[str, ...] = ()
    n_more_files: int = 0


@dataclass(frozen=True)
class Remark:
    """Remarks of one kind."""

    title: str
    entries: tuple[Entry, ...]
    n_more: int = 0


@dataclass(frozen=True)
class Doubt:
    """An example that looks like another class when it is judged by the other examples."""

    tile: Tile
    given: str
    looks_like: str
    confidence: str


def find_remarks(content: RunContent) -> list[Remark]:
    """List what speaks against trust, the gravest first."""
    remarks = [
        *_about_audit(content),
        *_about_adaptation(content),
        *_about_promise(content),
        *_about_classes(content),
    ]
    by_kind: dict[str, list[Entry]] = {kind: [] for kind in KINDS}
    for finding in content.history.facts.get("findings", []):
        files = tuple(finding.get("files", ()))
        entry = Entry(sentence(finding["text"]), files[:N_NAMED], max(0, len(files) - N_NAMED))
        by_kind.setdefault(finding["kind"], []).append(entry)
    by_kind["notes"] = [Entry(sentence(note)) for note in content.record.get("notes", [])]
    for kind, entries in by_kind.items():
        if entries:
            shown, n_more = tuple(entries[:MOST_ENTRIES]), max(0, len(entries) - MOST_ENTRIES)
            remarks.append(Remark(KINDS.get(kind, "Also noted"), shown, n_more))
    return remarks


def find_doubts(content: RunContent) -> tuple[list[Doubt], int]:
    """Return the examples worth a second look, the surest suspicion first, and how many more."""
    found = sorted(content.history.facts.get("doubtful_examples", []), key=lambda entry: -entry[2])
    doubts = [
        Doubt(
            example_tile(content, index),
            short(content.class_names[content.examples[index].class_id]),
            short(content.class_names[looks_like]),
            percent(confidence),
        )
        for index, looks_like, confidence in found[:MOST_DOUBTS]
    ]
    return doubts, len(found) - len(doubts)


def why_not_adapted(content: RunContent) -> str:
    """Say why the labels come from an encoder as it was; empty where it was adapted."""
    if content.is_adapted:
        return ""
    reasons = content.history.facts.get("fell_back", [])
    if reasons:
        return "; ".join(reasons)
    if not content.record["settings"].get("adapt", True):
        return "this was switched off"
    return "the settings allow no step of it"


def _about_audit(content: RunContent) -> Iterator[Remark]:
    found = content.certificate
    if found is not None and found.low > found.wanted:
        text = (
            f"Of {counted(found.n_looked, 'accepted label')} that a person looked at, "
            f"{found.n_wrong:,} are wrong: surely more than {found.wanted:.1%} of all of them. "
            "Accept fewer (a smaller --target-error), or give more examples."
        )
        yield Remark("More labels are wrong than you wanted", (Entry(text),))


def _about_adaptation(content: RunContent) -> Iterator[Remark]:
    reasons = content.history.facts.get("fell_back", [])
    if reasons:
        text = (
            "An adaptation to your images was tried, and its result was thrown away, since "
            f"{'; '.join(reasons)}. The labels come from the software as it was before."
        )
        yield Remark("The adaptation was not used", (Entry(text),))


def _about_promise(content: RunContent) -> Iterator[Remark]:
    promise = content.acceptance
    if promise.wanted >= promise.promised:
        return
    examples = counted(promise.n_examples, "example")
    if promise.promised >= 1:
        text = (
            f"There are {examples} to check on, so nothing can be promised and no label is "
            "accepted. Give two or more examples of each class."
        )
    else:
        text = (
            f"You allowed {promise.wanted:.1%} of the images to be accepted with a wrong label. "
            f"With {examples} to check on, no less than {promise.promised:.1%} can be promised, "
            "and that is what “accepted” stands for here. More examples allow less."
        )
    yield Remark("The wanted error cannot be promised", (Entry(text),))


def _about_classes(content: RunContent) -> Iterator[Remark]:
    empty = [short(name) for name in content.class_names if not content.labelled[name]]
    if not empty:
        return
    n_more = len(empty) - 2 * MOST_ENTRIES
    if n_more > 1:
        empty = [*empty[: 2 * MOST_ENTRIES], f"{n_more} more"]
    text = (
        f"No image was given the label {listed(empty)}. Either there is none of it among your "
        "images, or its examples do not look like them."
    )
    yield Remark("Classes without an image", (Entry(text),))
