"""Image files: decoding, and stores of what was decoded once."""
