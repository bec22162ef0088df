"""Generates the pages below ``reference/`` from the code, so that they are always complete."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from enum import Enum
from textwrap import dedent
from typing import Any

import pytest_mlebench
from pytest_mlebench.agents.registry import Agent
from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.catalog.schema import Leaderboard
from pytest_mlebench.cli import main
from pytest_mlebench.io import progress
from pytest_mlebench.llm.ledger import Call, Totals
from pytest_mlebench.options import FLAG, INI, LIST, OPTIONAL, OPTIONS, PATH, RESTORED, Option
from pytest_mlebench.plugin import fixtures
from pytest_mlebench.records import manifest, record
from pytest_mlebench.records.outcome import LastChange, Outcome, Report, SandboxAccount, TimelinePoint
from pytest_mlebench.records.record import RunRecord
from tools.docs.docstrings import field_docs, markdown, module_docs, one_line
from tools.docs.variables import VARIABLES, variables_read

Row = tuple[str, ...]


def table(head: Row, rows: Iterable[Row]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def code(text: str) -> str:
    """Format the text as code, escaped for table cells."""
    return f"`{text}`".replace("|", "\\|") if text else ""


# Options of pytest


def options() -> str:
    """All options of the plugin, each with a heading."""
    return f"""# Options of pytest

Each option has a long form for projects in which another plugin uses the short one, and most have a key for the ini
file ([ini keys](ini.md)). The first of these sets the value: command line, the run group of `--resume`, ini file,
environment variable, default. `mlebench` uses the same names for its options ([commands](commands.md)).

{_parts(map(_option, OPTIONS.values()))}
"""


def _option(option: Option) -> str:
    facts = [f"long form `{option.long_name}`"]
    if option.traits & LIST:
        facts.append("repeatable")
    if option.traits & PATH:
        facts.append("a path")
    if option.traits & INI:
        facts.append(f"ini key `{option.ini_key}`")
    if option.variable:
        facts.append(f"environment variable `{option.variable}`")
    if option.traits & RESTORED:
        facts.append("`--resume` restores it")
    help = re.sub(r"\$(\w+)", r"`$\1`", option.help)
    attributes = f"{{#{option.name.removeprefix('--')} data-toc-label='{option.name}'}}"
    return f"## `{_synopsis(option)}` {attributes}\n\n{sentence(help)}\n\n{sentence('; '.join(facts))}"


def _synopsis(option: Option) -> str:
    if option.traits & FLAG:
        return option.name
    return f"{option.name}[={option.metavar}]" if option.traits & OPTIONAL else f"{option.name}={option.metavar}"


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def _parts(parts: Iterator[str]) -> str:
    return "\n\n".join(parts)


def ini() -> str:
    """All ini keys."""
    rows = [
        (code(option.ini_key), f"[`{option.name}`](options.md#{option.name[2:]})", _kind(option))
        for option in OPTIONS.values()
        if option.traits & INI
    ]
    return f"""# Ini keys

Set the keys in pytest's configuration file: `pytest.toml`, `pytest.ini`, `pyproject.toml`, `tox.ini` or
`setup.cfg`. `mlebench` reads the same file. Relative paths are relative to the folder of that file.

```ini
[pytest]
mlebench_split = lite
mlebench_agents_dir = agents
mlebench_max_cost = 20
```

In `pyproject.toml`:

```toml
[tool.pytest.ini_options]
mlebench_split = "lite"
mlebench_agents_dir = ["agents"]
mlebench_max_cost = "20"
```

{table(("key", "option", "value"), rows)}
"""


def _kind(option: Option) -> str:
    if option.traits & FLAG:
        return "`true` or `false`"
    return ("several values" if option.traits & LIST else "a value") + (", paths" if option.traits & PATH else "")


# Commands


def commands() -> str:
    """All commands of ``mlebench``, from the parsers that read them."""
    parser, names = main.parser_and_commands()
    shown = {name: help for name in names if (help := help_of(parser, name))}
    return f"""# Commands of mlebench

