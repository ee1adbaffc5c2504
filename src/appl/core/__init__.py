"""Pure tensor arithmetic: no files, no printing, no settings of a method."""
