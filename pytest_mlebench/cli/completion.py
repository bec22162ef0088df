"""``mlebench completion``: shell completion for ``mlebench``, including existing ids and run groups."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from pytest_mlebench.bench import Bench
from pytest_mlebench.catalog.catalogue import SPLIT_NAMES
from pytest_mlebench.cli.common import read_settings
from pytest_mlebench.errors import MLEBenchError
from pytest_mlebench.options import Settings
from pytest_mlebench.records.group import group_folders
from pytest_mlebench.results import LAST

SHELLS = {
    "bash": 'eval "$(mlebench completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(mlebench completion zsh)" in ~/.zshrc, after compinit',
    "fish": "mlebench completion fish | source in ~/.config/fish/config.fish",
}
"""How to enable completion in each shell."""


def add(commands: Any) -> None:
    completion = commands.add_parser(
        "completion", help="print a shell completion script; it also completes competitions, agents and run groups",
        description="Print a completion script for a shell. " + "; ".join(SHELLS.values()) + "."
    )  # fmt: skip
    completion.add_argument("shell", choices=list(SHELLS), help="the shell")
    completion.set_defaults(command=_completion)


def _completion(options: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    print(shellcode(["mlebench"], shell=options.shell))
    return 0


def complete(parser: argparse.ArgumentParser, commands: Iterable[argparse.ArgumentParser]) -> None:
    """Answer a shell's completion request, and exit; return if there is none."""
    import argcomplete

    for action in (action for command in commands for action in command._actions):
        if action.dest in _KNOWN:
            action.completer = partial(_completions, _KNOWN[action.dest])  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser, always_complete_options="long")


def _competitions(settings: Settings) -> Iterable[str]:
    return Bench(settings=settings).catalogue.ids  # without titles: reading all files takes half a second


def _groups(settings: Settings) -> Iterable[str]:
    return [*(folder.name for folder in group_folders(settings.runs_dir)), LAST]


_KNOWN: dict[str, Callable[[Settings], Iterable[str]]] = {
    "agents": lambda settings: Bench(settings=settings).registry.load(),
    "competition": _competitions,
    "competitions": _competitions,
    "group": _groups,
    "groups": _groups,
    "run": _groups,
    "split": lambda _: SPLIT_NAMES,
}
"""Functions that return the possible values of an argument, by its ``dest``."""


def _completions(known: Callable[[Settings], Iterable[str]], *, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    try:
        return list(known(read_settings(parsed_args)))
    except (MLEBenchError, OSError):  # the command itself reports what is wrong
        return []
