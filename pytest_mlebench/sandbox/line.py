"""The harness's end of the line to a container's first process (the other one is ``environment/init.py``)."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from pytest_mlebench.errors import SandboxError

_MAX_MESSAGE = 1 << 16


class LineBroken(Exception):
    """The container's first process is gone."""


class Line:
    """A Unix socket that takes one caller, before any agent runs, and no other."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        path.chmod(0o666)  # root in the container may be nobody here; the folder around it is private
        self._listener.listen(1)
        self._peer: socket.socket | None = None
        self._buffer = b""

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._listener.close()
        if self._peer is not None:
            self._peer.close()

    def accept(self, *, timeout: float, alive: Callable[[], bool]) -> None:
        """Wait for the container's call; raises SandboxError where none comes."""
        deadline = time.monotonic() + timeout
        self._listener.settimeout(0.5)
        while self._peer is None:
            try:
                self._peer, _ = self._listener.accept()
            except TimeoutError:
                if not alive():
                    raise SandboxError("the container ended before it called the harness") from None
                if time.monotonic() > deadline:
                    raise SandboxError(
                        "the container does not reach the harness: the engine must see this machine's file system"
                    ) from None
        self._listener.close()

    def send(self, message: dict[str, Any]) -> None:
        """Raises LineBroken."""
        assert self._peer is not None
        self._peer.settimeout(30)
        try:
            self._peer.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise LineBroken from error

    def receive(self, timeout: float) -> dict[str, Any] | None:
        """The next message, or None if none came in time; raises LineBroken."""
        assert self._peer is not None
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            self._peer.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                block = self._peer.recv(_MAX_MESSAGE)
            except TimeoutError:
                return None
            except OSError as error:
                raise LineBroken from error
            self._buffer += block
            if not block or len(self._buffer) > _MAX_MESSAGE:
                raise LineBroken
        line, _, self._buffer = self._buffer.partition(b"\n")
        message = json.loads(line)
        return message if isinstance(message, dict) else {}
