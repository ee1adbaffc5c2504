"""A copy against the published counts, class by class."""

from dataclasses import dataclass

from appl.datasets.listing import Listing
from appl.datasets.provenance import published_counts


@dataclass(frozen=True)
class ClassCount:
    """Images found of a class, and how many are published (None: the class is not)."""

    name: str
    found: int
    published: int | None

    @property
    def verdict(self) -> str:
        """Say in words how the two compare."""
        if self.published is None:
            return "not published"
        if not self.found:
            return "not there"
        if self.found == self.published:
            return "all"
        difference = abs(self.published - self.found)
        return f"{difference:,} {'missing' if self.found < self.published else 'more'}"


def compare_counts(name: str, listing: Listing) -> list[ClassCount]:
    """Compare a listing with what is published under `name`; absent classes have their row."""
    published, found = published_counts(name), listing.counts
    names = [*found, *(n for n in published if n not in found)]
    return [ClassCount(n, found.get(n, 0), published.get(n)) for n in sorted(names)]
