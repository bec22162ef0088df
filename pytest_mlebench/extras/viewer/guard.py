"""Guards every page: who may request it, which requests are allowed, and what a browser may do with the response."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "mlebench-view"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Addresses that are reachable only from this machine."""
NONCE = "mlebench.nonce"
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")


def policy(nonce: str) -> str:
    """Return a page's Content-Security-Policy: only our scripts run, and nothing is loaded from or sent elsewhere."""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; style-src-attr 'unsafe-inline'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
FILE_POLICY = "sandbox; default-src 'none'"
"""Policy for an agent's file: whatever type a browser detects, the file can do nothing."""


class Guard:
    """Passes on requests that use one of this server's own names, only read, and present the token if there is one.

    Another site can make a browser send requests here: with a name that it resolves to this server (DNS rebinding),
    which Host reveals, or across sites, which Sec-Fetch-Site reveals. The token is first in the URL, then in a cookie.
    """

    def __init__(self, app: ASGIApp, *, address: str, token: str | None) -> None:
        self._app, self._token = app, token
        self._local_only = address in LOOPBACK
        self._names = {*LOOPBACK} if self._local_only else {*LOOPBACK, address, *_own_names()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"{scope['type']} is not supported")
        headers = Headers(scope=scope)
        nonce = scope[NONCE] = secrets.token_urlsafe(16)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(scope=message)
                found.setdefault("Content-Security-Policy", policy(nonce))
                found.setdefault("Cache-Control", "no-store")
                found.update(_HEADERS)
            await send(message)

        answer: ASGIApp = self._app
        if not self._is_ours(headers.getlist("host")):
            answer = _refusal(421, "unknown host name for this server; use the address that it printed")
        elif scope["method"] not in ("GET", "HEAD"):
            answer = PlainTextResponse("this server is read-only\n", 405, {"Allow": "GET, HEAD"})
        elif headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            answer = _refusal(403, "requests from other sites are not allowed")
        elif self._token is not None:
            answer = self._with_token(Request(scope), self._token)
        await answer(scope, receive, send_guarded)

    def _is_ours(self, hosts: list[str]) -> bool:
        if len(hosts) != 1 or (match := _HOST.fullmatch(hosts[0])) is None:
            return False
        name = match[1].strip("[]").lower().rstrip(".")
        if name in self._names:
            return True
        if self._local_only:
            return False
        try:  # an IP address cannot be rebound
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _with_token(self, request: Request, token: str) -> ASGIApp:
        given = request.query_params.get("token")
        if given is not None:
            if not _same(given, token):
                return _refusal(403, "invalid token for this server; use the address that it printed")
            rest = [pair for pair in parse_qsl(request.url.query, keep_blank_values=True) if pair[0] != "token"]
            path = "/" + request.url.path.lstrip("/")  # "//elsewhere" would name another server
            answer = RedirectResponse(path + (f"?{urlencode(rest)}" if rest else ""), 303)
            answer.set_cookie(COOKIE, token, httponly=True, samesite="strict")
            return answer
        try:
            cookie = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        if cookie is None or not _same(cookie.value, token):
            return _refusal(403, "this server requires a token: open the address that it printed, with ?token=…")
        return self._app


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())


def _refusal(status: int, text: str) -> PlainTextResponse:
    return PlainTextResponse(f"mlebench view: {text}\n", status)


def _own_names() -> set[str]:
    name = socket.gethostname().lower()
    return {name, name.partition(".")[0], f"{name.partition('.')[0]}.local"} - {""}
