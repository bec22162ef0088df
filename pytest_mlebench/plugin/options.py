"""The options as pytest has them: command line, ini file, what ``--resume`` restores, and useless combinations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from pytest_mlebench import options as settings
from pytest_mlebench.errors import UsageError
from pytest_mlebench.options import AGENT, GRANTED, INI, LIST, NEEDS, OPTIONS, RESTORED, TOPICS, Settings
from pytest_mlebench.plugin import internals

if TYPE_CHECKING:
    from pytest_mlebench.records.manifest import Manifest


def add_ini_keys(parser: pytest.Parser) -> None:
    for option in OPTIONS.values():
        if option.traits & INI:
            kind: Literal["args", "string"] = "args" if option.traits & LIST else "string"
            parser.addini(option.ini_key, f"default of {option.name}: {option.help}", type=kind, default=None)


def add_options(parser: pytest.Parser) -> None:
    """Add each option by its short and its long name; by the long one alone where the short one is taken.

    To be called when all plugins and initial conftests have added theirs.
    """
    taken = internals.taken_option_names(parser)
    for topic, (names, _) in TOPICS.items():
        group = parser.getgroup(f"mlebench {topic}", f"MLE-bench: {topic}")
        for option in map(OPTIONS.__getitem__, names.split()):
            names_of_it = (option.long_name,) if option.name in taken else (option.name, option.long_name)
            group.addoption(*names_of_it, **option.for_argparse)


def release_short_names(config: pytest.Config) -> None:
    """Conftests that are loaded during collection may add options of the same names."""
    internals.release_option_names(config, {option.name: option.dest for option in OPTIONS.values()})


def read(config: pytest.Config) -> Settings:
    """The settings without those of a run group that is resumed; raises UsageError."""
    return settings.read(_sources(config), runs_dir=config.rootpath / "reports")


def read_resumed(config: pytest.Config, manifest: Manifest, file: Path) -> Settings:
    """The settings with those of a run group; only the command line goes before them. Raises UsageError."""
    command_line, *others = _sources(config)
    sources = [command_line, settings.from_manifest(manifest, file), *others]
    return settings.read(sources, runs_dir=config.rootpath / "reports")


def given(config: pytest.Config) -> frozenset[str]:
    """The names of the options that the command line has."""
    return frozenset(option.name for option in OPTIONS.values() if getattr(config.option, option.dest, None))


def _sources(config: pytest.Config) -> list[settings.Source]:
    here = config.invocation_params.dir
    keys = [option.ini_key for option in OPTIONS.values() if option.traits & INI]
    ini = {key: config.getini(key) for key in keys}
    return [
        settings.from_command_line(config.option, here),
        settings.from_ini(ini, config.inipath, here),
        settings.from_environment(here),
    ]


_OF_DATA = frozenset(
    {"--agents-dir", "--competitions-dir", "--data", "--data-dir", "--data-source", "--description", "--twin-per-seed"}
)
_OF_SANDBOXES = (
    *(
        own.name
        for own in OPTIONS.values()
        if own.traits & (RESTORED | GRANTED) and AGENT not in own.needs and own.name not in _OF_DATA
    ),
    "--keep-sandbox",
)
"""What runs use, and tests of one's own with the fixtures ``run_agent`` and ``sandbox``."""


def check(settings: Settings, given: AbstractSet[str]) -> None:
    """See that each option on the command line, of which these are ``given``, has an effect; raises UsageError."""
    if problem := next(_problems(settings, given), None):
        raise UsageError(problem)


def without_effect(settings: Settings, given: AbstractSet[str]) -> list[str]:
    """Options that have an effect only where the session's own tests run agents, which is not known yet."""
    return [] if settings.has_runs else [name for name in _OF_SANDBOXES if name in given]


def _problems(settings: Settings, given: AbstractSet[str]) -> Iterator[str]:
    if settings.has_runs:
        if "--real-data" in given:
            yield "--real-data checks graders, which --agent does not: leave one of them out"
        if "--retry-failed" in given and not (settings.resume or settings.run_group):
            yield "--retry-failed needs the run group whose failures to run again: add --resume=GROUP"
    elif settings.split is not None:  # the competitions check themselves
        if ignored := _given(_OF_SANDBOXES, given):
            yield _problem(ignored, AGENT.problem)
        of_data = ("--prepare", "--data", "--data-source", "--description")
        if (ignored := _given(of_data, given)) and not settings.real_data:
            yield _problem(ignored, "needs --agent=ID or --real-data: without them, checks use synthetic data")
    if "--data-source" in given and settings.has_twins:
        yield "--data-source has real data, and --data=twin asks for generated data: leave one of them out"
    if "--data-source" in given and settings.prepare == "never":
        yield "--data-source is where missing data is taken from, which --prepare=never forbids: leave one of them out"
    for need in NEEDS:
        names = [own.name for own in OPTIONS.values() if need in own.needs]
        if (ignored := _given(names, given)) and not need.is_met(settings):
            yield _problem(ignored, need.problem.format(cluster=settings.cluster, network=settings.network))


def _given(names: Sequence[str], given: AbstractSet[str]) -> list[str]:
    return [name for name in names if name in given]


_PLURALS = {"needs": "need", "is": "are", "chooses": "choose", "adds": "add"}


def _problem(names: Sequence[str], problem: str) -> str:
    """What is wrong with these options; ``problem`` is written for one of them.

    >>> _problem(["--seeds", "--min-medal"], "needs an agent")
    '--seeds and --min-medal need an agent'
    """
    *others, last = names
    if others:
        verb, _, rest = problem.partition(" ")
        problem = f"{_PLURALS.get(verb, verb)} {rest}".replace(" it has ", " they have ")
        last = f"{', '.join(others)} and {last}"
    return f"{last} {problem}"
