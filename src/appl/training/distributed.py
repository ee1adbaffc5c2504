"""Training in several processes: every process holds the same weights and its share of the work.

    torchrun --nproc-per-node 2 -m appl train pretrain SOURCE --out FOLDER
    torchrun --nproc-per-node 2 -m appl train meta SOURCE --out FOLDER --from WEIGHTS

torchrun's environment variables start a group (gloo on processors, nccl on CUDA); without them
there is one process and nothing here does anything. All processes must see the same FOLDER: the
first one writes there, all resume from it. Gradients are averaged by hand, which keeps the loops
free of wrappers; each loop's docstring says what depends on the number of processes.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from appl.errors import SettingsError

# Others wait while the first process decodes the images of a large source.
TIMEOUT = timedelta(hours=2)


@dataclass(frozen=True)
class Processes:
    """The processes of one training, seen from one of them."""

    rank: int = 0
    n_processes: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and talks."""
        return self.rank == 0

    def check_divides(self, name: str, value: int) -> None:
        """Refuse a setting whose value cannot be shared out evenly."""
        if value % self.n_processes:
            raise SettingsError(
                f"{name} = {value} cannot be shared out among {self.n_processes} processes; "
                "use a multiple"
            )

    @torch.no_grad()
    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace the values of `tensors` by their mean over all processes, in one message."""
        if self.n_processes == 1 or not tensors:
            return
        values = torch.cat([tensor.reshape(-1) for tensor in tensors])
        dist.all_reduce(values)
        values /= self.n_processes
        parts = values.split([tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view(tensor.shape))

    def wait(self) -> None:
        """Go on when every process has come this far."""
        if self.n_processes > 1:
            dist.barrier()

    @contextmanager
    def first_goes_ahead(self) -> Iterator[None]:
        """Let the first process do what follows before the others, who then find it done."""
        if not self.is_first:
            self.wait()
        yield
        if self.is_first:
            self.wait()

    def check_equal(self, *modules: nn.Module) -> None:
        """Fail where the processes' weights have come apart, which would be a defect of ours."""
        if self.n_processes == 1:
            return
        digest = hashlib.sha256()
        for module in modules:
            for value in module.state_dict().values():
                digest.update(value.detach().cpu().contiguous().numpy().tobytes())
        found: list[str] = [""] * self.n_processes
        dist.all_gather_object(found, digest.hexdigest())
        if len(set(found)) > 1:
            raise RuntimeError(f"the weights of {self.n_processes} processes are not the same")


ALONE = Processes()


def device_of_process(wanted: str) -> str:
    """Return the CUDA device that is this process's own, where several share a machine."""
    if "LOCAL_RANK" in os.environ and wanted in ("auto", "cuda") and torch.cuda.is_available():
        return f"cuda:{os.environ['LOCAL_RANK']}"
    return wanted


@contextmanager
def joined_processes(device: torch.device) -> Iterator[Processes]:
    """Join the group that torchrun's variables describe, and leave it at the end."""
    n_processes = int(os.environ.get("WORLD_SIZE", "1"))
    if n_processes == 1:
        yield ALONE
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=TIMEOUT)
    try:
        yield Processes(dist.get_rank(), dist.get_world_size())
        # The first process serves the others' messages: it must not leave before them.
        dist.barrier()
    finally:
        dist.destroy_process_group()
