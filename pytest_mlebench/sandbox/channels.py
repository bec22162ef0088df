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
        self._peer.settimeout(30)
        try:
            self._peer.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise ControlChannelClosed from error

    def receive(self, timeout: float) -> Started | AgentEnded | GpusMissing | None:
        """Return the next message, or None if none came in time. Raises ControlChannelClosed."""
        assert self._peer is not None
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            self._peer.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                block = self._peer.recv(_MAX_MESSAGE)
            except TimeoutError:
                return None
            except OSError as error:
                raise ControlChannelClosed from error
            self._buffer += block
            if not block or len(self._buffer) > 2 * _MAX_MESSAGE:
                raise ControlChannelClosed
        line, _, self._buffer = self._buffer.partition(b"\n")
        return parse_message(line)


def parse_message(line: bytes) -> Started | AgentEnded | GpusMissing:
    """Parse one line of the protocol. Raises ControlChannelClosed for anything else."""
    if len(line) > _MAX_MESSAGE or line.count(b"[") + line.count(b"{") > _MAX_NESTING:
        raise ControlChannelClosed("it sent a message that is too large")
    try:
        message: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ControlChannelClosed("it sent a message that is not JSON") from error
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


_SECONDS = 30.0
_MAX_LINE = 1 << 12
_BLOCK = 1 << 16
_NUMBERS = 5


class _BadAnswer(OSError):
    def __init__(self) -> None:
        super().__init__("the container's first process violated the protocol")


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
        if not _is_number(size, identity[2] + 1):
            raise _BadAnswer
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
                raise _BadAnswer
            self._buffer += self._receive()
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            answer = loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise _BadAnswer
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
    is_valid = isinstance(value, list) and len(value) == _NUMBERS and all(type(number) is int for number in value)
    if not is_valid or not 0 <= value[2] < 1 << 63:
        raise _BadAnswer
    return tuple(value)
