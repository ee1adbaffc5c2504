"""The paper: prototypes, losses, moving average, and its two algorithms. Tensors only."""
