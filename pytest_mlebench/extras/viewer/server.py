"""Serving the application: on this machine alone, or elsewhere with a token."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn

from pytest_mlebench.errors import UsageError, reason
from pytest_mlebench.extras.viewer.app import application
from pytest_mlebench.extras.viewer.guard import LOOPBACK
from pytest_mlebench.extras.viewer.index import RunIndex
from pytest_mlebench.records.record import MANIFEST

REFRESH = 300.0
"""Seconds between two looks at every run of every group; what is in progress is looked at as it is shown."""


def serve(runs_dir: Path, *, address: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the run groups below ``runs_dir``, or one of them, until interrupted.

    ``ready`` is called with the address to open once it can be. On an address that others reach, whoever asks must
    bring the token in it. Raises UsageError.
    """
    only = None
    if not runs_dir.is_dir():
        raise UsageError(f"{runs_dir} is not a folder: name the one that holds run groups")
    runs_dir = runs_dir.resolve()
    if (runs_dir / MANIFEST).is_file():
        runs_dir, only = runs_dir.parent, runs_dir.name
    listening = _listening(address, port)
    token = None if address in LOOPBACK else secrets.token_urlsafe(24)
    index = RunIndex(runs_dir, only)
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

    app = application(index, address=address, token=token, lifespan=lifespan)
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
        with suppress(KeyboardInterrupt):  # which is how it ends
            uvicorn.Server(config).run(sockets=[listening])
    finally:
        stop.set()
        listening.close()
        thread.join(5)
        if not thread.is_alive():
            index.close()


def _listening(address: str, port: int) -> socket.socket:
    try:
        family, *_, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # UnicodeError: it cannot be the name of a host
        raise UsageError(f"--address: {address} is not an address of this machine: {reason(error)}") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
        listening.listen(128)  # who opens the address as soon as it is printed waits for the first answer
    except OSError as error:
        listening.close()
        raise UsageError(
            f"{address}:{port} cannot be listened on: {error.strerror}; choose another with --port, 0 for any"
        ) from error
    return listening


def _url(address: str, port: int, token: str | None) -> str:
    host = address
    if address in ("0.0.0.0", "::"):
        host = socket.gethostname()
    elif ":" in address:
        host = f"[{address}]"
    return f"http://{host}:{port}/" + (f"?token={token}" if token else "")
