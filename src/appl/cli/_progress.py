"""Progress of what takes long: bars on a terminal, a line now and then in a log."""

import time
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

LOG_EVERY_S = 60.0
# What the time left is taken from. An episode may take minutes, and two or three come at a time: in
# half a minute, which `rich` looks back by itself, there is one of them or none.
LOOKS_BACK_S = 1800.0


class Bars(Progress):
    """A bar a task with its time left.

    Where output goes to a file, bars are not drawn before the end: who looks into the log of a
    long run finds, for every task that went on, one line per minute.
    """

    def __init__(self, console: Console | None = None, *, transient: bool = False) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        super().__init__(
            *columns,
            TimeRemainingColumn(),
            console=console,
            transient=transient,
            speed_estimate_period=LOOKS_BACK_S,
            get_time=lambda: time.monotonic(),
        )
        self._logged_at = time.monotonic()
        self._went_on: set[TaskID] = set()  # since the last line; not what a resumed run found done

    def update(self, task_id: TaskID, *args: Any, **changes: Any) -> None:
        """Change a task as `rich` does, and log what went on."""
        super().update(task_id, *args, **changes)
        self._went_on.add(task_id)
        now = time.monotonic()
        if self.console.is_terminal or now - self._logged_at < LOG_EVERY_S:
            return
        self._logged_at = now
        for task in self.tasks:
            if task.id in self._went_on:
                left = task.time_remaining
                text = f"{task.description}: {task.completed:,.0f} of {task.total or 0:,.0f}"
                if left:
                    text += f", {timedelta(seconds=round(left))} left"
                self.console.print(
                    f"{time.strftime('%H:%M:%S')} {text}", highlight=False, soft_wrap=True
                )
        self._went_on.clear()
