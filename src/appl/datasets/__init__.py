"""Data sets on disk: packing, and one reader for each."""
