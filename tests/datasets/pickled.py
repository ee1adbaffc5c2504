"""Pickles as they are in the wild, made by hand where this Python could not write them."""

import struct


def python2_string(value: bytes) -> bytes:
    return b"T" + struct.pack("<i", len(value)) + value


def python2_array(shape: tuple[int, ...], raw: bytes, code: bytes = b"u1", flags: int = 0) -> bytes:
    """The opcodes with which numpy under Python 2 wrote an array at protocol 2."""
    integers = b"".join(b"J" + struct.pack("<i", n) for n in shape)
    dtype = b"cnumpy\ndtype\n" + python2_string(code) + b"K\x00K\x01\x87R"
    state = b"(K\x03" + python2_string(b"|") + b"NNN" + b"J\xff\xff\xff\xff" * 2
    dtype += state + b"J" + struct.pack("<i", flags) + b"tb"
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85"
    empty += python2_string(b"b") + b"\x87R"
    return empty + b"(K\x01(" + integers + b"t" + dtype + b"\x89" + python2_string(raw) + b"tb"


def python2_dict(**values: bytes) -> bytes:
    """A dict of values that are opcodes already."""
    pairs = b"".join(python2_string(name.encode()) + value for name, value in values.items())
    return b"}(" + pairs + b"u"


def python2_pickle(opcodes: bytes) -> bytes:
    return b"\x80\x02" + opcodes + b"."
