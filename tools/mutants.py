"""Generates all single changes (mutants) of a module, for ``mutate.py``."""

from __future__ import annotations

import ast
import contextlib
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
_ARITHMETIC: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.FloorDiv(),
    ast.Div: ast.Mult(),
    ast.FloorDiv: ast.Mult(),
    ast.Mod: ast.FloorDiv(),
    ast.Pow: ast.Mult(),
    ast.LShift: ast.RShift(),
    ast.RShift: ast.LShift(),
    ast.BitOr: ast.BitAnd(),
    ast.BitAnd: ast.BitOr(),
}


@dataclass(frozen=True)
class Mutant:
    """One change of a module. ``source`` is the complete changed source."""

    path: Path
    line: int
    before: str
    source: str

    @property
    def diff(self) -> list[str]:
        lines = difflib.unified_diff(self.before.splitlines(), self.source.splitlines(), lineterm="", n=0)
        return [line for line in lines if not line.startswith(("---", "+++", "@@"))]

    @property
    def change(self) -> tuple[str, str]:
        """The changed lines before and after, which identify the change in ``mutation.toml``."""
        signs = (" ".join(line[1:].strip() for line in self.diff if line[0] == sign) for sign in "-+")
        return next(signs), next(signs)


def mutants(path: Path) -> list[Mutant]:
    """All changes of a module that still compile."""
    before = path.read_text()
    tree = ast.parse(before)
    unchanged, found = ast.dump(tree), {}
    content = before.encode()
    lines = content.splitlines(keepends=True)
    for node, text in _changes(tree):
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
        end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
        source = (content[:start] + text.encode() + content[end:]).decode()
        with contextlib.suppress(SyntaxError):
            if isinstance(node, ast.Constant) or ast.dump(ast.parse(source)) != unchanged:  # parsing is slow
                found[source] = Mutant(path, node.lineno, before, source)
    return list(found.values())


def _changes(tree: ast.Module) -> Iterator[tuple[Any, str]]:
    """Pairs of a node and a replacement for its text."""
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):  # parents before their children
        if node in skipped or isinstance(node, (ast.JoinedStr, ast.Import, ast.ImportFrom)) or _is_docstring(node):
            skipped.update(ast.walk(node))
            continue
        if isinstance(node, ast.Raise) and node.exc is not None:  # changes of error messages do not count
            skipped.update(child for child in ast.walk(node) if isinstance(child, ast.Constant))
        for name in ("annotation", "returns"):
            if (annotation := getattr(node, name, None)) is not None:
                skipped.update(ast.walk(annotation))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            skipped.update(ast.walk(node))
            continue
        for text in _texts(node):
            yield node, text
        for test in _tests(node):
            yield test, f"(not ({ast.unparse(test)}))"


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _tests(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.comprehension):
        return node.ifs
    return [node.test] if isinstance(node, (ast.If, ast.While, ast.IfExp)) else []


def _texts(node: ast.AST) -> Iterator[str]:
    """Possible replacements for a node."""
    match node:
        case ast.Compare(left, ops, comparators):
            for n, op in enumerate(ops):
                for other in _COMPARISONS[type(op)]:
                    signs = [other if m == n else _sign(o) for m, o in enumerate(ops)]
                    pairs = zip(signs, comparators, strict=True)
                    yield f"({_text(left)} {' '.join(f'{sign} {_text(right)}' for sign, right in pairs)})"
        case ast.BinOp(left, op, right) if type(op) in _ARITHMETIC:
            yield f"({ast.unparse(ast.BinOp(left, _ARITHMETIC[type(op)], right))})"
        case ast.AugAssign(target, op, value) if type(op) in _ARITHMETIC:
            yield ast.unparse(ast.AugAssign(target, _ARITHMETIC[type(op)], value))
            yield "pass"
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield f"({ast.unparse(operand)})"
        case ast.BoolOp(op, values):
            yield f"({ast.unparse(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))})"
            for n in range(len(values)):
                rest = [_text(value) for m, value in enumerate(values) if m != n]
                yield f"({(' and ' if isinstance(op, ast.And) else ' or ').join(rest)})"
        case ast.Constant(bool() as value):
            yield str(not value)
        case ast.Constant(int() | float() as value):
            yield f"{value + 1!r}"
            yield f"({value - 1!r})"
        case ast.Constant(str() as value):
            yield repr(f"{value}mutated" if value else "mutated")
        case ast.Return(value) if value is not None and ast.unparse(value) != "None":
            yield "return None"
        case ast.Raise() | ast.Delete() | ast.Assign() | ast.Expr(ast.Call() | ast.Await()):
            yield "pass"
        case ast.Continue():
            yield "break"
        case ast.Break():
            yield "continue"
        case ast.ExceptHandler(type=kind, body=[first, *_]):
            name = f" as {node.name}" if node.name else ""
            indent = " " * first.col_offset
            yield f"except {ast.unparse(kind) if kind else 'BaseException'}{name}:\n{indent}raise"
        case ast.Call(function, args, keywords):
            swapped = ast.unparse(function) not in ("min", "max", "suppress")
            if swapped and len(args) > 1 and not any(isinstance(arg, ast.Starred) for arg in args[:2]):
                yield ast.unparse(ast.Call(function, [args[1], args[0], *args[2:]], keywords))
            for n in range(len(keywords)):
                yield ast.unparse(ast.Call(function, args, keywords[:n] + keywords[n + 1 :]))


def _text(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


def _sign(op: ast.cmpop) -> str:
    return ast.unparse(ast.Compare(ast.Name("a"), [op], [ast.Name("b")]))[2:-2]
