"""The harness's end of the connection to a sandbox that runs an episode's commands.

Incoming data is untrusted, since any command in the sandbox may have written it.
"""

from __future__ import annotations

import json
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pytest_mlebench.errors import MLEBenchError
from pytest_mlebench.io.processes import owned_prefix
from pytest_mlebench.io.values import loads

MAX_ANSWER = 1 << 20
"""Maximum bytes of an answer, besides what was asked for."""
_MAX_VALUES = 1000
"""In a longer answer with one long value: objects take thirty times the memory of their text."""
_POLL_SECONDS = 0.2
_BLOCK = 1 << 16


class EpisodeOver(MLEBenchError):
    """The sandbox runs no more commands: its processes were killed, a limit was reached, or its answer was invalid."""


class StepChannel:
    """A Unix socket to which one sandbox connects, once (see ``sandbox.contract.Steps``)."""

    def __init__(self) -> None:
        self._connected = threading.Event()
        self._connection: socket.socket | None = None
        self._rest = b""
        self.is_over = threading.Event()
        """If set, the sandbox ends the run, whatever its processes do."""

    @contextmanager
    def open(self, unix_socket: Path | None = None) -> Iterator[str]:
        """Context manager: listen on this socket, or by default on a new one. Yields its path."""
        with tempfile.TemporaryDirectory(prefix=owned_prefix("mlebench-steps-")) as folder:
            path = unix_socket or Path(folder, "steps.sock")
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
                path.chmod(0o666 if unix_socket is not None else 0o600)
                listener.listen(1)
                listener.settimeout(_POLL_SECONDS)
                accepting = threading.Thread(target=self._accept, args=(listener,), daemon=True)
                accepting.start()
                try:
                    yield str(path)
                finally:
                    self.close()
                    accepting.join()

    def _accept(self, listener: socket.socket) -> None:
        while not self.is_over.is_set():
            with suppress(TimeoutError):
                connection, _ = listener.accept()
                self._connection = connection
                self._connected.set()
                return

    def wait(self, seconds: float) -> bool:
        """Whether the sandbox has connected within this time."""
        return self._connected.wait(seconds)

    def send(self, order: dict[str, Any]) -> None:
        """Send an order. Raises EpisodeOver."""
        connection, data = self._open_connection(), json.dumps(order).encode() + b"\n"
        try:
            connection.settimeout(60)
            connection.sendall(data)
        except OSError as error:
            raise EpisodeOver("the sandbox accepts no more commands") from error

    def receive(self, seconds: float, limit: int = MAX_ANSWER, *, one_value: bool = False) -> dict[str, Any]:
        """Return the next answer, of at most ``limit`` bytes. ``one_value``: only one of its values may be long.

        Raises EpisodeOver if none comes in time, or it is invalid.
        """
        connection, deadline, parts = self._open_connection(), time.monotonic() + seconds, [self._rest]
        size = len(self._rest)
        while b"\n" not in parts[-1]:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise EpisodeOver("the sandbox did not answer in time")
            connection.settimeout(remaining)
            try:
                block = connection.recv(_BLOCK)
            except TimeoutError:
                continue
            except OSError as error:
                raise EpisodeOver("the sandbox runs no more commands") from error
            size += len(block)
            if not block or size > limit:
                raise EpisodeOver("the sandbox's answer is too long" if block else "the sandbox's processes ended")
            parts.append(block)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        if one_value and len(line) > MAX_ANSWER and line.count(b",") > _MAX_VALUES:
            raise EpisodeOver("the sandbox's answer has too many values")
        try:
            answer = loads(line)
        except ValueError as error:
            raise EpisodeOver(f"the sandbox's answer is invalid: {error}") from error
        if not isinstance(answer, dict):
            raise EpisodeOver("the sandbox's answer is not an object")
        return answer

    def _open_connection(self) -> socket.socket:
        if self._connection is None:
            raise EpisodeOver("there is no sandbox")
        return self._connection

    def close(self) -> None:
        """Close the connection, so that the sandbox ends by itself."""
        if not self._connected.is_set():
            self.is_over.set()
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
