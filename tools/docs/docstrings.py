"""Converts docstrings to Markdown: literals, literal blocks, doctests and simple tables, which is all that we use."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from types import ModuleType

_RULE = re.compile(r"=+(\s+=+)+")


def markdown(docstring: str | None) -> str:
    """The text as Markdown.

    >>> print(markdown("``None`` is no limit::\\n\\n    x = 1\\n"))
    `None` is no limit:
    <BLANKLINE>
    ```python
    x = 1
    ```
    """
    return "\n\n".join(_blocks(inspect.cleandoc(docstring or "")))


def _blocks(text: str) -> Iterator[str]:
    literal = False
    for block in _joined(re.split(r"\n\s*\n", text.strip())):
        if literal or block.startswith(">>> "):
            yield f"```{'pycon' if block.startswith('>>> ') else 'python'}\n{dedent(block)}\n```"
            literal = False
        elif _RULE.fullmatch(block.partition("\n")[0]):
            yield _table(block)
        elif found := re.fullmatch(r"(\S[^\n]*)\n((?: {4}.*\n?)+)", block):
            yield f"**{found[1]}.** {_prose(dedent(found[2]))}"
        else:
            literal = block.endswith("::")
            if block != "::":
                yield _prose(block.removesuffix(":") if literal else block)


def _joined(blocks: list[str]) -> Iterator[str]:
    """The paragraphs; a literal block counts as one."""
    literal: list[str] = []
    for block in blocks:
        if literal and (block.startswith("    ") or literal == ["::"]):
            literal.append(block)
            continue
        if len(literal) > 1:
            yield "\n\n".join(literal[1:])
        literal = ["::"] if block.endswith("::") else []
        yield block
    if len(literal) > 1:
        yield "\n\n".join(literal[1:])


def _prose(text: str) -> str:
    text = re.sub(r"\s\(see ``[a-z][\w.]*\.[\w.]+``[^)]*\)", "", text)  # references for readers of the code
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    return re.sub(r":(?:class|func|meth|mod):`~?([\w.]+)`", r"`\1`", text)


def _table(block: str) -> str:
    rule, *lines = block.splitlines()
    starts = [match.start() for match in re.finditer("=+", rule)]
    ends = [*starts[1:], None]
    rows: list[list[str]] = []
    for line in lines:
        if line.startswith("=="):
            continue
        cells = [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]
        if cells[0]:
            rows.append(cells)
        else:
            rows[-1] = [f"{old} {new}".strip() for old, new in zip(rows[-1], cells, strict=True)]
    text = [f"| {' | '.join(f'`{cell}`' if n == 0 else _prose(cell) for n, cell in enumerate(row))} |" for row in rows]
    return "\n".join(
        ["| name | meaning |" if len(starts) == 2 else "| … " * len(starts) + "|", "|---" * len(starts) + "|", *text]
    )


def one_line(docstring: str | None) -> str:
    """Convert a docstring to the text of a table cell."""
    return " ".join(markdown(docstring).split()).replace("|", "\\|")


@cache
def field_docs(cls: type) -> dict[str, str]:
    """Docstrings of the fields of a class and its base classes, by field."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        module = inspect.getmodule(base)
        if module is None or not module.__name__.startswith("pytest_mlebench"):
            continue
        body = next((node.body for node in _classes(module) if node.name == base.__name__), [])
        found |= _documented(body)
    return found


def module_docs(module: ModuleType) -> dict[str, str]:
    """Docstrings of the variables of a module, by name."""
    return _documented(_tree(module).body)


def _documented(body: list[ast.stmt]) -> dict[str, str]:
    found = {}
    for node, after in pairwise(body):
        target = (
            node.target
            if isinstance(node, ast.AnnAssign)
            else node.targets[0]
            if isinstance(node, ast.Assign)
            else None
        )
        text = after.value if isinstance(after, ast.Expr) else None
        if isinstance(target, ast.Name) and isinstance(text, ast.Constant) and isinstance(text.value, str):
            found[target.id] = text.value
    return found


def _classes(module: ModuleType) -> Iterator[ast.ClassDef]:
    return (node for node in _tree(module).body if isinstance(node, ast.ClassDef))


@cache
def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
