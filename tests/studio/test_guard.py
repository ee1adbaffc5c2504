"""Requests that are not our page's: refused, and nothing is written."""

import random
import re

import pytest
from starlette.testclient import TestClient

from appl.studio.app import make_app, static_files
from appl.studio.guard import MOST_BYTES
from appl.studio.seats import MOST_PAGES

HOST = "127.0.0.1:8000"
GOOD = {"images": [1], "how": "none"}


@pytest.fixture
def client(desk):
    app = make_app(desk, hosts={HOST})
    return TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=False)


@pytest.fixture
def token(client):
    return token_of(client)


def token_of(client):
    return re.search(r'appl-token" content="([^"]+)"', client.get("/").text)[1]


def say(client, token, body=None, **headers):
    sent = {"x-appl-token": token, **headers}
    return client.post("/api/correct", json=GOOD if body is None else body, headers=sent)


def test_a_page_of_ours_may_write_and_what_it_says_is_on_disk(client, token, desk):
    answer = say(client, token, {"images": [1, 3], "how": "class", "class": "new one"})
    assert answer.status_code == 200 and answer.json()["said"] == {"1": 3, "3": 3}
    log = (desk.folder / "corrections.csv").read_text()
    assert log.count("new one") == 2 and "Ada" in log
    assert client.post("/api/undo", json={}, headers={"x-appl-token": token}).json()["said"] == {}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example:8000"}, 421),
        ({"host": "127.0.0.1:9"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"x-appl-token": "x"}, 403),
        ({"x-appl-token": "é".encode("latin-1")}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-length": str(MOST_BYTES + 1)}, 413),
    ],
)
def test_what_comes_from_elsewhere_is_refused(client, token, desk, headers, status):
    assert say(client, token, **headers).status_code == status
    assert not (desk.folder / "corrections.csv").exists()


def test_reading_needs_the_right_host_too(client):
    for path in ("/", "/api/pile", "/pictures/pile/0/small", "/static/main.js"):
        assert client.get(path).status_code == 200
        assert client.get(path, headers={"host": "rebound.example"}).status_code == 421


def test_a_body_without_length_or_longer_than_it_says_is_refused(client, token, desk):
    def parts():
        for _ in range(5):
            yield b" " * (MOST_BYTES // 2)

    headers = {"x-appl-token": token, "content-type": "application/json"}
    assert client.post("/api/correct", content=parts(), headers=headers).status_code == 411
    lying = client.post("/api/correct", content=parts(), headers=headers | {"content-length": "9"})
    assert lying.status_code == 400
    assert not (desk.folder / "corrections.csv").exists()


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/static/studio.html.j2",
        "/pictures/pile/../../run.json",
        "/pictures/pile/-1/small",
        "/pictures/pile/99/small",
        "/pictures/pile/99/large",
        "/pictures/etc/1/small",
        "/pictures/pile/1/huge",
        "/pictures/pile/..%2f1/small",
        "/run.json",
        "//etc/passwd",
    ],
)
def test_nothing_but_numbers_leads_to_a_file(client, path):
    assert client.get(path).status_code == 404


def test_every_answer_forbids_scripts_of_others_frames_and_guessing(client):
    for path in ("/", "/nothing", "/api/pile", "/static/main.js", "/pictures/pile/0/small"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "script-src 'self';" in policy and "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy and headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
    page = client.get("/").text
    assert page.count("<script") == 1 and " style=" not in page and " onclick" not in page


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"images": []},
        {"images": [True], "how": "none"},
        {"images": ["1"], "how": "none"},
        {"images": [1.5], "how": "none"},
        {"images": [10**30], "how": "none"},
        {"images": [-1], "how": "none"},
        {"images": [1], "how": "class"},
        {"images": [1], "how": "class", "class": ["x"]},
        {"images": [1], "how": "class", "class": "a\nb"},
        {"images": [1], "how": "class", "class": "x" * 101},
        {"images": [1], "how": "format the disk"},
        {"images": [1, 99], "how": "none"},
    ],
)
def test_what_makes_no_sense_is_refused_whole(client, token, desk, body):
    assert say(client, token, body).status_code == 400
    assert not (desk.folder / "corrections.csv").exists()


def test_a_thousand_requests_in_bad_order_write_nothing(client, token, desk):
    draw = random.Random(0)
    paths = (
        "/api/correct",
        "/api/undo",
        "/api/redo",
        "/api/work/teach",
        "/api/pen",
        "/",
        "/events",
    )
    contents = (b"{", b"[" * 5000, b"\xff\xfe", b"null", b'{"images":', b"{}" * 9, b'"x"')
    headers = {"content-type": "application/json"}
    for _ in range(1000):
        extra = {"x-appl-token": token} if draw.random() < 0.5 else {"x-appl-token": "no"}
        method = draw.choice(("POST", "PUT", "DELETE", "PATCH", "OPTIONS"))
        answer = client.request(
            method, draw.choice(paths), content=draw.choice(contents), headers=headers | extra
        )
        assert 400 <= answer.status_code < 500 or (answer.json() == {} and method == "POST")
    assert not (desk.folder / "corrections.csv").exists() and desk.jobs.now is None


def test_one_page_at_a_time_has_the_pen(client, desk):
    first, second = token_of(client), token_of(client)
    assert say(client, first).status_code == 200
    refused = say(client, second, {"images": [2], "how": "none"})
    assert refused.status_code == 409 and "another tab" in refused.json()["error"]
    client.post("/api/pen", json={}, headers={"x-appl-token": second})
    assert say(client, second).status_code == 200 and say(client, first).status_code == 409


def test_pages_that_listen_are_not_forgotten_however_many_are_asked_for(client):
    seats = client.app.state.seats
    first, silent = seats.hand_out(), seats.hand_out()
    seats.open_stream(first.id)
    for _ in range(MOST_PAGES + 5):
        client.get("/")
    assert seats.by_token(first.token) is first and seats.by_token(silent.token) is None


def test_over_a_network_nobody_gets_in_without_the_key(desk):
    with pytest.raises(ValueError, match="behind a key"):
        TestClient(make_app(desk, hosts=None)).get("/")
    app = make_app(desk, hosts={HOST}, key="secret")
    client = TestClient(app, base_url=f"http://{HOST}", follow_redirects=False)
    for path in ("/", "/?key=wrong", "/api/pile", "/pictures/pile/0/small", "/events?page=x"):
        assert client.get(path).status_code == 403
    opened = client.get("/?key=secret")
    assert opened.status_code == 303 and "HttpOnly" in opened.headers["set-cookie"]
    assert "samesite=strict" in opened.headers["set-cookie"].lower()
    assert client.get("/").status_code == 200 and client.get("/api/pile").status_code == 200


def test_the_package_holds_every_file_that_the_page_asks_for():
    files = static_files()
    asked = {"theme.css", "studio.css", "icon.svg", "main.js"}
    for name, content in files.items():
        if name.endswith(".js"):
            asked |= set(re.findall(r'from "\./([\w.]+)"', content.decode()))
            assert "http://" not in content.decode() and "https://" not in content.decode()
    assert asked <= files.keys()
