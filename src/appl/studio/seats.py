"""Which page may write: each gets a token of its own, and one at a time has the pen.

A second tab on the same run sees everything and changes nothing, unless its person takes the pen.
"""

import hmac
import secrets
import threading
import time
from dataclasses import dataclass

MOST_PAGES = 200  # that are remembered, and all that listen; others have to be loaded again
GRACE_S = 3.0  # a page that is loaded anew is gone for a moment


@dataclass
class Page:
    """One page that was handed out."""

    id: str
    token: str
    n_streams: int = 0
    seen_at: float = 0.0


class Seats:
    """The pages that were handed out, and the one that may write."""

    def __init__(self) -> None:
        self._pages: dict[str, Page] = {}
        self._writer = ""
        self._lock = threading.Lock()

    def hand_out(self) -> Page:
        """Make a page."""
        page = Page(secrets.token_urlsafe(9), secrets.token_urlsafe(32), seen_at=time.monotonic())
        with self._lock:
            self._pages[page.id] = page
            silent = [old for old in self._pages.values() if not old.n_streams and old is not page]
            for old in silent[: max(0, len(self._pages) - MOST_PAGES)]:
                del self._pages[old.id]
        return page

    def by_token(self, token: str) -> Page | None:
        """Return the page that has a token."""
        if not token.isascii():
            return None
        with self._lock:
            pages = list(self._pages.values())
        return next((page for page in pages if hmac.compare_digest(page.token, token)), None)

    def has(self, page_id: str) -> bool:
        """Tell whether a page is one of ours."""
        return page_id in self._pages

    def open_stream(self, page_id: str) -> None:
        """Note that a page listens."""
        with self._lock:
            if page := self._pages.get(page_id):
                page.n_streams += 1

    def close_stream(self, page_id: str) -> None:
        """Note that a page does not listen any more."""
        with self._lock:
            if page := self._pages.get(page_id):
                page.n_streams -= 1
                page.seen_at = time.monotonic()

    def writer_for(self, page_id: str) -> str:
        """Return who has the pen; a page that asks while nobody has it gets it."""
        with self._lock:
            if not self._is_there(self._writer) and page_id in self._pages:
                self._writer = page_id
            return self._writer

    def take(self, page_id: str) -> None:
        """Give the pen to a page."""
        with self._lock:
            if page_id in self._pages:
                self._writer = page_id

    def _is_there(self, page_id: str) -> bool:
        page = self._pages.get(page_id)
        if page is None:
            return False
        return page.n_streams > 0 or time.monotonic() - page.seen_at < GRACE_S
