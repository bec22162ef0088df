"""What a judge reads of a run: its code, what its models and it said, and its logs, in parts of a bounded size."""

from __future__ import annotations

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
"""Characters of one part, which is about 8000 tokens."""
MAX_CHUNKS = 40
"""Parts of one run."""
_OVERLAP = 10
"""Lines that a part repeats of the one before."""
_LINE = 4000
_LOG = 200_000
"""Characters of a log, half of them from its end."""
_LOG_FILES, _LOG_SUFFIXES = 50, {".log", ".txt", ".md", ".json", ".jsonl", ""}
_UNPACKED_LOG = 64 << 20
_UNSEEN = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class Piece:
    """Consecutive lines of one file; ``line`` is the number of the first, None where a file has no lines to count."""

    file: str
    line: int | None
    text: str
    call: int | None = None


@dataclass(frozen=True)
class Case:
    """One run to judge: a description of its task, and its parts."""

    run_id: str
    about: str
    chunks: Sequence[tuple[Piece, ...]]
    left_out: int = 0
    """Parts beyond ``MAX_CHUNKS``."""


def readable(text: str) -> str:
    """A text without characters that are not seen, or change how others are seen: each is a replacement character."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(_UNSEEN if c not in "\n\t" and unicodedata.category(c).startswith("C") else c for c in text)


def case_of(run: AuditedRun) -> Case:
    """What a judge reads of a run: code, then what its models and it said, then logs; each text once."""
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
        return run.record.competition_id
    leak = f" Known leak: {competition.known_leak}" if competition.known_leak else ""
    return f"{competition.title} ({competition.id}), scored by {competition.metric}.{leak}"


def _steps(trajectory: Mapping[str, Any] | None) -> Iterator[Piece]:
    """A piece for each step of a trajectory: who spoke, what was said, called, and given back."""
    for step, call in own_steps(trajectory):
        if step.get("source") == "system":
            continue
        lines = [f"{step.get('source')}: {_said(step.get('message'))}"]
        for made in as_objects(step.get("tool_calls")):
            arguments = made.get("arguments")
            values = arguments.values() if isinstance(arguments, Mapping) else [arguments]
            lines += [f"calls {made.get('function_name')}:", *map(str, values)]
        for result in as_objects(as_object(step.get("observation")).get("results")):
            lines += ["result:", _said(result.get("content"))]
        yield Piece("trajectory.json", None, "\n".join(lines), call)


def _said(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in as_objects(content))


def _logs(run_dir: Path) -> Iterator[Piece]:
    path = run_dir / RUN_LOG
    if path.is_file() and not path.is_symlink():
        with path.open("rb") as log:
            yield from _log(RUN_LOG, log, path.stat().st_size)
    with suppress(FilesError), open_files(run_dir) as files:  # what is damaged is a finding of the scanners
        chosen = [file for file in files.below("logs") if file.suffix in _LOG_SUFFIXES]
        for file in chosen[:_LOG_FILES]:
            with files.open(file.path) as member:
                yield from _log(file.path, member, file.size)


def _log(name: str, file: IO[bytes], size: int) -> Iterator[Piece]:
    """The beginning and the end of a log; only the beginning of one that is very long and has to be unpacked."""
    content = file.read(_LOG // 2)
    rest = size - len(content)
    if rest > 0 and (name == RUN_LOG or size <= _UNPACKED_LOG):
        file.seek(max(len(content), size - _LOG // 2))
        end = file.read(_LOG // 2)
        content += b"\n" + end if rest > _LOG // 2 else end
    if b"\0" not in content:
        # Behind a gap the numbers of lines are not known.
        line = 1 if rest <= _LOG // 2 else None
        yield Piece(name, line, content.decode("utf-8", "replace"))


def _cut(whole: Piece) -> Iterator[Piece]:
    """A piece as pieces of at most ``CHUNK`` characters, each with the last lines of the one before."""
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
    """Consecutive pieces together, as long as they fit into one part."""
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
