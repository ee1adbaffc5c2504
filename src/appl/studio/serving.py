"""Serving the page to one person: on this machine only, unless a host is named."""

import contextlib
import secrets
import socket
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from appl.errors import ApplError
from appl.studio.app import make_app
from appl.studio.desk import Desk

LOOPBACK = "127.0.0.1"
EVERYWHERE = ("0.0.0.0", "::")


def serve(
    desk: Desk,
    *,
    host: str = "",
    port: int = 0,
    opens_browser: bool = True,
    on_address: Callable[[str], None] = lambda _address: None,
) -> None:
    """Serve until Ctrl-C; then what was said is in the labels, and the run is free.

    With a host that is not this machine alone, the address holds a key, and nobody gets in without.
    """
    key = secrets.token_urlsafe(24) if host else ""
    with listening(host or LOOPBACK, port) as listener:
        port = listener.getsockname()[1]
        name = host or LOOPBACK
        if host in EVERYWHERE:
            name = socket.gethostname()
        shown = f"[{name}]" if ":" in name else name
        address = f"http://{shown}:{port}/" + (f"?key={key}" if key else "")
        app = make_app(desk, hosts=_hosts(name, port, host), key=key)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, timeout_graceful_shutdown=1, lifespan="off"
        )
        server = uvicorn.Server(config)
        desk.begin()
        on_address(address)
        if opens_browser:
            webbrowser.open(address)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                server.run(sockets=[listener])
        finally:
            desk.close()


def _hosts(name: str, port: int, host: str) -> set[str] | None:
    """Return the values of `Host` that are ours; None, behind a key, where any may be."""
    if host in EVERYWHERE:
        return None
    names = {name, "localhost", LOOPBACK, "[::1]"} if not host else {name, f"[{name}]"}
    found = {f"{one}:{port}".lower() for one in names}
    return found | ({one.lower() for one in names} if port == 80 else set())


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Give a socket that listens; port 0: a free one."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        reason = error.strerror or error
        raise ApplError(f"{host}, port {port}: {reason}; choose another --port") from error
    try:
        yield listener
    finally:
        listener.close()
