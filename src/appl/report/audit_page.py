"""The page of an audit: the sample class by class, to mark what is wrong; works from a file.

It holds its pictures, its style and its script, and asks no network for anything. It does not show
the confidence: who sees that a label is sure believes it. The images of a class stand in the order
of the pile.
"""

import base64
import hashlib
import io
import shlex
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from appl.core.files import write_atomically
from appl.errors import DataError
from appl.images.decode import decode
from appl.images.thumbnails import Thumbnails
from appl.labelling.audit_files import NONE_OF_THESE, PAGE, Audit, Said
from appl.labelling.inputs import from_shown, shown
from appl.labelling.rows import harmless
from appl.report.content import RunContent
from appl.report.pictures import find_pictures
from appl.report.rendering import render_template
from appl.report.words import NAME_LETTERS, file_name, short

SIDE_PX = 256
MOST_LARGE = 400  # pictures; of more, the small ones that the run kept
MOST_EXAMPLES = 6  # of a class


@dataclass(frozen=True)
class Look:
    """A label to look at."""

    key: str
    path: str
    cell: str  # the path as a table holds it
    name: str
    short_name: str
    picture: str  # data URI; empty: none
    said: Said | None


@dataclass(frozen=True)
class LabelGroup:
    """Labels of one class, beside its examples."""

    name: str
    cell: str
    examples: tuple[tuple[str, str], ...]  # name, data URI
    looks: tuple[Look, ...]


@dataclass(frozen=True)
class AuditPage:
    """Everything that the template shows."""

    groups: tuple[LabelGroup, ...]
    n_looks: int
    n_accepted: int
    n_said: int  # earlier, and not shown again
    wanted: float
    class_names: tuple[tuple[str, str], ...]  # as shown, as a table holds it
    none_of_these: str
    command: str
    sample_id: str


def write_audit_page(audit: Audit) -> Path:
    """Write audit.html beside the table of an audit, and return its path.

    Where something was said before, only what waits is shown; where nothing waits, everything.
    """
    path = audit.run.path / PAGE
    text = render_template("audit.html.j2", page=compose(audit))
    write_atomically(path, text.encode("utf-8", "backslashreplace"))
    return path


def compose(audit: Audit) -> AuditPage:
    """Choose what the page of an audit shows."""
    content = RunContent.load(audit.run.path)
    waiting = set(audit.waiting or audit.images)
    images = [image for image in audit.by_class if image in waiting]
    looks: dict[str, list[Look]] = {}
    for image in images:
        row = audit.rows[image]
        is_large = len(images) <= MOST_LARGE
        looks.setdefault(row.label, []).append(
            Look(
                audit.key(image),
                row.path,
                str(harmless(row.path)),
                file_name(row.path),
                short(file_name(row.path), NAME_LETTERS),
                _picture(row.path if is_large else "", content.pile_thumbnails, image),
                audit.said.get(image),
            )
        )
    keys = "\n".join(audit.key(image) for image in images)
    run = shown(audit.run.path)
    return AuditPage(
        groups=tuple(
            LabelGroup(name, str(harmless(name)), _examples(content, name), tuple(members))
            for name, members in looks.items()
        ),
        n_looks=len(images),
        n_accepted=len(audit.accepted),
        n_said=len(audit.images) - len(images),
        wanted=audit.wanted,
        class_names=tuple((name, str(harmless(name))) for name in audit.class_names),
        none_of_these=NONE_OF_THESE,
        command=f"appl audit {shlex.quote(run)} --verdict audit-verdict.csv",
        sample_id=hashlib.blake2b(keys.encode(), digest_size=8).hexdigest(),
    )


def _examples(content: RunContent, name: str) -> tuple[tuple[str, str], ...]:
    if name not in content.class_names:
        return ()
    class_id = content.class_names.index(name)
    own = [i for i, example in enumerate(content.examples) if example.class_id == class_id]
    pictures = find_pictures(content, [f"e{i}" for i in own[:MOST_EXAMPLES]])
    return tuple(
        (file_name(content.examples[int(key[1:])].path), uri)
        for key, uri in pictures.items()
        if uri
    )


def _picture(path: str, thumbnails: Thumbnails | None, image: int) -> str:
    """Return a picture of the file, or the small one that the run kept where it has moved."""
    jpeg = b""
    if path:
        try:
            picture = decode(from_shown(path), 2 * SIDE_PX)
            picture.thumbnail((SIDE_PX, SIDE_PX), Image.Resampling.LANCZOS)
            picture.info = {}
            buffer = io.BytesIO()
            picture.save(buffer, "JPEG", quality=80)
            jpeg = buffer.getvalue()
        except (DataError, OSError):
            pass  # moved, or no longer readable
    if not jpeg and thumbnails is not None and image < len(thumbnails):
        jpeg = thumbnails.thumbnail(image)
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode('ascii')}" if jpeg else ""
