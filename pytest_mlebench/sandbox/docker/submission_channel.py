"""The submission in a container that runs, as its first process shows it (the other end is ``environment/init.py``).

Not by way of the engine: it holds a container locked while it reads from it, and an agent that puts a pipe in the place
of its file at the right moment would keep it locked, and so beyond its time limit. The first process reads as the
agent's user and without waiting for anything, and the agent can neither signal nor trace it. What it says is bounded
and checked, as the image around it is the agent's.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from pytest_mlebench.io.json_files import loads
from pytest_mlebench.sandbox.snapshots import Identity

_SECONDS = 30.0
_MAX_LINE = 1 << 12
_BLOCK = 1 << 16
_NUMBERS = 5


class SubmissionChannel:
    """A Unix socket that takes one caller; a source of snapshots. Methods raise OSError for what is no answer."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(_SECONDS)
        self._listener.bind(str(path))
        path.chmod(0o666)  # root in the container may be nobody here; the folder around it is private
        self._listener.listen(1)
        self._peer: socket.socket | None = None
        self._buffer = b""

    def __enter__(self) -> SubmissionChannel:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._listener.close()
        if self._peer is not None:
            self._peer.close()

    def look(self) -> Identity | None:
        return _identity(self._ask({"look": True}).get("identity"))

    def copy(self, identity: Identity, write: Callable[[bytes], object]) -> bool:
        size = self._ask({"copy": list(identity)}).get("size")
        if size is None:
            return False
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= identity[2]:
            raise OSError("the container's first process does not keep to the protocol")
        while size:
            block = self._buffer or self._receive()
            write(block[:size])
            self._buffer = block[size:]
            size -= len(block[:size])
        return _identity(self._answer().get("identity")) == identity

    def close(self) -> None:
        for end in (self._peer, self._listener):
            if end is not None:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        if self._peer is None:
            self._peer, _ = self._listener.accept()
            self._peer.settimeout(_SECONDS)
        self._peer.sendall(json.dumps(question).encode() + b"\n")
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            if len(self._buffer) > _MAX_LINE:
                raise OSError("the container's first process does not keep to the protocol")
            self._buffer += self._receive()
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            answer = loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise OSError("the container's first process does not keep to the protocol")
        return answer

    def _receive(self) -> bytes:
        assert self._peer is not None
        block = self._peer.recv(_BLOCK)
        if not block:
            raise ConnectionError("the container's first process is gone")
        return block


def _identity(value: Any) -> Identity | None:
    if value is None:
        return None
    whole = isinstance(value, list) and len(value) == _NUMBERS and all(type(number) is int for number in value)
    if not whole or not 0 <= value[2] < 1 << 63:
        raise OSError("the container's first process does not keep to the protocol")
    return tuple(value)
