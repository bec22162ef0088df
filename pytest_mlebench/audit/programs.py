"""What an agent's programs say: constants, imports and calls of its code, and the commands it gave.

Comments and docstrings are left out, so that who writes "never read the answers" is not taken for one who does.
"""

from __future__ import annotations

import ast
import base64
import binascii
import io
import json
import os
import re
import tokenize
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_mlebench.json_values import loads

MAX_FILES = 2000
MAX_FILE_BYTES = 4 << 20
MAX_TOTAL_BYTES = 256 << 20
_SUFFIXES = (".py", ".sh", ".bash", ".ipynb", ".r", ".jl", ".pl", ".js", ".cpp", ".c", ".txt", "")
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{40,}={0,2}")
_MAX_DECODED = 1 << 20
_COMMENT = re.compile(r"(^|\s)#.*$")


@dataclass(frozen=True)
class Program:
    """A file of code, or the commands of one step of a trajectory (then ``call`` is the number of the model call)."""

    file: str
    text: str
    call: int | None = None

    @cached_property
    def tree(self) -> ast.Module | None:
        """The syntax tree of Python code; None for anything else."""
        if not self.file.endswith((".py", ".ipynb")):
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the agent's code, about escapes and the like
            try:
                return ast.parse(self.text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return None

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Its lines without comments and, in Python, without docstrings; numbers stay those of the file."""
        found = self.text.splitlines()
        if self.tree is None:
            return tuple(_COMMENT.sub("", line) for line in found)
        with suppress(tokenize.TokenError, SyntaxError, IndexError):
            for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
                if token.type == tokenize.COMMENT:
                    row, column = token.start
                    found[row - 1] = found[row - 1][:column]
        with suppress(RecursionError):
            for node in ast.walk(self.tree):
                if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                    for row in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                        found[row - 1] = ""
        return tuple(found)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of its syntax tree; none where it is too deep, or no Python."""
        try:
            return tuple(ast.walk(self.tree)) if self.tree is not None else ()
        except RecursionError:
            return ()

    def search(self, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
        """The number and the text of each line in which a pattern occurs."""
        for number, line in enumerate(self.lines, 1):
            if pattern.search(line):
                yield number, line.strip()

    @cached_property
    def joined(self) -> tuple[tuple[int, str], ...]:
        """Texts that Python code puts together from constants (``"a" + "b"``, ``Path("a") / "b"``, ``join("a", "b")``),
        and the line of each."""
        found = []
        for node in self.nodes:
            if isinstance(node, ast.BinOp | ast.Call | ast.JoinedStr):
                with suppress(RecursionError):
                    parts = list(_constants(node))
                    if len(parts) > 1:
                        line = getattr(node, "lineno", 1)
                        found += [(line, "".join(parts)), (line, "/".join(part.strip("/") for part in parts))]
        return tuple(found)

    @cached_property
    def decoded(self) -> tuple[tuple[int, str], ...]:
        """Texts that its constants hold in base64 or in hexadecimal digits, and the line of each."""
        found = []
        for node in self.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                value = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
                if (text := _decoded("".join(value[:_MAX_DECODED].split()))) is not None:
                    found.append((node.lineno, text))
        return tuple(found)


def _decoded(text: str) -> str | None:
    """What a text encodes; None where this is no readable text."""
    if not _ENCODED.fullmatch(text):
        return None
    for decode in (bytes.fromhex, lambda value: base64.b64decode(value, altchars=_altchars(value), validate=True)):
        with suppress(ValueError, binascii.Error):
            found = decode(text).decode("utf-8")
            if all(character.isprintable() or character in "\n\r\t" for character in found):
                return found
    return None


def _altchars(text: str) -> bytes | None:
    return b"-_" if "-" in text or "_" in text else None


def _constants(node: ast.AST) -> Iterator[str]:
    """Text constants below a node, in the order of the source; a call's are those of its function and arguments."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.value[:500]
        return
    if isinstance(node, ast.Name | ast.Attribute) or not isinstance(
        node, ast.BinOp | ast.Call | ast.JoinedStr | ast.FormattedValue | ast.keyword | ast.List | ast.Tuple
    ):
        return
    for child in ast.iter_child_nodes(node):
        yield from _constants(child)


@dataclass
class _Budget:
    files: int = MAX_FILES
    size: int = MAX_TOTAL_BYTES
    left_out: list[str] = field(default_factory=list)


def code_of(run_dir: Path) -> tuple[list[Program], list[str]]:
    """The code that a run left, within bounds; and the names of files that were not read."""
    budget, found = _Budget(), []
    folder = run_dir / "code"
    if folder.is_symlink() or not folder.is_dir():
        return [], []
    for path in sorted(regular_files(folder)):
        name = path.relative_to(run_dir).as_posix()
        if path.suffix.lower() not in _SUFFIXES:
            continue
        size = path.stat().st_size
        if size > MAX_FILE_BYTES or budget.files <= 0 or budget.size < size:
            budget.left_out.append(name)
            continue
        budget.files -= 1
        budget.size -= size
        content = path.read_bytes()
        if b"\0" in content:
            continue
        text = content.decode("utf-8", "replace")
        found.append(Program(name, notebook_code(text) if path.suffix == ".ipynb" else text))
    return found, budget.left_out


def regular_files(folder: Path) -> Iterator[Path]:
    """Regular files below a folder; links are not followed."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent) / name
            if not path.is_symlink() and path.is_file():
                yield path


def notebook_code(text: str) -> str:
    """The code of a notebook's cells; empty where it cannot be read."""
    try:
        cells = loads(text)["cells"]
        sources = [cell["source"] for cell in cells if cell.get("cell_type") == "code"]
        return "\n".join("".join(source) for source in sources)
    except (ValueError, TypeError, LookupError, AttributeError):
        return ""


def commands_of(trajectory: Mapping[str, Any] | None) -> Iterator[Program]:
    """What an agent's models had run: the arguments of their tool calls, one program for each call."""
    if trajectory is None:
        return
    for one in (trajectory, *(trajectory.get("subagent_trajectories") or ())):
        for step in one.get("steps") or () if isinstance(one, Mapping) else ():
            if not isinstance(step, Mapping) or step.get("is_copied_context"):
                continue
            extra = step.get("extra")
            call = extra.get("call") if isinstance(extra, Mapping) else None
            for made in step.get("tool_calls") or ():
                arguments = made.get("arguments") if isinstance(made, Mapping) else None
                if isinstance(arguments, Mapping):
                    texts = [value for value in arguments.values() if isinstance(value, str)]
                    text = "\n".join(texts) or json.dumps(arguments)[:MAX_FILE_BYTES]
                    yield Program("trajectory.json", text, call if isinstance(call, int) else None)
