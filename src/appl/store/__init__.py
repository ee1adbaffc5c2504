"""What is kept on disk: results, one row an episode, in SQLite."""

from appl.store.export import read_export, write_export
from appl.store.results import EpisodeResult, ResultStore, Run

__all__ = ["EpisodeResult", "ResultStore", "Run", "read_export", "write_export"]
