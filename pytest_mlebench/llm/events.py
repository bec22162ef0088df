"""Reading streams as they pass: server-sent events, and Gemini's JSON array."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from pytest_mlebench.io.json_files import loads

MAX_EVENT = 32 << 20
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_BETWEEN = re.compile(r"[\s,\[]*")
_LINE = re.compile(rb"\r\n|\n|\r")


class StreamTooLarge(Exception):
    """One event is larger than any honest one."""


class Event:
    """A server-sent event: its bytes, the text of its data, and the object that this is."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.data = data(content)

    @cached_property
    def value(self) -> dict[str, Any] | None:
        return parse(self.data)


class ServerSentEvents:
    """Splits a stream into its events."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that end in this chunk. Raises StreamTooLarge."""
        # Only what is new is searched, and one end may lie across two chunks.
        start = max(0, len(self._rest) - 3)
        self._rest += chunk
        done = 0
        for match in _END.finditer(self._rest, start):
            start, done = done, match.end()
            yield Event(self._rest[start:done])
        self._rest = self._rest[done:]
        if len(self._rest) > MAX_EVENT:
            raise StreamTooLarge

    def rest(self) -> bytes:
        """What came after the last event that was complete."""
        return self._rest


def data(event: bytes) -> str | None:
    """The data of an event; None where it has none."""
    lines = [line[5:].removeprefix(b" ") for line in _LINE.split(event) if line.startswith(b"data:")]
    return b"\n".join(lines).decode("utf-8", "replace") if lines else None


def parse(text: str | None) -> dict[str, Any] | None:
    """The object that an event's data is; None for anything else, such as ``[DONE]``."""
    if not text or text[0] != "{":
        return None
    try:
        value = loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def parse_array(content: bytes) -> list[dict[str, Any]]:
    """The objects of a JSON array, as far as it came."""
    text = content.decode("utf-8", "replace")
    decoder, values, place = json.JSONDecoder(), list[dict[str, Any]](), 0
    while (start := _BETWEEN.match(text, place).end()) < len(text):  # type: ignore[union-attr]
        try:
            value, place = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            break
        if isinstance(value, dict):
            values.append(value)
    return values