{markdown(main.__doc__)} Exit status: 0 for success, 1 for a failure, 2 for invalid arguments.
Options that pytest also has are described under [options of pytest](options.md). Their ini keys and environment
variables also apply here.

{_parts(_command(name, names[name], help) for name, help in shown.items())}
"""


def help_of(parser: argparse.ArgumentParser, name: str) -> str:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return next((own.help or "" for own in action._choices_actions if own.dest == name), "")
    raise AssertionError("mlebench has no commands")


def _command(name: str, parser: argparse.ArgumentParser, help: str) -> str:
    actions = [action for action in parser._actions if action.help != argparse.SUPPRESS and action.dest != "help"]
    rows = [(_written(action), _cell(_expanded(action, parser))) for action in actions]
    text = markdown(parser.description) if parser.description else sentence(help)
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    found = f"## mlebench {name} {{#{name}}}\n\n{text}\n\n```text\n{_wrapped(usage)}\n```"
    return found + (f"\n\n{table(('argument', 'meaning'), rows)}" if rows else "")


def _wrapped(usage: str) -> str:
    lines = [""]
    for part in re.findall(r"\[[^\[\]]*(?:\[[^\]]*\][^\[\]]*)*\]|\S+", usage):
        if len(lines[-1]) + len(part) > 90:
            lines.append("   ")
        lines[-1] += f" {part}" if lines[-1] else part
    return "\n".join(lines)


def _written(action: argparse.Action) -> str:
    value = action.metavar or action.dest.upper()
    if isinstance(value, tuple):
        value = " ".join(value)
    if not action.option_strings:
        return code(value if action.nargs not in ("*", "+") else f"{value} …")
    if action.nargs == 0:
        return ", ".join(map(code, action.option_strings))
    names = (f"{name}={value}" if name.startswith("--") else f"{name} {value}" for name in action.option_strings)
    return ", ".join(map(code, names))


def _expanded(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    return (action.help or "") % {**vars(action), "prog": parser.prog}


def _cell(text: str) -> str:
    text = re.sub(r"(?<![`\w$])\$(\w+)", r"`$\1`", one_line(text))
    return re.sub(r"(?<![`\w-])(--[a-z][\w-]*)", r"`\1`", text)


# Environment variables


def environment() -> str:
    """All variables that the code reads. Raises AssertionError if one is not described."""
    read = variables_read()
    assert read == VARIABLES.keys(), f"tools/docs/variables.py: {sorted(read ^ VARIABLES.keys())}"
    options = {option.variable: option for option in OPTIONS.values() if option.variable}
    rows = [
        (code(name), text + (f" ([`{own.name}`](options.md#{own.name[2:]}))" if (own := options.get(name)) else ""))
        for name, text in sorted(VARIABLES.items())
    ]
    return f"""# Environment variables

Variables that `pytest` and `mlebench` read. For the environment of an agent, see
[Write an agent](../agents.md). The names of API keys are set in each agent's `config.yaml`.

{table(("variable", "meaning"), rows)}
"""


# Files


def files() -> str:
    """All files and formats, with the fields of the classes that read and write them."""
    competition = [own for own in fields(Competition) if own.name not in ("folder", "version")]
    agent = [own for own in fields(Agent) if own.name not in ("id", "folder")]
    return f"""# Files and formats

Fields may be added; the names and meanings of those below are stable ([what is stable](python.md)).

## A run group

A group is a folder, by default `reports/<date and time>`. `--run-group` and `--runs-dir` change it.

{table(("file", "content"), list(_layout()))}

## run.json

{markdown(RunRecord.__doc__)}

{
        _fields(
            RunRecord,
            extra={
                "outcome": ("str", "one of the [outcomes](#outcomes)"),
                "last_change": ("object or null", one_line(inspect.getdoc(RunRecord.last_change))),
            },
        )
    }

