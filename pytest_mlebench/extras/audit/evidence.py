"""Splits a run's code, messages and logs into parts of limited size, for a judge to read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from pytest_mlebench.extras.audit.programs import own_steps
from pytest_mlebench.extras.audit.run import AuditedRun
from pytest_mlebench.io.values import as_object, as_objects
from pytest_mlebench.records.record import RUN_LOG
from pytest_mlebench.runs.files import FilesError, open_files

CHUNK = 24_000
"""Maximum characters of one part, about 8000 tokens."""
MAX_CHUNKS = 40
"""Maximum parts of one run."""
_OVERLAP = 10
"""Lines that a part repeats from the previous one."""
_LINE = 4000
_LOG = 200_000
"""Maximum bytes that are read of a log, half of them from its end."""
_LOG_FILES, _LOG_SUFFIXES = 50, {".log", ".txt", ".md", ".json", ".jsonl", ""}
_UNPACKED_LOG = 64 << 20
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")


@dataclass(frozen=True)
class Piece:
    """Consecutive lines of one file. ``line`` is the number of the first one, or None if it is unknown."""

    file: str
    line: int | None
    text: str
    call: int | None = None


@dataclass(frozen=True)
class Case:
    """A run to judge: a description of its task, and its parts."""

    run_id: str
    about: str
    chunks: Sequence[tuple[Piece, ...]]
    left_out: int = 0
    """Number of parts beyond ``MAX_CHUNKS``."""


def readable(text: str) -> str:
    """Return a text with replacement characters for those that are invisible or change how others are displayed."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(_REPLACEMENT if c not in "\n\t" and unicodedata.category(c).startswith("C") else c for c in text)


def case_of(run: AuditedRun) -> Case:
    """Return a run as a judge reads it: code, then trajectory steps, then logs. Duplicate texts are skipped."""
    pieces: list[Piece] = []
    known: set[str] = set()
    code = (Piece(program.file, 1, program.text) for program in run.code)
    for whole in (*code, *_steps(run.trajectory), *_logs(run.run_dir)):
        if (text := whole.text.strip()) and text not in known:
            known.add(text)
            pieces += _cut(replace(whole, text=readable(whole.text)))
    chunks = list(_packed(pieces))
    return Case(run.record.run_id, _about(run), chunks[:MAX_CHUNKS], max(0, len(chunks) - MAX_CHUNKS))


def _about(run: AuditedRun) -> str:
    competition = run.competition
    if competition is None:
        # Third parties may have written the record, and this text is not marked as evidence.
        id = run.record.competition_id
        return id if _ID.fullmatch(id) else "an unknown competition"
    leak = f" Known leak: {competition.known_leak}" if competition.known_leak else ""
    return f"{competition.title} ({competition.id}), scored by {competition.metric}.{leak}"


def _steps(trajectory: Mapping[str, Any] | None) -> Iterator[Piece]:
    """Yield a piece for each step of a trajectory: its source, message, tool calls and results."""
    for step, call in own_steps(trajectory):
        if step.get("source") == "system":
            continue
        lines = [f"{step.get('source')}: {_text_of(step.get('message'))}"]
        for tool_call in as_objects(step.get("tool_calls")):
            arguments = tool_call.get("arguments")
            values = arguments.values() if isinstance(arguments, Mapping) else [arguments]
            lines += [f"calls {tool_call.get('function_name')}:", *map(str, values)]
        for result in as_objects(as_object(step.get("observation")).get("results")):
            lines += ["result:", _text_of(result.get("content"))]
        yield Piece("trajectory.json", None, "\n".join(lines), call)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in as_objects(content))


def _logs(run_dir: Path) -> Iterator[Piece]:
    path = run_dir / RUN_LOG
    if path.is_file() and not path.is_symlink():
        with path.open("rb") as log:
            yield from _log(RUN_LOG, log, path.stat().st_size)
    with suppress(FilesError), open_files(run_dir) as files:  # the scanners report damaged archives
        chosen = [file for file in files.below("logs") if file.suffix in _LOG_SUFFIXES]
        for file in chosen[:_LOG_FILES]:
            with files.open(file.path) as member:
                yield from _log(file.path, member, file.size)


def _log(name: str, file: IO[bytes], size: int) -> Iterator[Piece]:
    """Yield the beginning and end of a log, or only the beginning if it is very long and compressed."""
    content = file.read(_LOG // 2)
    rest = size - len(content)
    if rest > 0 and (name == RUN_LOG or size <= _UNPACKED_LOG):
        file.seek(max(len(content), size - _LOG // 2))
        end = file.read(_LOG // 2)
        content += b"\n" + end if rest > _LOG // 2 else end
    if b"\0" not in content:
        # Line numbers after a gap are unknown.
        line = 1 if rest <= _LOG // 2 else None
        yield Piece(name, line, content.decode("utf-8", "replace"))


def _cut(whole: Piece) -> Iterator[Piece]:
    """Split a piece into pieces of at most ``CHUNK`` characters. Each repeats the last lines of the previous one."""
    lines = [
        line[start : start + _LINE] for line in whole.text.split("\n") for start in range(0, max(1, len(line)), _LINE)
    ]
    if sum(len(line) + 1 for line in lines) <= CHUNK:
        yield replace(whole, text="\n".join(lines))
        return
    numbered = whole.line is not None and len(lines) == whole.text.count("\n") + 1
    start = 0
    while start < len(lines):
        end, size = start, 0
        while end < len(lines) and size + len(lines[end]) + 1 <= CHUNK:
            size += len(lines[end]) + 1
            end += 1
        line = (whole.line or 1) + start if numbered else None
        yield replace(whole, line=line, text="\n".join(lines[start:end]))
        start = end if end == len(lines) or end - start <= 2 * _OVERLAP else end - _OVERLAP


def _packed(pieces: Iterable[Piece]) -> Iterator[tuple[Piece, ...]]:
    """Combine consecutive pieces into parts of at most ``CHUNK`` characters."""
    packed: list[Piece] = []
    size = 0
    for piece in pieces:
        if packed and size + len(piece.text) > CHUNK:
            yield tuple(packed)
            packed, size = [], 0
        packed.append(piece)
        size += len(piece.text) + len(piece.file)
    if packed:
        yield tuple(packed)
