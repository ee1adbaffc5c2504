"""Fetching weights, with a fake of the hub's two functions: there is no network in tests."""

import hashlib
from dataclasses import replace

import pytest
from safetensors.torch import save_file

from appl.encoders import ENCODERS, EncoderEntry, HubFile, WeightsSource
from appl.errors import WeightsError
from appl.weights import hub as module
from appl.weights import load_pretrained
from tests.conftest import make_small_encoder, small_meta

NAME = "small_on_the_hub"


class Hub:
    """What is used of `huggingface_hub`: files of a repository at one revision, and a cache."""

    def __init__(self, folder, content):
        self.folder, self.content, self.asked = folder, content, []

    def hf_hub_download(self, repository, file, *, revision):
        self.asked.append((repository, file, revision))
        if self.content is None:
            raise OSError("Cannot reach the hub\nand more lines")
        path = self.folder / file
        path.write_bytes(self.content)
        return str(path)

    def try_to_load_from_cache(self, repository, file, *, revision):
        path = self.folder / file
        return str(path) if path.exists() else None


@pytest.fixture
def hub(tmp_path, monkeypatch):
    encoder = make_small_encoder(seed=3)
    save_file({k: v.contiguous() for k, v in encoder.state_dict().items()}, tmp_path / "made")
    content = (tmp_path / "made").read_bytes()
    file = HubFile("someone/small", "f.safetensors", "abc", hashlib.sha256(content).hexdigest(), 1)
    entry = EncoderEntry(
        small_meta(name=NAME),
        lambda: make_small_encoder(name=NAME),
        convert=dict,
        published=WeightsSource(NAME, "1", "MIT", "leaves"),
        hub=file,
    )
    monkeypatch.setitem(ENCODERS._entries, NAME, entry)
    (tmp_path / "cache").mkdir()
    fake = Hub(tmp_path / "cache", content)
    monkeypatch.setattr(module, "_library", lambda: fake)
    return fake


def test_what_is_fetched_once_is_an_encoder_by_name(hub):
    with pytest.raises(WeightsError, match=f"run `appl encoders get {NAME}`, or name a file"):
        load_pretrained(NAME)
    path = module.get_weights(NAME)
    assert hub.asked == [("someone/small", "f.safetensors", "abc")]
    found = load_pretrained(NAME)
    assert len(hub.asked) == 1  # loading asks nobody
    weights = found.encoder.meta.weights
    assert (weights.name, weights.version, weights.licence) == ("someone/small", "abc", "MIT")
    assert weights.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert found.pcn.is_class_mean


def test_another_file_than_the_known_one_is_refused_by_its_digest(hub):
    hub.content = hub.content[:-1] + b"x"
    with pytest.raises(WeightsError, match=r"SHA-256 differs\); remove it"):
        module.get_weights(NAME)
    with pytest.raises(WeightsError, match="SHA-256 differs"):  # nor is it used afterwards
        load_pretrained(NAME)


def test_without_a_network_one_line_says_what_to_do(hub):
    hub.content = None
    with pytest.raises(WeightsError) as caught:
        module.get_weights(NAME)
    assert str(caught.value) == (
        f"{NAME} could not be fetched: Cannot reach the hub; fetch f.safetensors of someone/small "
        f"elsewhere and name it as {NAME}@FILE"
    )


def test_a_file_that_was_brought_along_needs_no_hub(hub, tmp_path):
    save_file(
        {k: v.contiguous() for k, v in make_small_encoder(seed=3).state_dict().items()},
        tmp_path / "own.safetensors",
    )
    found = load_pretrained(f"{NAME}@{tmp_path / 'own.safetensors'}")
    assert found.encoder.meta.weights.name == "own.safetensors"
    assert found.encoder.meta.weights.trained_on == "leaves"
    with pytest.raises(WeightsError, match="no weights file at"):
        load_pretrained(f"{NAME}@{tmp_path / 'absent.pth'}")
    assert hub.asked == []


def test_without_the_library_it_is_named(hub, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(WeightsError, match=r"pip install 'appl\[hub\]'"):
        module.get_weights("dinov2_vits14")


def test_an_encoder_that_nobody_offers_is_not_fetched(hub):
    entry = replace(ENCODERS.get(NAME), hub=None)
    ENCODERS._entries[NAME] = entry
    with pytest.raises(WeightsError, match="is not fetched from anywhere"):
        module.get_weights(NAME)