### report

{markdown(Report.__doc__)} `grading_report.json` holds the same for all runs.

{_fields(Report)}

### sandbox

{markdown(SandboxAccount.__doc__)}

{_fields(SandboxAccount)}

### llm

{markdown(Totals.__doc__)}

{_fields(Totals)}

### timeline

{markdown(TimelinePoint.__doc__)}

{_fields(TimelinePoint)}

### last_change

{markdown(LastChange.__doc__)}

{_fields(LastChange)}

## Outcomes

{table(("outcome", "letter", "test"), [(code(own), code(own.letter), _verdict(own)) for own in Outcome])}

## llm/calls.jsonl

{markdown(Call.__doc__)}

{_fields(Call)}

## manifest.json

{markdown(manifest.__doc__)}

### runs

{markdown(manifest.PlannedRun.__doc__)}

{_fields(manifest.PlannedRun)}

### sessions

{markdown(manifest.SessionRecord.__doc__)}

{_fields(manifest.SessionRecord)}

## competition.yaml

{markdown(Competition.__doc__)}

{_field_table(competition, Competition)}

### leaderboard

{markdown(Leaderboard.__doc__)}

{_fields(Leaderboard)}

## config.yaml

The definition of an agent. The key is its id, `NAME` or `NAME/VARIANT`.

{markdown(Agent.__doc__)}

{_field_table(agent, Agent)}
"""


def _verdict(outcome: Outcome) -> str:
    return "passes" if outcome.passed else "fails"


def _layout() -> Iterator[Row]:
    docs = module_docs(record) | _CONTRACT
    for name in ("MANIFEST", "METADATA", "GRADING_REPORT", "REPORT", "EVENTS"):
        yield code(getattr(record, name)), one_line(docs.get(name) or _REPORT_DOC)
    for name in ("RECORD", "RUNNING", "RUN_LOG", "SUBMISSION", "VALIDATION"):
        yield code(f"<run id>/{getattr(record, name)}"), one_line(docs[name]).removeprefix("In a run directory: ")


_REPORT_DOC = "The report of the whole group, a single HTML file."
_CONTRACT = {
    "RUN_LOG": "The agent's output.",
    "SUBMISSION": "The submission that is graded.",
}


def _fields(cls: type, extra: Mapping[str, tuple[str, str]] | None = None) -> str:
    assert is_dataclass(cls)
    return _field_table(list(fields(cls)), cls, extra)


def _field_table(found: list[Field[Any]], cls: type, extra: Mapping[str, tuple[str, str]] | None = None) -> str:
    docs = field_docs(cls)
    rows = [(code(own.name), code(_type(own.type)), _default(own), one_line(docs.get(own.name))) for own in found]
    rows += [(code(name), code(type), "", text) for name, (type, text) in (extra or {}).items()]
    if not any(row[3] for row in rows):
        return table(("field", "type", "default"), [row[:3] for row in rows])
    return table(("field", "type", "default", "meaning"), rows)


def _type(annotation: object) -> str:
    return re.sub(r"\b\w+\.(?=[A-Z])", "", str(annotation))


def _default(own: Field[Any]) -> str:
    value = own.default.value if isinstance(own.default, Enum) else own.default
    return code(repr(value)) if isinstance(value, str | int | float | tuple | None) and value != "" else ""


# Python


def python() -> str:
    """The names in ``pytest_mlebench.__all__``, and the fixtures."""
    names = [name for name in pytest_mlebench.__all__ if name != "__version__"]
    return f"""# Python names

{markdown(pytest_mlebench.__doc__)}

{_parts(_object(name, getattr(pytest_mlebench, name)) for name in names)}

## Fixtures

{markdown(fixtures.__doc__)}

