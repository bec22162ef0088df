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
from itertools import pairwise
from pathlib import Path
from textwrap import fill

try:
    from pytest_mlebench._version import __version__
    from pytest_mlebench.catalog.catalogue import unknown
    from pytest_mlebench.cli import (
        agents,
        audit,
        bundle,
        completion,
        data,
        export,
        familiarity,
        grading,
        kernels,
        leaderboard,
        new,
        regrade,
        report,
        reproduce,
        run_one,
        sandbox,
        trajectory,
        view,
        watch,
    )
    from pytest_mlebench.errors import MLEBenchError, UsageError, reason, unusable
    from pytest_mlebench.settings import TOPICS
except KeyboardInterrupt:  # on a busy machine these take seconds
    print("mlebench: interrupted", file=sys.stderr)
    raise SystemExit(130) from None

Command = Callable[[argparse.Namespace], int]
_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""Errors of writing, which name no file."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 0, 1 where something failed, 2 where the call was wrong."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if sys.stdout is None:  # closed by the caller, as a service or `>&-` does
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a locale may lack "×"
    parser, names = parser_and_commands()
    if "_ARGCOMPLETE" in os.environ:
        completion.complete(parser, names.values())
    if words and not words[0].startswith("-") and words[0] not in names:
        print(f"mlebench: {unknown('command', words[0], names)}", file=sys.stderr)
        return 2
    if empty := _empty_value(words):
        print(f"mlebench: {empty} is empty", file=sys.stderr)
        return 2
    options, others = parser.parse_known_args(words)
    if others:
        names.get(words[0], parser).error(f"unrecognized arguments: {' '.join(others)}")
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    command: Command = options.command
    try:
        status = command(options)
        sys.stdout.flush()
        return status
    except UsageError as error:
        print(f"mlebench: {error}", file=sys.stderr)
        return 2
    except MLEBenchError as error:
        print(f"mlebench: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        _discard_output()
        return 1
    except OSError as error:
        if error.filename is None and error.errno not in _OF_DISKS:
            raise
        what = unusable(error) if error.filename else f"the output could not be written: {reason(error)}"
        print(f"mlebench: {what}", file=sys.stderr)  # a path that the user gave, or the disk it is on
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
        return 2 if error.errno == errno.ENAMETOOLONG else 1
    except KeyboardInterrupt:
        print("mlebench: interrupted", file=sys.stderr)
        return 130


def _discard_output() -> None:
    """What could not be written is not tried again: Python would complain of it as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _empty_value(words: Sequence[str]) -> str:
    """What is given an empty text, which is no path and no name: often a variable of the shell that is not set. Only
    titles and notes may be empty."""
    for before, word in pairwise(words):
        is_value = not word and before.startswith("--") and "=" not in before
        option = before if is_value else word[:-1] if word.endswith("=") else ""
        if option.startswith("--") and option not in ("--title", "--note"):
            return f"the value of {option}"
        if not word and not option:
            return f"an argument of {words[0]}"
    return ""


def parser_and_commands() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser, and those of the commands by their names."""
    parser = argparse.ArgumentParser(
        prog="mlebench",
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description=(__doc__ or "").replace("``", ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mlebench {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", prog="mlebench", help=argparse.SUPPRESS)
    modules = (
        data,
        leaderboard,
        kernels,
        grading,
        agents,
        report,
        audit,
        bundle,
        regrade,
        reproduce,
        export,
        familiarity,
        trajectory,
        watch,
        view,
        run_one,
        sandbox,
        new,
        completion,
    )
    for module in modules:
        module.add(commands)
    parser.epilog = _by_topic({action.dest: action.help or "" for action in commands._choices_actions})
    return parser, commands.choices


def _by_topic(summaries: Mapping[str, str]) -> str:
    """The commands with their summaries, below the pages of the documentation that they belong to."""
    width = max(40, shutil.get_terminal_size().columns - 2)
    blocks = []
    for topic, (_, names) in TOPICS.items():
        lines = [
            fill(summaries[name], width, initial_indent=f"  {name:<17}", subsequent_indent=" " * 19)
            for name in names.split()
        ]
        blocks += ["\n".join([f"{topic}:", *lines])] if lines else []
    return "\n\n".join([*blocks, "mlebench COMMAND --help describes a command."])
