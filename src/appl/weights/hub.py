"""Weights that can be fetched from the Hugging Face hub: by a pinned revision, checked by digest.

`appl encoders get` is the only place that goes to the network (an extra: `pip install
'appl[hub]'`). The file lies in the hub's own cache (`HF_HOME`), shared with other programs.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from appl.encoders import ENCODERS, Encoder, HubFile, WeightsSource, bring, file_digest
from appl.errors import WeightsError


def get_weights(name: str) -> Path:
    """Fetch the file of an encoder, or find it in the cache; its digest is checked."""
    file = _hub_file(name)
    try:
        path = Path(_library().hf_hub_download(file.repository, file.file, revision=file.revision))
    except OSError as error:  # no network, no space, not found: all of the library's errors
        reason = str(error).strip().splitlines()[0]
        raise WeightsError(
            f"{name} could not be fetched: {reason}; fetch {file.file} of {file.repository} "
            f"elsewhere and name it as {name}@FILE"
        ) from error
    _check(name, file, path)
    return path


def cached_weights(name: str) -> Path | None:
    """Return the file of an encoder where it has been fetched; nothing is fetched."""
    file = _hub_file(name)
    try:
        library = _library()
    except WeightsError:
        return None
    found = library.try_to_load_from_cache(file.repository, file.file, revision=file.revision)
    return Path(found) if isinstance(found, str) else None


def fetched_encoder(name: str) -> Encoder:
    """Build an encoder with the weights that were fetched for it."""
    path = cached_weights(name)
    if path is None:
        raise WeightsError(
            f"the weights of {name} are not on this machine; run `appl encoders get {name}`, or "
            f"name a file that you have as {name}@FILE"
        )
    file = _hub_file(name)
    _check(name, file, path)
    encoder = bring(name, path)
    published = ENCODERS.get(name).published
    assert published is not None
    source = WeightsSource(
        file.repository, file.revision, published.licence, published.trained_on, file.sha256
    )
    encoder.meta = replace(encoder.meta, weights=source)
    return encoder


def _hub_file(name: str) -> HubFile:
    file = ENCODERS.get(name).hub
    if file is None:
        raise WeightsError(f"{name} is not fetched from anywhere; `appl encoders` says what it is")
    return file


def _library() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise WeightsError("fetching weights needs: pip install 'appl[hub]'") from error
    return huggingface_hub


def _check(name: str, file: HubFile, path: Path) -> None:
    if file_digest(path) != file.sha256:
        raise WeightsError(
            f"{path} is not the file of {name} that we know (SHA-256 differs); remove it and run "
            f"`appl encoders get {name}`"
        )
