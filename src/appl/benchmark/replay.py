"""Writing the episodes of a benchmark down, and running them again: here, or on another machine.

A manifest runs on the data that it was made from and on no other. Where its episodes are those that
would be drawn, results are shared with runs that draw them; else they have a key of their own.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from appl.datasets.episodes import EpisodeDraw, draw_episode
from appl.datasets.listed_files import describe_files, refuse_other_files
from appl.datasets.locate import open_target
from appl.datasets.manifest import ListedEpisode, ListedTarget, Manifest
from appl.datasets.many_episodes import draw_episodes
from appl.datasets.packed import PackedImages, without_pixels
from appl.errors import DataError, SettingsError, TaskError
from appl.settings.benchmark import BenchSettings, ProtocolSettings

OnProgress = Callable[[str, int, int], None]


def draw(data: PackedImages, protocol: ProtocolSettings, episode: int) -> EpisodeDraw:
    """Draw an episode of all classes of a target."""
    return draw_episode(data, data.class_names, index=episode, **asdict(protocol))


def draw_many(
    data: PackedImages, protocol: ProtocolSettings, episodes: Sequence[int]
) -> EpisodeDraw:
    """Draw several of these episodes together."""
    return draw_episodes(data, data.class_names, episodes, **asdict(protocol))


def make_manifest(
    settings: BenchSettings,
    data_root: Path,
    on_progress: OnProgress = lambda _target, _done, _total: None,
) -> Manifest:
    """Draw as many episodes of every target as the longest row has; every file is read once."""
    protocol = settings.protocol
    targets = {}
    for name in settings.targets:
        listing = open_target(name, data_root)
        data = without_pixels(listing)
        episodes = tuple(_listed(draw(data, protocol, i)) for i in range(settings.most_episodes))
        digest = data.identity(with_groups=protocol.groups_apart)
        files = describe_files(listing, partial(on_progress, name))
        targets[name] = ListedTarget(digest, files, episodes)
    return Manifest(protocol, targets)


def check_settings(manifest: Manifest, settings: BenchSettings) -> None:
    """Refuse a benchmark whose episodes the manifest does not have."""
    for name, value in asdict(settings.protocol).items():
        listed = getattr(manifest.protocol, name)
        if listed != value:
            raise SettingsError(
                f"the manifest has {name} = {listed!r}, the benchmark {name} = {value!r}; "
                "change one of them"
            )
    for target in settings.targets:
        if target not in manifest.targets:
            has = ", ".join(manifest.targets)
            raise SettingsError(
                f"the manifest has no target {target!r} (it has {has}); write one that has it"
            )
        n_listed = len(manifest.targets[target].episodes)
        if settings.most_episodes > n_listed:
            raise SettingsError(
                f"the manifest has {n_listed} episodes of target {target!r}, the benchmark asks "
                f"for {settings.most_episodes}; ask for fewer or write more"
            )


def check_data(
    manifest: Manifest,
    data_root: Path,
    on_progress: OnProgress = lambda _target, _done, _total: None,
) -> dict[str, bool]:
    """Compare every file by its content; say of each target if its episodes are as drawn here.

    The first target that differs is refused.
    """
    as_drawn = {}
    for name, target in manifest.targets.items():
        listing = open_target(name, data_root)
        on_file = partial(on_progress, name)
        refuse_other_files(
            listing, target.files, f"target {name!r}", contents=True, on_file=on_file
        )
        as_drawn[name] = replay_digest(name, manifest, without_pixels(listing)) == target.digest
    return as_drawn


def replay_digest(name: str, manifest: Manifest, data: PackedImages) -> str:
    """Return what results of replayed episodes are stored under: the data, if drawn from it.

    Episodes that were written by hand, or drawn where random numbers differ, count with it.
    """
    target, protocol = manifest.targets[name], manifest.protocol
    digest = data.identity(with_groups=protocol.groups_apart)
    if digest != target.digest:
        raise DataError(
            f"target {name!r} has the files of the manifest in other groups or another order "
            f"(data digest {digest[:12]}, not {target.digest[:12]}); get the same tables and notes"
        )
    if _as_drawn(target, data, protocol):
        return digest
    text = repr([(episode.support, episode.query) for episode in target.episodes])
    return hashlib.sha256(f"{digest} episodes {text}".encode()).hexdigest()


def _as_drawn(target: ListedTarget, data: PackedImages, protocol: ProtocolSettings) -> bool:
    try:
        return all(
            _listed(draw(data, protocol, number)) == episode
            for number, episode in enumerate(target.episodes)
        )
    except TaskError:  # drawing meets a class that is too small, which the manifest need not have
        return False


def _listed(episode: EpisodeDraw) -> ListedEpisode:
    return ListedEpisode(tuple(episode.support.tolist()), tuple(episode.query.tolist()))
