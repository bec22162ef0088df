"""The way from the gateway to a provider: one pooled client, through the machine's own proxy where it has one."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from pytest_mlebench.llm.providers import HOST_ALIAS, Provider

CONNECT_SECONDS = 30.0
IDLE_SECONDS = 900.0
"""The longest silence of a provider; models that reason long are silent that long."""
_NOT_PASSED_BACK = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "content-encoding",
        "set-cookie",
        "alt-svc",
        "strict-transport-security",
    }
)


def session() -> aiohttp.ClientSession:
    """A pooled client. It trusts what the machine trusts: ``$SSL_CERT_FILE`` and ``$SSL_CERT_DIR`` count."""
    connector = aiohttp.TCPConnector(limit=0, ssl=ssl.create_default_context(), keepalive_timeout=60)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=IDLE_SECONDS)
    return aiohttp.ClientSession(
        connector=connector,
        timeout=timeout,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("User-Agent", "Content-Type", "Accept"),
        max_line_size=1 << 16,
        max_field_size=1 << 16,
    )


def url_of(provider: Provider, path: str, query: Mapping[str, str]) -> URL:
    """Where a path of a provider is."""
    base = URL(provider.base_url)
    if base.host == HOST_ALIAS:
        base = base.with_host("127.0.0.1")
    return URL(f"{base}".rstrip("/") + path, encoded=True).with_query({**query, **provider.query} or None)


def proxy_of(url: URL) -> tuple[URL | None, dict[str, str]]:
    """This machine's own proxy for a URL, by ``$HTTPS_PROXY`` and ``$NO_PROXY``, and the headers that log in to it."""
    host = url.host or ""
    found = getproxies().get(url.scheme)
    if not found or host == "localhost" or host == "::1" or host.startswith("127.") or proxy_bypass(host):
        return None, {}
    proxy = URL(found if "://" in found else f"http://{found}")
    if not proxy.user:
        return proxy, {}
    login = base64.b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()
    return proxy.with_user(None), {"Proxy-Authorization": f"Basic {login}"}


def headers_there(headers: Mapping[str, str], provider: Provider, key: str, key_header: str) -> dict[str, str]:
    """What is sent to the provider: the client's headers that may pass (see ``allowed``), and the provider's key."""
    name = (provider.key_header or key_header).lower()
    kept = {header: value for header, value in headers.items() if header.lower() != name}
    if key:
        kept[name] = f"Bearer {key}" if name == "authorization" else key
    return {**kept, **provider.headers, "Accept-Encoding": "identity"}


def headers_back(headers: Mapping[str, str]) -> dict[str, str]:
    """What the client gets of a provider's headers."""
    named = _connection_options(headers)
    return {
        name: value
        for name, value in headers.items()
        if name.lower() not in _NOT_PASSED_BACK and name.lower() not in named
    }


def _connection_options(headers: Mapping[str, str]) -> set[str]:
    return {name.strip().lower() for name in headers.get("Connection", "").split(",")}
