"""Randomness without hidden state: a generator is a pure function of what it is for."""

import hashlib

import torch


def seed_of(*parts: object) -> int:
    """Derive a 63-bit seed from any printable parts; unrelated parts give unrelated seeds."""
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator_for(*parts: object) -> torch.Generator:
    """Return a CPU generator that depends on the parts alone."""
    return torch.Generator().manual_seed(seed_of(*parts))
