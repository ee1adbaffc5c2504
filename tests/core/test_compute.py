import pytest
import torch

from appl.core import compute
from appl.errors import SettingsError
from appl.settings import ComputeSettings


@pytest.mark.parametrize(
    ("has_units", "precision", "dtype"),
    [
        (False, "auto", None),
        (False, "bf16", None),
        (False, "fp32", None),
        (True, "auto", torch.bfloat16),
        (True, "bf16", torch.bfloat16),
        (True, "fp32", None),
    ],
)
def test_bf16_only_where_the_processor_has_units(monkeypatch, has_units, precision, dtype):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": has_units})
    found = compute.resolve_compute(ComputeSettings(device="cpu", precision=precision))
    assert found.autocast_dtype == dtype


def test_a_refused_wish_is_said(monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    found = compute.resolve_compute(ComputeSettings(device="cpu", precision="bf16"))
    assert "no bf16 units" in found.notes[0]
    assert found.precision == "fp32"


def test_a_device_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert compute.resolve_compute(ComputeSettings()).device.type == "cpu"
    with pytest.raises(SettingsError, match="no CUDA device"):
        compute.resolve_compute(ComputeSettings(device="cuda"))
    with pytest.raises(SettingsError, match="'toaster' is no device"):
        compute.resolve_compute(ComputeSettings(device="toaster"))


def test_memory_is_kept_where_glibc_is_and_nothing_breaks_elsewhere(monkeypatch):
    import ctypes

    calls = []

    class Library:
        def __init__(self, _):
            self.mallopt = lambda option, value: calls.append((option, value)) or 1

    monkeypatch.setattr(ctypes, "CDLL", Library)
    assert compute.keep_freed_memory()
    assert calls == [(-4, 0), (-1, 2**31 - 1)]
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert not compute.keep_freed_memory()
