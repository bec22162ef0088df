"""Reads an agent's programs: constants, imports and calls of its code, and the commands that it gave.

Comments and docstrings of Python code are ignored, so that a comment such as "never read the answers" does not count as
reading them. In code that cannot be parsed, every line counts.
"""

from __future__ import annotations

import ast
import base64
import binascii
import io
import json
import re
import sys
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from pytest_mlebench.io.files import regular_bytes
from pytest_mlebench.io.values import as_object, as_objects, loads
from pytest_mlebench.llm.trajectory import TRAJECTORY
from pytest_mlebench.records.record import FILES
from pytest_mlebench.reports.run_details import steps_of
from pytest_mlebench.runs.files import FilesError, open_files

MAX_TRAJECTORY_BYTES = 64 << 20
MAX_FILES = 2000
MAX_FILE_BYTES = 4 << 20
MAX_TOTAL_BYTES = 64 << 20
MAX_PARSED, _MAX_TOTAL_PARSED = 400_000, 8_000_000
"""Maximum characters of Python code that are parsed, in one file and in all files of a run."""
MAX_NODES = 300_000
"""Maximum nodes of a syntax tree."""
MAX_LINE = 200_000
"""Maximum characters of a line that are searched, in windows, since patterns take quadratic time."""
_WINDOW, _OVERLAP = 1000, 200
_MAX_STEPS, _MAX_PARTS, _MAX_DEPTH = 300_000, 50, 20
"""Limits on joining constants to strings: nodes of a program, and the parts and depth of one string."""
_NOTEBOOKS = (".ipynb", ".irnb", ".ijlnb")
_SUFFIXES = {
    *(".py", ".pyw", ".pyx", ".sh", ".bash", ".zsh", ".ksh", ".r", ".rmd", ".qmd", ".jl", ".pl", ".js", ".mjs", ".cjs"),
    *(".ts", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".cu", ".go", ".rs", ".java", ".rb", ".php", ".lua", ".awk"),
    *(*_NOTEBOOKS, ".txt", ""),
}
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{40,}={0,2}")
_MAX_DECODED = 1 << 20
_WORD = re.compile(r"\w+")
_MAGIC = re.compile(r"^[ \t]{0,40}[%!?](?:.*\\\n)*.*$", re.M)
"""Lines of a notebook that are not Python: a magic, a shell command or a request for help."""
_ASSIGNED_MAGIC = re.compile(r"^([ \t]{0,40}[\w., \t]{1,100}=[ \t]{0,40})[%!].*$", re.M)
_OTHER_LANGUAGE = re.compile(
    r"\s*%%(?:!|(?:bash|sh|sx|system|html|HTML|javascript|js|latex|markdown|perl|R|ruby|svg|SVG)\b)"
)
"""The beginning of a notebook's cell that is not Python."""
_ASCII = bytes(range(32, 127)) + b"\t\n\f\r"
_READ_ENCODINGS = ("utf-8", "utf-8-sig", "ascii", "iso-8859-1")
"""Encodings whose ASCII characters mean the same in UTF-8."""
_DROPPED = re.compile(r"\b(?:drop|difference|pop)\(([^()\n]*)|\bnot in (\w+)")


