"""The options as pytest has them: its command line, its ini file, and the run group that ``--resume`` names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from pytest_mlebench import options as settings
from pytest_mlebench.options import INI, LIST, OPTIONS, TOPICS, Settings
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
