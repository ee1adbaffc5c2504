"""The command line: a thin skin over the library; only commands that need torch import it."""
