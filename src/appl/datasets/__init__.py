"""Images on disk: decoding, packing, and one reader a data set."""
