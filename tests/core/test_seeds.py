import subprocess
import sys

import torch

from appl.core.seeds import generator_for, seed_of


def test_a_seed_depends_on_every_part_and_their_borders():
    seeds = {
        seed_of("a", 1),
        seed_of("a", 2),
        seed_of("b", 1),
        seed_of("a1"),
        seed_of("a", "1", ""),
    }
    assert len(seeds) == 5


def test_a_generator_is_the_same_in_another_process():
    here = torch.randperm(20, generator=generator_for("x", 3)).tolist()
    code = (
        "import torch; from appl.core.seeds import generator_for;"
        "print(torch.randperm(20, generator=generator_for('x', 3)).tolist())"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == str(here)
