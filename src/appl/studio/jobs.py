"""What takes long, one thing at a time, beside the page: with progress, and cancelled at a word."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from appl.errors import ApplError

Progress = Callable[[str, int, int], None]


class Cancelled(Exception):  # noqa: N818  nothing went wrong
    """A person does not want it any more."""


@dataclass
class Job:
    """How far something is."""

    name: str
    stage: str = ""
    done: int = 0
    total: int = 0
    is_cancelled: bool = False


class Jobs:
    """Runs one job at a time in a thread of its own."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.now: Job | None = None
        self.message = ""  # how the last one ended, in words; empty: well
        self.has_failed = False

    def start(self, name: str, work: Callable[[], str]) -> bool:
        """Begin unless something else is running; `work` returns what to say at its end."""
        with self._lock:
            if self.now is not None:
                return False
            self.now, self.message, self.has_failed = Job(name), "", False
            self._thread = threading.Thread(target=self._run, args=(work,), name=f"studio-{name}")
            self._thread.start()
        self._on_change()
        return True

    def progress(self, stage: str, done: int, total: int) -> None:
        """Note how far the job is; ends it here where somebody cancelled it."""
        job = self.now
        if job is None or threading.current_thread() is not self._thread:
            return
        if job.is_cancelled:
            raise Cancelled
        job.stage, job.done, job.total = stage, done, total
        self._on_change()

    def cancel(self) -> None:
        """Ask the job to end; it does at its next step."""
        if self.now is not None:
            self.now.is_cancelled = True
            self._on_change()

    def wait(self) -> None:
        """Wait for the end of what is running."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self, work: Callable[[], str]) -> None:
        message, has_failed = "", False
        try:
            message = work()
        except Cancelled:
            message = "Cancelled; everything is as it was."
        except ApplError as error:
            message, has_failed = str(error), True
        except Exception as error:  # the page tells it; the thread has nobody to tell
            message, has_failed = f"{type(error).__name__}: {error}", True
        with self._lock:
            self.now, self.message, self.has_failed = None, message, has_failed
        self._on_change()
