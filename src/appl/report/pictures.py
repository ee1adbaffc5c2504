"""The small pictures that a run kept, as text that a page can hold."""

import base64
from collections.abc import Iterable, Sequence

from appl.images.thumbnails import Thumbnails
from appl.report.content import RunContent


def find_pictures(content: RunContent, keys: Iterable[str]) -> dict[str, str]:
    """Return data URIs by the keys of tiles; empty where the run has no such picture."""
    examples = _example_places(content)
    rows = range(len(content.rows))
    return {
        key: _data_uri(content.support_thumbnails, examples, int(key[1:]))
        if key.startswith("e")
        else _data_uri(content.pile_thumbnails, rows, int(key[1:]))
        for key in keys
    }


def _example_places(content: RunContent) -> Sequence[int]:
    """Return where the examples of the model are among all that were given."""
    thumbnails = content.support_thumbnails
    every = range(len(content.record["support"]))
    if thumbnails is None or len(content.examples) == len(every):
        return every
    # Some could not be read: they have no thumbnail, and the model does not know them.
    return [i for i in every if i < len(thumbnails) and thumbnails.has(i)]


def _data_uri(thumbnails: Thumbnails | None, places: Sequence[int], index: int) -> str:
    if thumbnails is None or index >= len(places) or places[index] >= len(thumbnails):
        return ""
    jpeg = thumbnails.thumbnail(places[index])
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode('ascii')}" if jpeg else ""
