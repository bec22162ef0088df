"""The ``mlebench`` command: prepare data, grade submissions and look at results without pytest."""

from __future__ import annotations

import argparse
import errno
import io
import logging
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from textwrap import fill
from typing import Any, TextIO, cast

from pytest_mlebench._version import __version__
from pytest_mlebench.errors import MLEBenchError, UsageError, reason, unusable
from pytest_mlebench.io.extensions import extensions, is_deleted, load_extension, not_installed
from pytest_mlebench.io.units import Inert, plain
from pytest_mlebench.options import TOPICS

Command = Callable[[argparse.Namespace], int]
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""Write errors that have no file name."""
_EXTENSIONS = "mlebench.commands"
"""Entry points of commands: modules whose ``add`` adds the command with the entry point's name, or several."""
_MODULES = {
    "agents": "agents doctor build clean",
    "completion": "completion",
    "data": "prepare push list verify remove leaderboard",
    "grading": "grade grade-sample golden regrade",
    "new": "new-competition new-agent",
    "groups": "groups files unpack watch trajectory",
    "report": "report",
}
"""The core's commands by their modules in this package. Only the module of the requested command is imported."""
_ELSEWHERE = {
    "compare": "`mlebench report GROUP OTHER` compares run groups",
    "run": "`pytest --agent=AGENT` runs an agent",
    "test": "`pytest competitions/ID` checks a competition",
    "init": "`mlebench new-agent NAME` and `mlebench new-competition ID` write folders to start from",
    "dev": "`mlebench leaderboard` compares the bundled thresholds with Kaggle's leaderboards",
    "download": "`mlebench prepare` downloads and prepares data",
    "status": "`mlebench watch GROUP` shows a group's runs",
}
"""Commands that people try, and what to use instead."""
_CORE = {name: f"pytest_mlebench.cli.{module}" for module, names in _MODULES.items() for name in names.split()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. The exit status is 0, 1 if something failed, 2 for a wrong call, 130 after Ctrl-C."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if sys.stdout is None:  # closed by the caller, as a service or `>&-` does
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a locale may lack "×"
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = cast("TextIO", Inert(out)), cast("TextIO", Inert(err))  # quoted text may be hostile
    try:
        return _run(words)
    except KeyboardInterrupt:
        print("mlebench: interrupted", file=sys.stderr)
        return 130
    finally:
        sys.stdout, sys.stderr = out, err


def _run(words: Sequence[str]) -> int:
    known = command_names()
    if words and not words[0].startswith("-") and words[0] not in known:
        _complain(_unknown(words[0], known))
        return 2
    requested = os.environ.get("COMP_LINE", "").split()[1:2] if "_ARGCOMPLETE" in os.environ else words[:1]
    try:
        parser, names = parser_and_commands(*requested)
    except UsageError as error:
        _complain(error)
        return 2
    if "_ARGCOMPLETE" in os.environ:
        import_module("pytest_mlebench.cli.completion").complete(parser, names.values())
    if empty := _empty_value(words):
        _complain(f"{empty} is empty")
        return 2
    if not words:
        parser.print_help()
        return 0
    options, others = parser.parse_known_args(words)
    if others:
        names.get(words[0], parser).error(f"unrecognized arguments: {' '.join(others)}")
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    command: Command = options.command
    try:
        with import_module("pytest_mlebench.cli.common").opened:
            status = command(options)
        sys.stdout.flush()
        return status
    except MLEBenchError as error:
        _complain(error)
        return 2 if isinstance(error, UsageError) else 1
    except BrokenPipeError:
        _discard_output()
        return 1
    except OSError as error:
        if error.filename is None and error.errno not in _DISK_ERRORS:
            raise
        what = unusable(error) if error.filename else f"the output could not be written: {reason(error)}"
        _complain(what)  # the path or disk that the user chose
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
        return 2 if error.errno == errno.ENAMETOOLONG else 1


def _complain(problem: object) -> None:
    print(f"mlebench: {plain(str(problem))}", file=sys.stderr)


def _unknown(command: str, known: Sequence[str]) -> str:
    from pytest_mlebench.catalog.catalogue import unknown

    if is_deleted(_EXTENSIONS, command):
        return not_installed(f"the command {command}")
    instead = _ELSEWHERE.get(command)
    return f"unknown command {command!r}; {instead}" if instead else str(unknown("command", command, known))


def _discard_output() -> None:
    """Discard unwritten output. Python would retry it at exit, and report the error again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _empty_value(words: Sequence[str]) -> str:
    """Return which value is empty, often from an unset shell variable; "" if none. Ignores titles and notes."""
    for number, word in enumerate(words):
        before, option = words[number - 1], ""
        if word.startswith("--") and word.partition("=")[1:] == ("=", ""):
            option = word[:-1]
        elif not word and before.startswith("--") and "=" not in before:
            option = before
        elif not word and not (words[0] == "groups" and words[number - 2] == "--note"):
            return f"an argument of {words[0]}"
        if option and option not in ("--title", "--note"):
            return f"the value of {option}"
    return ""


def command_names() -> list[str]:
    """Return the names of all commands, including those of extras and of other distributions."""
    return [*_CORE, *(name for name in extensions(_EXTENSIONS) if name not in _CORE)]


def parser_and_commands(name: str = "") -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """Return the parser, and the parsers of the commands by name.

    With the ``name`` of a command, only its parser has arguments, so that no other command's module is imported.
    Raises UsageError if an extension cannot be loaded.
    """
    parser = argparse.ArgumentParser(
        prog="mlebench",
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description=(__doc__ or "").replace("``", ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mlebench {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", prog="mlebench", help=argparse.SUPPRESS)
    names = command_names()
    for command in [name] if name in names else names:
        if command not in commands.choices:
            module: Any = import_module(_CORE[command]) if command in _CORE else load_extension(_EXTENSIONS, command)
            if module is None and command == name:
                raise UsageError(not_installed(f"the command {command}"))
            if module is not None:
                module.add(commands)
    for other in names:
        if other not in commands.choices:
            commands.add_parser(other, add_help=False)
    if name not in names:
        parser.epilog = _by_topic({action.dest: action.help or "" for action in commands._choices_actions})
    return parser, commands.choices


def _by_topic(summaries: Mapping[str, str]) -> str:
    """Return the commands and their summaries, grouped by page of the documentation."""
    width = max(40, shutil.get_terminal_size().columns - 2)
    blocks = []
    topics = {topic: names.split() for topic, (_, names) in TOPICS.items()}
    others = [name for name in summaries if not any(name in names for names in topics.values())]
    for topic, names in {**topics, "From other packages": others}.items():
        lines = [
            fill(summaries[name], width, initial_indent=f"  {name:<17}", subsequent_indent=" " * 19)
            for name in names
            if name in summaries  # its extra may have been removed
        ]
        blocks += ["\n".join([f"{topic}:", *lines])] if lines else []
    return "\n\n".join([*blocks, "mlebench COMMAND --help describes a command."])
