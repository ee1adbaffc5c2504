"""Weights by name: what ships inside the package, an encoder that brings its own, or a file."""

import hashlib
from importlib import resources
from pathlib import Path

from appl.encoders import ENCODERS
from appl.errors import UnknownNameError
from appl.method.pcn import PCN
from appl.training.weights import Pretrained, load_weights

SHIPPED = {"resnet10": "resnet10-miniimagenet.safetensors"}


def load_pretrained(name: str = "resnet10") -> Pretrained:
    """Return encoder and PCN with their preprocessing and provenance.

    `name` is `resnet10` (ours, trained on miniImageNet), an encoder that brings its own weights
    (its PCN then starts as the class mean), or the path of a `.safetensors` file.
    """
    if name in SHIPPED:
        with resources.as_file(resources.files("appl.weights").joinpath(SHIPPED[name])) as path:
            return load_weights(path)
    if name.endswith(".safetensors"):
        return load_weights(Path(name))
    encoder = ENCODERS.get(name)().eval()
    if encoder.meta.weights is None:
        raise UnknownNameError(f"{name} has no weights of its own; give a .safetensors file")
    return Pretrained(encoder, PCN(encoder.meta.width).eval(), {})


def weights_digest(pretrained: Pretrained) -> str:
    """Identify encoder, PCN and head by their values."""
    digest = hashlib.sha256()
    for module in pretrained.modules:
        for name, value in sorted(module.state_dict().items()):
            digest.update(name.encode())
            digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
