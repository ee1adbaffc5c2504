"""Which device and which precision: the one place where it is decided.

bf16 autocast is taken only where the hardware has bf16 units. On an AVX2-only processor it was
measured 14 times slower than fp32, so there it is refused even when asked for, with a note.
"""

import ctypes
from dataclasses import dataclass

import torch

from appl.errors import SettingsError
from appl.settings.compute import ComputeSettings


@dataclass(frozen=True)
class Compute:
    """A device and a precision, with the reasons in words."""

    device: torch.device
    autocast_dtype: torch.dtype | None
    notes: tuple[str, ...] = ()

    @property
    def precision(self) -> str:
        """The arithmetic of the convolutions in a word."""
        return "fp32" if self.autocast_dtype is None else str(self.autocast_dtype).split(".")[-1]


def cpu_has_bf16_units() -> bool:
    """Tell whether this processor multiplies bf16 in hardware (AVX512-BF16 or AMX)."""
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def keep_freed_memory(keep: bool = True) -> bool:
    """Let this process keep large blocks that are freed, instead of asking for them anew.

    By default glibc takes every large tensor from the system and gives it back, and the page
    faults of each iteration cost about a tenth of its time. Returns whether it could be set.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc: nothing to set
        return False
    m_trim_threshold, m_mmap_max = -1, -4  # of malloc.h
    n_mmap, trim_bytes = (0, 2**31 - 1) if keep else (65536, 128 * 1024)
    return bool(mallopt(m_mmap_max, n_mmap)) and bool(mallopt(m_trim_threshold, trim_bytes))


def resolve_compute(settings: ComputeSettings | None = None) -> Compute:
    """Turn the wish into what this machine can do."""
    settings = settings or ComputeSettings()
    has_cuda = torch.cuda.is_available()
    name = settings.device
    if name == "auto":
        name = "cuda" if has_cuda else "cpu"
    if name.startswith("cuda") and not has_cuda:
        raise SettingsError(
            f"device = {name!r}: this machine has no CUDA device; use 'cpu' or 'auto'"
        )
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SettingsError(
            f"device = {name!r} is no device; use 'auto', 'cpu' or 'cuda'"
        ) from error
    if device.type == "cpu":
        keep_freed_memory()
    if settings.n_threads:
        torch.set_num_threads(settings.n_threads)
    return _with_precision(device, settings.precision)


def _with_precision(device: torch.device, precision: str) -> Compute:
    if precision == "fp32":
        return Compute(device, None)
    # fp16 is never taken: its small range needs loss scaling, and tasks are too short to tune it.
    if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return Compute(device, torch.bfloat16, (f"bf16 autocast on {device}",))
    if device.type == "cpu" and cpu_has_bf16_units():
        return Compute(device, torch.bfloat16, ("this processor has bf16 units: bf16 autocast",))
    if precision == "bf16":
        note = f"bf16 was asked for, but {device} has no bf16 units and would be slower: fp32"
        return Compute(device, None, (note,))
    return Compute(device, None, ("no bf16 units: fp32",))
