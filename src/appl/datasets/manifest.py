"""Episodes as a file: which images each is made of, and what these images are.

It is small, has the same bytes for the same episodes, and tells whether other data is the same. An
episode is two lists of numbers of files; the class of a file is the class of its image.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch

from appl.core.files import write_atomically
from appl.datasets.episodes import EpisodeDraw
from appl.datasets.listed_files import ListedFile, ListedFiles
from appl.datasets.packed import PackedImages
from appl.errors import ApplError, DataError
from appl.settings.benchmark import ProtocolSettings
from appl.settings.files import structure_settings

FORMAT = 1
GZIP = b"\x1f\x8b"  # the first bytes of every such file


@dataclass(frozen=True)
class ListedEpisode:
    """The images of an episode, as numbers of files in the order of the data set."""

    support: tuple[int, ...]
    query: tuple[int, ...]

    def draw(self, data: PackedImages) -> EpisodeDraw:
        """Return the episode on the data that it was listed from."""
        return EpisodeDraw.of(data, torch.tensor(self.support), torch.tensor(self.query))


@dataclass(frozen=True)
class ListedTarget:
    """A data set and its episodes; the digest is the one that results are stored under."""

    digest: str
    files: ListedFiles
    episodes: tuple[ListedEpisode, ...]

    @property
    def n_images(self) -> int:
        """The number of image files."""
        return sum(len(members) for members in self.files.values())


@dataclass(frozen=True)
class Manifest:
    """Episodes of some targets under one protocol."""

    protocol: ProtocolSettings
    targets: Mapping[str, ListedTarget]

    def only(self, names: Iterable[str]) -> Self:
        """Return the manifest of some of its targets."""
        return replace(self, targets={name: self.targets[name] for name in names})


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write JSON, compressed where the name ends in .gz; the time is not part of it."""
    targets = {
        name: {
            "digest": target.digest,
            "files": {
                class_name: [[file.name, file.size, file.digest] for file in members]
                for class_name, members in target.files.items()
            },
            "episodes": [[episode.support, episode.query] for episode in target.episodes],
        }
        for name, target in manifest.targets.items()
    }
    values = {"format": FORMAT, "protocol": manifest.protocol.identity(), "targets": targets}
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False) + "\n"
    data = text.encode()
    write_atomically(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def read_manifest(path: Path) -> Manifest:
    """Read a manifest; what is none, or is damaged, is named."""
    try:
        data = path.read_bytes()
        values = json.loads(gzip.decompress(data) if data.startswith(GZIP) else data)
        if values["format"] != FORMAT:
            raise DataError(
                f"{path} has format {values['format']!r}, this appl reads {FORMAT}; update appl, "
                "or write it again with 'appl episodes'"
            )
        protocol = structure_settings(ProtocolSettings, values["protocol"], f"{path} [protocol]")
        targets = {name: _target(target) for name, target in values["targets"].items()}
    except FileNotFoundError as error:
        raise DataError(f"no manifest at {path}; 'appl episodes' writes one") from error
    except ApplError:
        raise
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        EOFError,
        OSError,
        zlib.error,
    ) as error:
        raise DataError(
            f"{path} is no manifest of episodes ({error!r}); write one with 'appl episodes'"
        ) from error
    for name, target in targets.items():
        _check_episodes(target, protocol, f"{path}: target {name!r}")
    return Manifest(protocol, targets)


def _target(values: dict[str, Any]) -> ListedTarget:
    files = {
        class_name: tuple(ListedFile(*file) for file in members)
        for class_name, members in values["files"].items()
    }
    episodes = (ListedEpisode(tuple(s), tuple(q)) for s, q in values["episodes"])
    return ListedTarget(values["digest"], files, tuple(episodes))


def _check_episodes(target: ListedTarget, protocol: ProtocolSettings, where: str) -> None:
    """Refuse what no episode of the protocol can be, whoever wrote it."""
    numbers = range(target.n_images)
    n_support = protocol.n_way * protocol.n_shot
    n_query = protocol.n_way * protocol.n_query + protocol.n_ood
    for number, episode in enumerate(target.episodes):
        images = episode.support + episode.query
        if (len(episode.support), len(episode.query)) != (n_support, n_query):
            raise DataError(
                f"{where}: episode {number} has {len(episode.support)} supports and "
                f"{len(episode.query)} queries; its protocol has {n_support} and {n_query}"
            )
        if any(type(image) is not int or image not in numbers for image in images):
            raise DataError(f"{where}: episode {number} has an image that is not in its files")
        if len(set(images)) < len(images):
            raise DataError(f"{where}: episode {number} has an image twice")
