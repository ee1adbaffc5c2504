"""Worker processes that end with the process that started them."""

import multiprocessing
import os
import threading


def end_with_parent() -> None:
    """Let this worker end when its parent is gone, even if that was killed and could say nothing.

    Otherwise a worker of a killed run waits for work for ever, and keeps its memory.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