{table(("fixture", "meaning"), list(_fixtures()))}
"""


def _fixtures() -> Iterator[Row]:
    for name, value in vars(fixtures).items():
        if type(value).__name__ == "FixtureFunctionDefinition":
            yield code(name), one_line(inspect.getdoc(value._fixture_function))


def _object(name: str, value: object) -> str:
    head = f"## {name} {{#{name.lower()}}}"
    if inspect.isfunction(value):
        return f"{head}\n\n{_function(name, value)}"
    if not isinstance(value, type):
        return f"{head}\n\n{code(_type(value))}. {markdown(module_docs(progress).get(name))}"
    parts = [head, f"*{_class_kind(value)}* in `{value.__module__}`", markdown(value.__doc__)]
    if issubclass(value, Enum):
        parts.append(table(("member", "value"), [(code(own.name), code(str(own.value))) for own in value]))
    elif is_dataclass(value):
        parts.append(_fields(value))
    elif inspect.isfunction(vars(value).get("__init__")):
        parts.append(f"```python\n{signature(name, value.__init__)}\n```")
    parts += [
        f"### {name}.{own} {{#{name.lower()}-{own.lower()} data-toc-label='{own}'}}\n\n{text}"
        for own, text in _members(value)
    ]
    return "\n\n".join(part for part in parts if part)


def _class_kind(cls: type) -> str:
    if issubclass(cls, Exception):
        base = cls.__mro__[1].__name__
        return f"Exception, a {base}," if base != "Exception" else "Exception"
    return "Enumeration" if issubclass(cls, Enum) else "Protocol" if getattr(cls, "_is_protocol", False) else "Class"


def _members(cls: type) -> Iterator[tuple[str, str]]:
    own_fields = {own.name for own in fields(cls)} if is_dataclass(cls) else set()  # a default may be a function
    for name, value in vars(cls).items():
        if name.startswith("_") or name in own_fields:
            continue
        if isinstance(value, property) or type(value).__name__ == "cached_property":
            function: Any = value.fget if isinstance(value, property) else value.func
            returned = inspect.signature(function).return_annotation
            yield name, f"*Property*, `{_type(returned)}`\n\n{markdown(inspect.getdoc(function))}"
        elif isinstance(value, staticmethod | classmethod) or inspect.isfunction(value):
            yield name, _function(name, value.__func__ if isinstance(value, staticmethod | classmethod) else value)


def _function(name: str, function: Any) -> str:
    return f"```python\n{signature(name, function)}\n```\n\n{markdown(inspect.getdoc(function))}".strip()


def signature(name: str, function: Callable[..., Any]) -> str:
    """A function's signature as in its source, with expressions for computed defaults.

    >>> print(signature("unit", table))
    unit(head: Row, rows: Iterable[Row]) -> str
    """
    node = ast.parse(dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef)
    parts = _parameters(node.args)
    result = f" -> {ast.unparse(node.returns)}" if node.returns and name[0].islower() else ""
    if len(text := f"{name}({', '.join(parts)}){result}") <= 100:
        return text
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){result}"])


def _parameters(found: ast.arguments) -> list[str]:
    own = [argument for argument in found.args if argument.arg not in ("self", "cls")]
    defaults = [None] * (len(own) - len(found.defaults)) + found.defaults
    parts = [_argument(argument, default) for argument, default in zip(own, defaults, strict=True)]
    if found.vararg or found.kwonlyargs:
        parts.append("*" + (ast.unparse(found.vararg) if found.vararg else ""))
    parts += [
        _argument(argument, default) for argument, default in zip(found.kwonlyargs, found.kw_defaults, strict=True)
    ]
    return [*parts, *([f"**{ast.unparse(found.kwarg)}"] if found.kwarg else [])]


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) + (f" = {ast.unparse(default)}" if default is not None else "")


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/commands.md": commands,
    "reference/options.md": options,
    "reference/ini.md": ini,
    "reference/environment.md": environment,
    "reference/files.md": files,
    "reference/python.md": python,
}
"""Functions that generate the pages, by address."""
