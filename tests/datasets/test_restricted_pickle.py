import os
import pickle
from collections import OrderedDict
from functools import partial

import numpy as np
import pytest

from appl.datasets._restricted_pickle import load_plain
from appl.errors import DataError
from tests.datasets.pickled import python2_array, python2_dict, python2_pickle, python2_string


class Runs:
    """Unpickling this calls a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def write(folder, data):
    path = folder / "a.pkl"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_and_arrays_come_back(tmp_path, protocol):
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    content = {
        "pixels": pixels,
        "fortran": np.asfortranarray(pixels),
        "big endian": np.array([1, -2], dtype=">i4"),
        "class_dict": OrderedDict(n01=[0, 1]),
        "scalar": np.int64(7),
        "bytes": b"\x00\xff",
        "text": "é",
    }
    loaded = load_plain(write(tmp_path, pickle.dumps(content, protocol)))
    assert loaded.keys() == content.keys()
    for name in ("pixels", "fortran", "big endian"):
        array = np.asarray(loaded[name])
        assert array.dtype == content[name].dtype and np.array_equal(array, content[name])
    for name in ("class_dict", "scalar", "bytes", "text"):
        assert loaded[name] == content[name]


def test_a_pickle_by_numpy_1_comes_back(tmp_path):
    data = pickle.dumps([np.int64(7), np.arange(3)], 3).replace(b"numpy._core", b"numpy.core")
    scalar, array = load_plain(write(tmp_path, data))
    assert scalar == 7 and np.asarray(array).tolist() == [0, 1, 2]


def test_an_array_is_not_copied_on_its_way_out(tmp_path):
    loaded = load_plain(write(tmp_path, pickle.dumps(np.zeros(9, np.uint8))))
    assert np.shares_memory(np.asarray(loaded), np.asarray(loaded))


def test_python_2_strings_and_arrays_come_back(tmp_path):
    raw = bytes(range(244, 256))
    opcodes = python2_dict(data=python2_array((2, 2, 3), raw), name=python2_string(b"n01"))
    loaded = load_plain(write(tmp_path, python2_pickle(opcodes)))
    assert loaded["name"] == "n01"
    assert np.array_equal(np.asarray(loaded["data"]).ravel(), list(raw))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_runs_a_command_is_refused_and_does_not_run_it(tmp_path, protocol):
    proof = tmp_path / "ran"
    evil = Runs(os.system, f"touch {proof}")
    data = pickle.dumps({"image_data": evil}, protocol)
    pickle.loads(data)
    assert proof.exists()  # the pickle would do it
    proof.unlink()
    with pytest.raises(DataError, match=r"asks for (posix|nt)\.system, which could run code"):
        load_plain(write(tmp_path, data))
    assert not proof.exists()


@pytest.mark.parametrize(
    ("evil", "named"),
    [
        (Runs(eval, "1 + 1"), r"builtins\.eval"),
        (Runs(getattr, "text", "upper"), r"builtins\.getattr"),
        (Runs(np.load, "x.npy"), r"numpy\.load"),
        (partial(len), r"functools\.partial"),
    ],
)
def test_whatever_is_not_needed_is_refused_by_name(tmp_path, evil, named):
    with pytest.raises(DataError, match=f"asks for {named}, which could run code"):
        load_plain(write(tmp_path, pickle.dumps(evil, 4)))


@pytest.mark.parametrize("code", [b"O8", b"O", b"V8", b"S4", b"u1,O8"])
def test_only_arrays_of_numbers_are_read(tmp_path, code):
    # With these flags numpy itself would take the raw bytes for pointers and crash.
    data = python2_pickle(python2_array((2,), b"A" * 16, code, flags=0))
    with pytest.raises(DataError, match="is refused: an array of type"):
        load_plain(write(tmp_path, data))


def test_no_other_encoding_is_looked_up(tmp_path):
    data = pickle.dumps(b"\xff", 2).replace(b"\x06\x00\x00\x00latin1", b"\x05\x00\x00\x00rot13")
    with pytest.raises(DataError, match="is refused: bytes in the encoding 'rot13'"):
        load_plain(write(tmp_path, data))


def test_a_damaged_pickle_says_so_wherever_it_ends(tmp_path):
    data = pickle.dumps({"a": np.arange(5), "b": ["text"] * 3}, 2)
    for length in range(len(data)):
        with pytest.raises(DataError, match="is no whole pickle"):
            load_plain(write(tmp_path, data[:length]))


def test_an_array_with_too_few_bytes_is_refused(tmp_path):
    data = python2_pickle(python2_array((1000, 1000), b"only a few"))
    with pytest.raises(DataError, match="is no whole pickle"):
        load_plain(write(tmp_path, data))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"absent\.pkl cannot be read: No such file"):
        load_plain(tmp_path / "absent.pkl")
