"""What is kept on disk: results, one row per episode, in SQLite."""

from appl.store.export import read_export, write_export
from appl.store.results import EpisodeResult, ResultStore, RunKey

__all__ = ["EpisodeResult", "ResultStore", "RunKey", "read_export", "write_export"]
