"""Training on the source: one loop a kind of training, checkpoints, progress."""
