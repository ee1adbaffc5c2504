"""What comes before every request: whose it is, from where, and how large it may be.

- `Host` must be ours: a name that somebody points at this machine (DNS rebinding) is refused.
- What changes something must come from a page of ours: its origin, and the token of the page.
- Over a network the key of the address is asked for once, and kept in a cookie.
- Every answer forbids scripts and styles of others, frames, and guessing of types.
"""

import hmac
from collections.abc import Awaitable, Callable, Collection
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from appl.studio.seats import Seats

MOST_BYTES = 2_000_000  # of a request: the numbers of 200,000 images
COOKIE = "appl_studio"
TOKEN = "x-appl-token"
SAFE = ("GET", "HEAD")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}

Refusal = tuple[int, str]


class Guard:
    """Lets a request through to the page, or says why not."""

    def __init__(
        self, app: ASGIApp, *, seats: Seats, hosts: Collection[str] | None, key: str = ""
    ) -> None:
        """Guard `app`; `hosts` are the names it goes by (None: any, behind a key)."""
        if hosts is None and not key:
            raise ValueError("any host is allowed behind a key only")
        self._app, self._seats, self._hosts, self._key = app, seats, hosts, key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    found[name] = value
                found.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(scope, headers)
        if refusal is not None:
            status, words = refusal
            await JSONResponse({"error": words}, status)(scope, receive, send_with_headers)
            return
        if self._key and self._gives_key(scope):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(COOKIE, self._key, httponly=True, samesite="strict")
            await answer(scope, receive, send_with_headers)
            return
        if self._key and not self._has_key(headers):
            words = "give the whole address that appl studio printed, with its key"
            await JSONResponse({"error": words}, 403)(scope, receive, send_with_headers)
            return
        await self._app(scope, _bounded(receive), send_with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or (
            self._hosts is not None and host.lower() not in self._hosts
        ):
            return 421, "this address is not the one that appl studio printed"
        if scope["method"] in SAFE:
            return None
        if scope["method"] != "POST":
            return 405, "only GET and POST are understood"
        if headers.get("origin", f"http://{host}").lower() != f"http://{host}".lower():
            return 403, "the request comes from another site"
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return 403, "the request comes from another site"
        if headers.get("content-type", "").partition(";")[0] != "application/json":
            return 415, "only JSON is understood"
        if self._seats.by_token(headers.get(TOKEN, "")) is None:
            return 403, "the page is not of this process; load it again"
        length = headers.get("content-length", "")
        if not length.isdecimal() or len(length) > 12:
            return 411, "the length of the request is missing"
        if int(length) > MOST_BYTES:
            return 413, "the request is too large"
        return None

    def _gives_key(self, scope: Scope) -> bool:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("key", [""])[0]
        return scope["path"] == "/" and hmac.compare_digest(given.encode(), self._key.encode())

    def _has_key(self, headers: Headers) -> bool:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self._key.encode())


def _bounded(receive: Receive) -> Callable[[], Awaitable[Message]]:
    """Stop listening to a request that is longer than it said."""
    n_bytes = 0

    async def bounded() -> Message:
        nonlocal n_bytes
        message = await receive()
        n_bytes += len(message.get("body", b""))
        if n_bytes > MOST_BYTES:
            return {"type": "http.disconnect"}
        return message

    return bounded
