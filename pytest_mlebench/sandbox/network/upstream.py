"""The proxy through which this machine itself reaches the world, where a company has one (``$HTTPS_PROXY``)."""

from __future__ import annotations

import asyncio
import base64
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass


def upstream_proxy(scheme: str, host: str) -> SplitResult | None:
    """The URL of the proxy for a host, from the variables that all programs go by; None where the way is direct.

    ``scheme``: what is spoken with the host, ``http`` or ``https``.
    """
    url = getproxies().get(scheme)
    if not url or host.lower() in ("localhost", "::1") or host.startswith("127.") or proxy_bypass(host):
        return None
    return urlsplit(url if "://" in url else f"http://{url}")


async def tunnel(
    proxy: SplitResult, host: str, port: int, *, limit: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to a host through a proxy, which looks the name up; raises OSError with its answer."""
    name = f"the proxy {proxy.hostname}"
    if proxy.scheme not in ("http", "https"):
        raise OSError(f"{name} speaks {proxy.scheme}, must be an HTTP proxy")
    secure = proxy.scheme == "https"
    try:
        proxy_port = proxy.port or (443 if secure else 80)
    except ValueError as error:
        raise OSError(f"{name} has a wrong port: {error}") from error
    reader, writer = await asyncio.open_connection(proxy.hostname, proxy_port, ssl=secure, limit=limit)
    try:
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"
        if proxy.username:
            login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
            head += f"Proxy-Authorization: Basic {base64.b64encode(login.encode()).decode()}\r\n"
        writer.write(f"{head}\r\n".encode())
        await writer.drain()
        status = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].decode("latin-1")
        if status.split()[1:2] != ["200"]:
            raise OSError(f"{name} answered {status[:100]}")
    except BaseException:
        writer.close()
        raise
    return reader, writer
