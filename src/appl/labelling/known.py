"""What is known of the classes at a moment: examples that were given, and what a person said."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from appl.errors import DataError
from appl.labelling.fitting import draw_pool
from appl.labelling.inputs import Inputs
from appl.settings.labelling import LabelSettings


@dataclass(frozen=True)
class Known:
    """The examples of a task, given ones first, and the images of the pile that it may use."""

    class_names: tuple[str, ...]
    examples: list[int]  # that were given, index into the support
    taught: list[int]  # images of the pile
    class_ids: Tensor  # of both
    names: tuple[str, ...]  # of both
    pool: Tensor  # index into the pile

    @classmethod
    def of(
        cls,
        inputs: Inputs,
        settings: LabelSettings,
        known: Mapping[int, str],
        examples: list[int],
        readable: list[int],
    ) -> "Known":
        """Put together what can be read of examples and pile."""
        is_readable = set(readable)
        taught = [i for i, name in known.items() if name and i in is_readable]
        added = dict.fromkeys(known[i] for i in taught)
        class_names = tuple(dict.fromkeys((*inputs.class_names, *added)))
        if len(class_names) < 2:
            raise DataError(
                "a choice needs examples of at least two classes; so far there "
                + (f"is {class_names[0]!r} only" if class_names else "is none")
            )
        ids = {name: i for i, name in enumerate(class_names)}
        left = torch.tensor([i for i in readable if i not in known], dtype=torch.int64)
        left = left if len(left) else torch.tensor(readable, dtype=torch.int64)
        class_ids = [inputs.class_ids[i] for i in examples] + [ids[known[i]] for i in taught]
        names = [inputs.name(inputs.support[i]) for i in examples]
        names += [inputs.name(inputs.pile[i]) for i in taught]
        return cls(
            class_names,
            examples,
            taught,
            torch.tensor(class_ids),
            tuple(names),
            left[draw_pool(len(left), settings)],
        )
