"""The two sockets that connect a container's first process (``environment/init.py``) with the harness.

Through the control channel, the process receives its order and reports how the agent ended. Through the submission
channel, it sends the submission while the container runs. The container runtime is not used for that: it locks a
container while it reads from it. An agent that swaps its file for a pipe at the right moment could keep it locked
beyond the time limit. The first process reads as the agent's user and never blocks, and the agent can neither signal
nor trace it. Its messages are bounded and checked, because the image around it is the agent's.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeGuard

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.processes import signal_name
from pytest_mlebench.io.values import loads
from pytest_mlebench.sandbox.collection import Identity

_MAX_MESSAGE = 1 << 12
_MAX_NESTING = 4
_BLOCK = 1 << 16
_SECONDS = 30.0


class ControlChannelClosed(Exception):
    """The container's first process is gone, or violated the protocol."""


@dataclass(frozen=True)
class Started:
    """The agent has started."""


@dataclass(frozen=True)
class GpusMissing:
    """The container has only ``seen`` of the agent's GPUs, so the agent was not started."""

    seen: int


@dataclass(frozen=True)
class AgentEnded:
    """The agent's process ended, with an exit code or by a signal. ``oom_kills`` is None if unknown."""

    exit_code: int | None
    signal: str | None
    oom_kills: int | None


class _BadAnswer(OSError):
    def __init__(self) -> None:
        super().__init__("the container's first process violated the protocol")


class _Channel:
    """A Unix socket that accepts one connection."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        path.chmod(0o666)  # root in the container may be `nobody` here; the folder around it is private
        self._listener.listen(1)
        self._peer: socket.socket | None = None
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        if self._peer is not None:
            self._peer.close()

    def _line(self, timeout: float) -> bytes:
        """Receive a line. Raises OSError; TimeoutError if it is not complete in time."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            if len(self._buffer) > _MAX_MESSAGE:
                raise _BadAnswer
            self._buffer += self._receive(deadline - time.monotonic())
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _receive(self, timeout: float) -> bytes:
        assert self._peer is not None
        self._peer.settimeout(max(0.001, timeout))
        block = self._peer.recv(_BLOCK)
        if not block:
            raise ConnectionError("the container's first process is gone")
        return block


class ControlChannel(_Channel):
    """Accepts its connection before any agent runs."""

    def accept(self, *, timeout: float, alive: Callable[[], bool]) -> None:
        """Wait for the container to connect. Raises SandboxError if it does not."""
        deadline = time.monotonic() + timeout
        self._listener.settimeout(0.5)
        while self._peer is None:
            try:
                self._peer, _ = self._listener.accept()
            except TimeoutError:
                if not alive():
                    raise SandboxError("the container ended before it connected to the harness") from None
                if time.monotonic() > deadline:
                    raise SandboxError(
                        "the container cannot reach the harness: Docker or Podman must see this machine's file system"
                    ) from None
        self._listener.close()

    def send(self, message: Mapping[str, Any]) -> None:
        """Raises ControlChannelClosed."""
        assert self._peer is not None
        self._peer.settimeout(_SECONDS)
        try:
            self._peer.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise ControlChannelClosed from error

    def receive(self, timeout: float) -> Started | AgentEnded | GpusMissing | None:
        """Return the next message, or None if none came in time. Raises ControlChannelClosed."""
        try:
            return parse_message(self._line(timeout))
        except TimeoutError:
            return None
        except OSError as error:
            raise ControlChannelClosed from error


def parse_message(line: bytes) -> Started | AgentEnded | GpusMissing:
    """Parse one line of the protocol. Raises ControlChannelClosed for anything else."""
    try:
        message: Any = loads(line, depth=_MAX_NESTING) if len(line) <= _MAX_MESSAGE else None
    except ValueError:
        message = None
    match message:
        case {"started": True}:
            return Started()
        case {"gpus_seen": seen} if _is_number(seen, 1 << 16):
            return GpusMissing(seen)
        case {"exit_code": code} if _is_number(code, 256) and _counts_kills(message):
            return AgentEnded(code, None, message.get("oom_kills"))
        case {"signal": number} if _is_number(number, 128) and number > 0 and _counts_kills(message):
            return AgentEnded(None, signal_name(number), message.get("oom_kills"))
    raise ControlChannelClosed("it sent a message that is not in the protocol")


def _is_number(value: object, end: int) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < end


def _counts_kills(message: Mapping[Any, Any]) -> bool:
    return message.get("oom_kills") is None or _is_number(message["oom_kills"], 1 << 32)


class SubmissionChannel(_Channel):
    """A ``SubmissionSource``. Its methods raise OSError for an invalid answer."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._listener.settimeout(_SECONDS)

    def look(self) -> Identity | None:
        return _identity(self._ask({"look": True}).get("identity"))

    def copy(self, identity: Identity, write: Callable[[bytes], object]) -> bool:
        size = self._ask({"copy": list(identity)}).get("size")
        if size is None:
            return False
        if not _is_number(size, identity.size + 1):
            raise _BadAnswer
        while size:
            block = self._buffer or self._receive(_SECONDS)
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
        try:
            answer = loads(self._line(_SECONDS))
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise _BadAnswer
        return answer


def _identity(value: Any) -> Identity | None:
    if value is None:
        return None
    if not isinstance(value, list) or [type(number) for number in value] != [int] * len(Identity._fields):
        raise _BadAnswer
    identity = Identity(*value)
    if not 0 <= identity.size < 1 << 63:
        raise _BadAnswer
    return identity
