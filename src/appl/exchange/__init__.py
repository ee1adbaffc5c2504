"""Labels in the formats of other programs, out and in; a format is a file of `formats`."""
