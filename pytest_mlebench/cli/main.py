"""The ``mlebench`` command: prepare data, grade submissions and look at results without pytest."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from pytest_mlebench._version import __version__
from pytest_mlebench.catalog.catalogue import unknown
from pytest_mlebench.cli import (
    agents,
    audit,
    bundle,
    data,
    export,
    familiarity,
    grading,
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
from pytest_mlebench.errors import MLEBenchError, UsageError, unusable

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 0, 1 where something failed, 2 where the call was wrong."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    parser, names = _parser()
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains of it as it ends
        return 1
    except OSError as error:
        if error.filename is None:
            raise
        print(f"mlebench: {unusable(error)}", file=sys.stderr)  # a path that the user gave, or the disk it is on
        return 1
    except KeyboardInterrupt:
        print("mlebench: interrupted", file=sys.stderr)
        return 130


def _empty_value(words: Sequence[str]) -> str:
    """What is given an empty text, which is no path and no name: often a variable of the shell that is not set. Only
    titles and notes may be empty."""
    for before, word in pairwise(words):
        option = before if not word and before.startswith("--") else word[:-1] if word.endswith("=") else ""
        if option.startswith("--") and option not in ("--title", "--note"):
            return f"the value of {option}"
        if not word and not option:
            return f"an argument of {words[0]}"
    return ""


def _parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser, and those of the commands by their names."""
    parser = argparse.ArgumentParser(prog="mlebench", description=__doc__)
    parser.add_argument("--version", action="version", version=f"mlebench {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    modules = (
        data,
        leaderboard,
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
    )
    for module in modules:
        module.add(commands)
    return parser, commands.choices
