"""The readers: one file a data set, each with its record in the registry `DATASETS`."""
