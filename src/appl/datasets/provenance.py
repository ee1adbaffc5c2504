"""How a copy of a data set stands to the published one: complete, a part of it, or another thing.

Numbers of a partial copy or a stand-in are not those of the original, so every table says which.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

Kind = Literal["complete", "partial", "different", "stand-in", "unchecked"]


@dataclass(frozen=True)
class Provenance:
    """What a copy is, and a sentence that says why.

    Different: it has more than what is published. Stand-in: it is another data set under the
    name. Unchecked: nothing is published that it could be compared with.
    """

    kind: Kind = "unchecked"
    remark: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.remark}" if self.remark else self.kind


UNCHECKED = Provenance()


@cache
def _all_counts() -> dict[str, dict[str, int]]:
    text = resources.files("appl.datasets").joinpath("published_counts.json").read_text("utf-8")
    counts: dict[str, dict[str, int]] = json.loads(text)
    return counts


def published_counts(name: str) -> dict[str, int]:
    """Return the images that a data set's protocol uses of each class, in its official order.

    Empty where no list of classes is published.
    """
    return dict(_all_counts().get(name, {}))


def name_key(class_name: str) -> str:
    """Return what is left of a class name in every spelling: 'Ram C/V Van' is 'ram_c_v_van'."""
    return re.sub(r"[^a-z0-9]", "", class_name.lower())


def judge(
    found: Mapping[str, int], published: Mapping[str, int], missing: Sequence[str] = ()
) -> Provenance:
    """Compare the counts by class with the published ones; `missing` are files a table names."""
    if not published:
        return UNCHECKED
    strange = [name for name in found if name not in published]
    if strange:
        return Provenance(
            "different", f"{len(strange)} classes are not of the published set, as {strange[0]!r}"
        )
    larger = [name for name, n in found.items() if n > published[name]]
    if larger:
        name = larger[0]
        return Provenance(
            "different",
            f"class {name!r} has {found[name]:,} images where {published[name]:,} are published "
            f"({len(larger)} of {len(found)} classes are larger)",
        )
    total = sum(published.values())
    if dict(found) == dict(published):
        return Provenance("complete", f"all {len(published)} classes and {total:,} images")
    remark = (
        f"{len(found)} of {len(published)} classes, {sum(found.values()):,} of {total:,} images"
    )
    if missing:
        remark += f"; {len(missing):,} listed files are not there, {missing[0]!r} the first"
    return Provenance("partial", remark)
