"""What may stand in one table: benchmarks that differ in the number of shots, and in nothing else.

Numbers from other seeds, sizes, queries or weights look alike and mean something else, so a
difference is an error that names it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from appl.benchmark.collection import Collection
from appl.errors import SettingsError


def check_mixable(collections: Sequence[Collection]) -> None:
    """Refuse benchmarks whose numbers must not be compared column by column."""
    first, *others = collections
    for other in others:
        _refuse_difference(_conditions(first), _conditions(other), "one table cannot hold")
    rows: dict[str, dict[str, Any]] = {}
    digests: dict[str, str] = {}
    for collection in collections:
        for row in collection.outline.rows:
            settings = {"method": row.name, **row.settings}
            known = rows.setdefault(row.title, settings)
            _refuse_difference(known, settings, f"row {row.title!r} cannot be both")
        for (_, target), stored in collection.stored.items():
            digest = stored.run.data_digest
            if digests.setdefault(target, digest) != digest:
                raise SettingsError(
                    f"one table cannot hold target {target!r} from different files (data digests "
                    f"{digests[target][:12]} and {digest[:12]}); give --data, or make two tables"
                )


def first_difference(one: Any, other: Any) -> tuple[str, Any, Any] | None:
    """Return the name and both values of the first field that differs, inner ones by dots."""
    ours, theirs = dict(_flat(one)), dict(_flat(other))
    for name in ours | theirs:
        if ours.get(name) != theirs.get(name):
            return name, ours.get(name), theirs.get(name)
    return None


def _refuse_difference(one: dict[str, Any], other: dict[str, Any], what: str) -> None:
    found = first_difference(one, other)
    if found is not None:
        name, ours, theirs = found
        raise SettingsError(
            f"{what} {name} = {ours!r} and {name} = {theirs!r}; make a table of each"
        )


def _conditions(collection: Collection) -> dict[str, Any]:
    outline = collection.outline
    protocol = asdict(outline.settings.protocol)
    del protocol["n_shot"]
    return {
        **protocol,
        "image_px": outline.settings.image_px,
        "margin": outline.settings.margin,
        "encoder": outline.encoder,
        "weights": f"{outline.settings.weights} {outline.weights_digest[:12]}",
    }


def _flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
