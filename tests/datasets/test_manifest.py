import gzip
import json
from dataclasses import replace

import pytest

from appl.datasets.listed_files import ListedFile
from appl.datasets.manifest import (
    ListedEpisode,
    ListedTarget,
    Manifest,
    read_manifest,
    write_manifest,
)
from appl.errors import DataError, SettingsError
from appl.settings.benchmark import ProtocolSettings

FILES = {
    name: tuple(ListedFile(f"{name}/{i}.png", 10 * i, f"{name}{i}") for i in range(3))
    for name in ("Äpfel", "b")
}
PROTOCOL = ProtocolSettings(n_way=2, n_shot=1, n_query=1, seed=3)
EPISODES = (ListedEpisode((0, 4), (5, 2)), ListedEpisode((3, 1), (0, 4)))
MANIFEST = Manifest(PROTOCOL, {"t": ListedTarget("d" * 64, FILES, EPISODES)})


@pytest.mark.parametrize("name", ["e.json", "e.json.gz"])
def test_a_manifest_comes_back_as_it_was_in_the_same_bytes(tmp_path, name):
    write_manifest(MANIFEST, tmp_path / name)
    assert read_manifest(tmp_path / name) == MANIFEST
    write_manifest(read_manifest(tmp_path / name), tmp_path / "again" / name)
    assert (tmp_path / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_a_compressed_manifest_is_known_by_its_content(tmp_path):
    write_manifest(MANIFEST, tmp_path / "e.json.gz")
    (tmp_path / "e.json.gz").rename(tmp_path / "e.json")
    assert read_manifest(tmp_path / "e.json") == MANIFEST


def test_options_of_the_protocol_come_back(tmp_path):
    protocol = replace(PROTOCOL, n_ood=1, n_query=1, groups_apart=True, dirichlet=0.5)
    episode = ListedEpisode((0, 4), (5, 2, 3))
    manifest = Manifest(protocol, {"t": ListedTarget("d", FILES, (episode,))})
    write_manifest(manifest, tmp_path / "e.json")
    assert read_manifest(tmp_path / "e.json") == manifest


@pytest.mark.parametrize(
    ("episode", "words"),
    [
        ([[0, 4], [5, 0]], "target 't': episode 0 has an image twice"),
        ([[0, 4], [5, 6]], "episode 0 has an image that is not in its files"),
        ([[0, 4], [5, -1]], "episode 0 has an image that is not in its files"),
        ([[0, 4], [5, "2"]], "episode 0 has an image that is not in its files"),
        ([[0, 4], [5]], "has 2 supports and 1 queries; its protocol has 2 and 2"),
    ],
)
def test_an_impossible_episode_is_refused(tmp_path, episode, words):
    write_manifest(MANIFEST, tmp_path / "e.json")
    values = json.loads((tmp_path / "e.json").read_text())
    values["targets"]["t"]["episodes"][0] = episode
    (tmp_path / "e.json").write_text(json.dumps(values))
    with pytest.raises(DataError, match=words):
        read_manifest(tmp_path / "e.json")


def test_what_is_no_manifest_is_named(tmp_path):
    path = tmp_path / "e.json"
    with pytest.raises(DataError, match=r"no manifest at .*e\.json"):
        read_manifest(path)
    write_manifest(MANIFEST, path)
    text = path.read_bytes()
    for damaged in (
        b"",
        b"[]",
        b"\xff",
        text[:-20],
        gzip.compress(text)[:-20],
        b"{}",
        b"\x1f\x8b9",
    ):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="is no manifest of episodes") as found:
            read_manifest(path)
        assert "\n" not in str(found.value)
    path.write_bytes(text.replace(b'"format":1', b'"format":2'))
    with pytest.raises(DataError, match="has format 2, this appl reads 1; update appl"):
        read_manifest(path)
    path.write_bytes(text.replace(b'"n_way"', b'"n_ways"'))
    with pytest.raises(SettingsError, match="unknown key 'n_ways'"):
        read_manifest(path)
