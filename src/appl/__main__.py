"""`python -m appl` is the command `appl`."""

from appl.cli.app import main

main()
