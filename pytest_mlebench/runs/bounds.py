"""Bounds on what an agent can make a record hold, so that ``run.json`` stays below 1 MB whatever the agent does.

Sizes are of the text's JSON, in which a character takes up to 12 bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, TypeVar

from pytest_mlebench.runs.record import RunRecord
from pytest_mlebench.sandbox.contract import Connection, SandboxAccount, Validation

_TEXT = 8000
_SHORT_TEXT = 1000
_POINT_TEXT = 300
_LIST = 200_000
_ENTRIES = 100

Item = TypeVar("Item")


def bounded(record: RunRecord) -> RunRecord:
    """The record with long texts cut, and with only as many connections, validations and notes as fit."""
    return replace(
        record,
        detail=_cut(record.detail, _TEXT),
        error=None if record.error is None else _cut(record.error, _TEXT),
        report=replace(record.report, error=None if record.report.error is None else _cut(record.report.error, _TEXT)),
        sandbox=_bounded_account(record.sandbox),
        llm=_bounded_json(record.llm),
        timeline=tuple(
            replace(point, error=None if point.error is None else _cut(point.error, _POINT_TEXT))
            for point in record.timeline
        ),
    )


def _bounded_account(account: SandboxAccount) -> SandboxAccount:
    connections = _first(map(_connection, account.connections))
    validations = _first(map(_validation, reversed(account.validations)))[::-1]
    left_out = _first(_cut(text, _SHORT_TEXT) for text in account.left_out)
    notes = list(_first(_cut(text, _SHORT_TEXT) for text in account.notes))
    if dropped := len(account.validations) - len(validations):
        notes.append(f"{dropped} earlier validations are not recorded")
    return replace(
        account,
        connections=connections,
        unrecorded_connections=account.unrecorded_connections + len(account.connections) - len(connections),
        validations=validations,
        left_out=left_out,
        left_out_unnamed=account.left_out_unnamed + len(account.left_out) - len(left_out),
        notes=tuple(notes),
    )


def _bounded_json(values: Any) -> Any:
    """JSON values, in which an agent may have chosen names of models, with its first entries and short texts."""
    if isinstance(values, Mapping):
        entries = list(values.items())[:_ENTRIES]
        return {_cut(key, _SHORT_TEXT): _bounded_json(value) for key, value in entries}
    if isinstance(values, list | tuple):
        return [_bounded_json(value) for value in values[:_ENTRIES]]
    return _cut(values, _SHORT_TEXT) if isinstance(values, str) else values


def _connection(made: Connection) -> Connection:
    return replace(
        made,
        host=_cut(made.host, _SHORT_TEXT),
        method=_cut(made.method, _SHORT_TEXT),
        reason=_cut(made.reason, _SHORT_TEXT),
    )


def _validation(made: Validation) -> Validation:
    return replace(made, verdict=_cut(made.verdict, _SHORT_TEXT))


def _first(items: Iterable[Item]) -> tuple[Item, ...]:
    """As many of the items as fit into a list's share of the record."""
    taken, size = [], 0
    for item in items:
        size += _size(item)
        if size > _LIST:
            break
        taken.append(item)
    return tuple(taken)


def _size(item: Any) -> int:
    values = item if isinstance(item, str) else asdict(item)
    return len(json.dumps(values, indent=8)) + 16


def _cut(text: str, max_bytes: int) -> str:
    """The text, or its beginning and ``…`` if its JSON is longer than this."""
    if len(json.dumps(text)) <= max_bytes:
        return text
    size = 0
    for position, character in enumerate(text):
        size += len(json.dumps(character)) - 2
        if size > max_bytes - 8:
            return text[:position] + "…"
    return text
