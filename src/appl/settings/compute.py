"""Device, precision, threads and memory."""

from dataclasses import dataclass
from typing import Literal

from appl.settings.checks import check_ranges, setting


@dataclass(frozen=True)
class ComputeSettings:
    """How to compute; never changes what is computed, up to rounding."""

    device: str = setting("auto", "auto, cpu, cuda or cuda:N; auto takes CUDA where there is one")
    precision: Literal["auto", "fp32", "bf16"] = setting(
        "auto", "auto takes bf16 autocast only where the hardware has bf16 units"
    )
    n_threads: int = setting(0, "threads of one process; 0 leaves it to torch", 0)

    def __post_init__(self) -> None:
        check_ranges(self)