@dataclass(frozen=True)
class Program:
    """A file of code, or the commands of one tool call (then ``call`` is the number of the model call).

    It is untrusted: Python code of more than ``MAX_PARSED`` characters is not parsed, syntax trees are not kept, and
    the number of nodes is limited.
    """

    file: str
    text: str
    call: int | None = None
    may_parse: bool = True
    max_nodes: int = MAX_NODES

    def nodes(self) -> Iterator[ast.AST]:
        """Return up to ``max_nodes`` nodes of its syntax tree; none if it is not Python, or too large to parse."""
        tree = self._tree()
        return iter(()) if tree is None else islice(ast.walk(tree), self.max_nodes)

    def line(self, number: int) -> str:
        """Return the text of a line, counted from 1."""
        return self._lines[number - 1].strip() if 0 < number <= len(self._lines) else ""

    def search(self, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
        """Yield the number and text of each line that matches a pattern. Long lines are cut to the matching part."""
        yield from _search(pattern, enumerate(self.facts.lines, 1))

    def search_strings(self, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
        """Like ``search``, for strings that are joined from constants or decoded from them."""
        yield from _search(pattern, (*self.facts.joined, *self.facts.decoded))

    @cached_property
    def dropped(self) -> frozenset[str]:
        """Names and words in calls of ``drop``, ``difference`` and ``pop``, and after ``not in``."""
        found = _DROPPED.finditer(self.text)
        return frozenset(word for match in found for word in _WORD.findall(match[1] or match[2] or ""))

    @cached_property
    def _lines(self) -> list[str]:
        """Its lines as Python counts them: a form feed, for example, does not end a line."""
        return self._python.split("\n")

    @cached_property
    def _python(self) -> str:
        return self.text.replace("\r\n", "\n").replace("\r", "\n")

    @property
    def _is_python(self) -> bool:
        return self.file.lower().endswith((".py", ".pyw", ".ipynb"))

    @property
    def _is_too_large(self) -> bool:
        return len(self.text) > MAX_PARSED or not self.may_parse

    def _tree(self) -> ast.Module | None:
        return None if not self._is_python or self._is_too_large else _parsed(self._parsable)

    @cached_property
    def _parsable(self) -> str:
        """Its text, without magics if it is a notebook that needs IPython."""
        if not self.file.lower().endswith(".ipynb") or _parsed(self._python) is not None:
            return self._python
        return without_magics(_ASSIGNED_MAGIC.sub(r"\1None", self._python))

    @cached_property
    def facts(self) -> ProgramFacts:
        tree, unread = self._tree(), []
        if self._is_python and tree is None:
            why = "is too large to be parsed" if self._is_too_large else "cannot be parsed"
            unread.append(f"this code {why}: only its lines were searched")
        if any(len(line) > MAX_LINE for line in self._lines):
            unread.append("this code has a line that is too long to be searched completely")
        if self.call is None and not (_is_utf8(self.text) and _is_utf8(self._python)):
            unread.append("this code declares an encoding other than UTF-8, so it may differ from what was searched")
        if tree is None:
            return ProgramFacts(lines=tuple(line[:MAX_LINE] for line in self._lines), unread=tuple(unread))
        nodes = list(islice(ast.walk(tree), self.max_nodes + 1))
        steps = iter(range(_MAX_STEPS))
        joined = tuple(_joined(nodes[: self.max_nodes], steps))
        if len(nodes) > self.max_nodes or next(steps, None) is None:
            unread.append("this code is too deep or too large to be read completely")
        return ProgramFacts(
            is_python=True,
            lines=self._without_comments(nodes),
            joined=joined,
            decoded=tuple(_decoded_constants(nodes[: self.max_nodes])),
            unread=tuple(unread),
        )

    def _without_comments(self, nodes: Iterable[ast.AST]) -> tuple[str, ...]:
        found = list(self._lines)
        with suppress(tokenize.TokenError, SyntaxError, IndexError):
            for token in tokenize.generate_tokens(io.StringIO(self._parsable).readline):
                if token.type == tokenize.COMMENT:
                    row, column = token.start
                    found[row - 1] = found[row - 1][:column]
        for number, spans in _docstrings(nodes).items():
            line = bytearray(found[number - 1].encode())
            for start, end in spans:
                line[start:end] = b" " * (min(end, len(line)) - start)
            found[number - 1] = line.decode("utf-8", "replace")
        return tuple(found)


def _docstrings(nodes: Iterable[ast.AST]) -> dict[int, list[tuple[int, int]]]:
    """Return where lines have unused constants, as offsets in bytes: other code may be on the same line."""
    found: dict[int, list[tuple[int, int]]] = {}
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            last = node.end_lineno or node.lineno
            for number in range(node.lineno, last + 1):
                start = node.col_offset if number == node.lineno else 0
                end = node.end_col_offset if number == last else None
                found.setdefault(number, []).append((start, sys.maxsize if end is None else end))
    return found


def _search(pattern: re.Pattern[str], texts: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    for number, text in texts:
        for start in range(0, max(1, min(len(text), MAX_LINE) - _OVERLAP), _WINDOW - _OVERLAP):
            part = text[start : start + _WINDOW]
            if pattern.search(part):
                yield number, part.strip()
                break


def _is_utf8(text: str) -> bool:
    """Return whether Python reads this as UTF-8, or in an encoding that differs only in characters beyond ASCII."""
    head = io.BytesIO(text[:MAX_LINE].encode("utf-8", "replace"))
    try:
        return tokenize.detect_encoding(head.readline)[0] in _READ_ENCODINGS
    except SyntaxError:  # an unknown encoding, which code may have registered
        return False


def _parsed(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the agent's code may have invalid escapes and the like
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


@dataclass(frozen=True, kw_only=True)
class ProgramFacts:
    """What scanners read of a program, collected in one pass over its syntax tree. Strings have line numbers."""

    lines: tuple[str, ...]
    """Lines without comments and, in Python, without docstrings, numbered as in the file."""
    is_python: bool = False
    """Whether it is Python code that could be parsed."""
    joined: tuple[tuple[int, str], ...] = ()
    """Strings that are joined from constants: ``"a" + "b"``, ``Path("a") / "b"``, ``join("a", "b")``."""
    decoded: tuple[tuple[int, str], ...] = ()
    """Text that its constants contain in base64 or in hexadecimal digits."""
    unread: tuple[str, ...] = ()
    """What could not be read completely."""


def _joined(nodes: Iterable[ast.AST], steps: Iterator[int]) -> Iterator[tuple[int, str]]:
    """Yield strings that are joined from constants. Each node that is visited takes one of ``steps``."""
    for node in nodes:
        if isinstance(node, ast.BinOp | ast.Call | ast.JoinedStr):
            parts = _constants(node, steps)
            if len(parts) > 1:
                line = getattr(node, "lineno", 1)
                yield line, "".join(parts)
                yield line, "/".join(part.strip("/") for part in parts)


def _decoded_constants(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            value = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            if (text := _decoded("".join(value[:_MAX_DECODED].split()))) is not None:
                yield node.lineno, text


def _decoded(text: str) -> str | None:
    """Decode base64 or hexadecimal digits; None if the result is not readable text."""
    if not _ENCODED.fullmatch(text):
        return None
    altchars = b"-_" if "-" in text or "_" in text else None
    for decode in (bytes.fromhex, lambda value: base64.b64decode(value, altchars, validate=True)):
        with suppress(ValueError, binascii.Error):
            found = decode(text).decode("utf-8")
            if all(character.isprintable() or character in "\n\r\t" for character in found):
                return found
    return None


_TRAVERSED = (ast.BinOp, ast.Call, ast.JoinedStr, ast.FormattedValue, ast.keyword, ast.List, ast.Tuple)


def _constants(node: ast.AST, steps: Iterator[int]) -> list[str]:
    """Return the string constants below a node in source order. A call has those of its function and arguments."""
    found: list[str] = []
    waiting = [(node, 0)]
    while waiting and len(found) < _MAX_PARTS and next(steps, None) is not None:
        current, depth = waiting.pop()
        if isinstance(current, ast.Constant):
            found += [current.value[:500]] if isinstance(current.value, str) else []
        elif isinstance(current, _TRAVERSED) and depth < _MAX_DEPTH:
            waiting += [(child, depth + 1) for child in reversed(list(ast.iter_child_nodes(current)))]
    return found


def code_of(run_dir: Path) -> tuple[list[Program], list[str]]:
    """Return the code that a run left, up to a limit, and the names of files that were not read."""
    found, left_out = list[Program](), list[str]()
    count, size, parsed = 0, MAX_TOTAL_BYTES, _MAX_TOTAL_PARSED
    try:
        with open_files(run_dir) as files:
            for file in files.below("code"):
                if file.suffix not in _SUFFIXES and files.read(file.path, 2) != b"#!":
                    continue
                if file.size > MAX_FILE_BYTES or count >= MAX_FILES or size < file.size:
                    left_out.append(file.path)
                    continue
                count += 1
                size -= file.size
                content = files.read(file.path, file.size)
                if not file.suffix and b"\0" in content and len(content.translate(None, _ASCII)) > len(content) // 2:
                    continue  # a compiled program or compressed data, but not a script
                text = content.decode("utf-8-sig", "replace")
                if file.suffix in _NOTEBOOKS:
                    if (code := notebook_code(text)) is None:
                        left_out.append(file.path)
                        continue
                    text = code
                parsed -= len(text) if len(text) <= MAX_PARSED else 0
                found.append(Program(file.path, text, may_parse=parsed >= 0))
    except FilesError:
        left_out.append(FILES)
    return found, left_out


def without_magics(text: str) -> str:
    """Return the code of a notebook with empty lines in place of those that are not Python."""
    return _MAGIC.sub(lambda found: "\n" * found[0].count("\n"), text)


def notebook_code(text: str) -> str | None:
    """Return the code of a notebook's cells; None if it cannot be read. Lines of other languages begin with ``!``."""
    try:
        cells = loads(text)["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell.get("cell_type") == "code"]
        return "\n".join(re.sub("(?m)^", "!", one) if _OTHER_LANGUAGE.match(one) else one for one in sources)
    except (ValueError, TypeError, LookupError, AttributeError):
        return None


def read_trajectory(run_dir: Path, max_bytes: int = MAX_TRAJECTORY_BYTES) -> Mapping[str, Any] | None:
    """Return a run's trajectory; None if there is none, or it is too large or not valid."""
    try:
        found = loads(regular_bytes(run_dir / TRAJECTORY, max_bytes, follow_links=False))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def commands_of(trajectory: Mapping[str, Any] | None) -> Iterator[Program]:
    """Yield the arguments of the tool calls of an agent's models, one program for each call."""
    for step, call in own_steps(trajectory):
        for tool_call in as_objects(step.get("tool_calls")):
            if isinstance(arguments := tool_call.get("arguments"), Mapping):
                texts = [value for value in arguments.values() if isinstance(value, str)]
                yield Program("trajectory.json", "\n".join(texts) or json.dumps(arguments)[:MAX_FILE_BYTES], call)


def own_steps(trajectory: Mapping[str, Any] | None) -> Iterator[tuple[Mapping[str, Any], int | None]]:
    """Yield the steps of all conversations, except copied ones, with the number of their model call."""
    for one in [] if trajectory is None else [trajectory, *as_objects(trajectory.get("subagent_trajectories"))]:
        for step in steps_of(one):
            if not step.get("is_copied_context"):
                call = as_object(step.get("extra")).get("call")
                yield step, call if isinstance(call, int) else None
