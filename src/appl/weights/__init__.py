"""Weights that ship with the package; README.md beside them is their model card."""
