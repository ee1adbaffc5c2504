"""The rivals: one file a method, each registered with its card (`core.methods`)."""
