from dataclasses import fields

import pytest
import torch

from appl.core.methods import METHODS, FeatureMethod
from appl.rivals._feature_wise import FeatureWise
from tests.conftest import make_episode
from tests.rivals.test_every_episodic import prepare
from tests.rivals.test_every_method import blobs

HOSTS = ["gnn", "matching", "prototypical", "relation", "tpn"]


def test_there_are_five_rows() -> None:
    rows = [name for name in METHODS.names() if name.endswith("_fwt")]
    assert rows == [f"{host}_fwt" for host in HOSTS]
    noisy = [
        name
        for name in METHODS.names()
        if isinstance(getattr(METHODS.get(name), "task_augmentation", None), FeatureWise)
    ]
    assert noisy == rows


@pytest.mark.parametrize("host", HOSTS)
def test_a_row_has_its_hosts_settings_and_tag(host: str) -> None:
    plain, noisy = METHODS.get(host), METHODS.get(f"{host}_fwt")
    assert noisy.card.title == f"{plain.card.title} + FWT"
    assert noisy.card.takes == plain.card.takes and noisy.card.needs == plain.card.needs
    assert noisy.card.is_meta_trained
    assert [f.name for f in fields(noisy)] == [f.name for f in fields(plain)]
    assert isinstance(noisy(), FeatureMethod) == isinstance(plain(), FeatureMethod)


def test_a_tag_that_follows_a_setting_does_so_here() -> None:
    assert METHODS.get("relation_fwt")(batch_norm="running").takes == "none"
    assert METHODS.get("gnn_fwt")(grouping="random").takes == "transductive"


@pytest.mark.parametrize("host", HOSTS)
@torch.no_grad()
def test_the_answers_are_the_hosts(host: str) -> None:
    if host == "prototypical":
        support, class_ids, query, _ = blobs()
        answers = [
            METHODS.get(name)().scores(support, class_ids, query) for name in (host, f"{host}_fwt")
        ]
    else:
        task, answers = make_episode().task, []
        for name in (host, f"{host}_fwt"):
            method, encoder, head = prepare(name, {})
            answers.append(method.answer(encoder, head, task))
    assert torch.equal(*answers)
