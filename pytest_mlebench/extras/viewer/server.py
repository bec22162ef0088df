"""Serves the application, on this machine alone or, with a token, on other addresses."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn

from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import DataError, UsageError, reason
from pytest_mlebench.extras.viewer.app import application
from pytest_mlebench.extras.viewer.guard import LOOPBACK
from pytest_mlebench.extras.viewer.index import RunIndex
from pytest_mlebench.records.record import MANIFEST

REFRESH = 300.0
"""Seconds between two checks of every run of every group. Runs in progress are checked when they are shown."""


def serve(runs_dir: Path, *, data_dir: Path | None, address: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the run groups below ``runs_dir``, or one of them, until interrupted.

    ``data_dir`` has the competitions' data, by default in the default folder. ``ready`` is called with the URL as soon
    as the server accepts connections. If other machines can reach the address, clients must present the token in that
    URL. Raises UsageError.
    """
    if not runs_dir.is_dir():
        raise UsageError(f"{runs_dir} is not a folder: name the one that contains run groups")
    runs_dir = runs_dir.resolve()
    only = runs_dir.name if (runs_dir / MANIFEST).is_file() else None
    listening = _listening(address, port)
    token = None if address in LOOPBACK else secrets.token_urlsafe(24)
    index = RunIndex(runs_dir if only is None else runs_dir.parent, only)
    stop = threading.Event()

    def keep_current() -> None:
        while not stop.is_set():
            with suppress(OSError):
                index.refresh(thorough=True)
            stop.wait(REFRESH)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        ready(_url(address, listening.getsockname()[1], token))
        yield

    app = application(index, address=address, token=token, lifespan=lifespan, store=_store(data_dir))
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        lifespan="on",
        proxy_headers=False,
    )
    thread = threading.Thread(target=keep_current, name="mlebench-view-index", daemon=True)
    thread.start()
    try:
        with suppress(KeyboardInterrupt):  # stops the server
            uvicorn.Server(config).run(sockets=[listening])
    finally:
        stop.set()
        listening.close()
        thread.join(5)
        if not thread.is_alive():
            index.close()


def _store(data_dir: Path | None) -> DataStore | None:
    try:
        return DataStore(data_dir)
    except DataError:  # there is no home folder
        return None


def _listening(address: str, port: int) -> socket.socket:
    try:
        family, *_, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # UnicodeError: it is not a valid host name
        raise UsageError(f"--address: {address} is not an address of this machine: {reason(error)}") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
        listening.listen(128)  # a client that connects early waits for the first response
    except OSError as error:
        listening.close()
        raise UsageError(
            f"cannot listen on {address}:{port}: {error.strerror}; choose another port with --port (0 for any)"
        ) from error
    return listening


def _url(address: str, port: int, token: str | None) -> str:
    host = address
    if address in ("0.0.0.0", "::"):
        host = socket.gethostname()
    elif ":" in address:
        host = f"[{address}]"
    return f"http://{host}:{port}/" + (f"?token={token}" if token else "")
