"""State of a pytest session: its options and settings, agents, run group, and what it collects."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import pytest

from pytest_mlebench.errors import MLEBenchError, UsageError, unusable
from pytest_mlebench.io.extensions import extensions, load_extension, not_installed
from pytest_mlebench.io.files import real_path
from pytest_mlebench.options import (
    FLAG,
    INI,
    LIST,
    OPTIONS,
    TOPICS,
    Settings,
    check_effects,
    read_call,
    without_effect,
)
from pytest_mlebench.plugin import internals
from pytest_mlebench.runs.guard import CONFTEST, group_of, has_guard, is_group

if TYPE_CHECKING:
    from pytest_mlebench.agents import Agent
    from pytest_mlebench.bench import Bench
    from pytest_mlebench.catalog import Catalogue, Competition
    from pytest_mlebench.io.progress import Reporter
    from pytest_mlebench.options import OptionSource
    from pytest_mlebench.records.group import GroupReader
    from pytest_mlebench.records.manifest import PlannedRun
    from pytest_mlebench.records.record import RunKey, RunRecord

Result = TypeVar("Result")

_SESSION: pytest.StashKey[Session] = pytest.StashKey()
RECORD: pytest.StashKey[RunRecord] = pytest.StashKey()
HARNESS_ERROR = pytest.StashKey[str]()
"""Why a run has no record: the harness failed before writing one."""
NOT_PREPARED = pytest.StashKey[str]()
"""Why an item was skipped: its data is not prepared."""
CANNOT_WORK = pytest.StashKey[dict[str, str]]()
"""In the config's stash: by agent id, why no model call was answered. The agent's other runs are skipped."""
NOT_RUN = pytest.StashKey[str]()
"""Why a run was skipped (see ``CANNOT_WORK``)."""
ATTACHED = "mlebench"
"""Report attribute with the values above. It contains plain values, because workers send it to xdist's controller."""

FIXTURES = (
    *("agent", "competition", "data_store", "dataset", "grade_submission", "run_agent", "run_group", "sandbox"),
    *("synthetic_dataset", "synthetic_grades"),
)
FIXTURES_MODULE = "pytest_mlebench.plugin.fixtures"

NAMES = "competitions/"
"""Prefix of the node ids of bundled competitions, wherever the package is installed."""


@dataclass(kw_only=True)
class Session:
    """One invocation of pytest. If no agents run, only the first seven attributes are used."""

    settings: Settings
    reporter: Reporter
    workers: int
    rootdir: Path
    chosen: tuple[Competition, ...] | None = None
    """The competitions of ``--split``; None for all."""
    ways: Mapping[Path, Sequence[Path]] = field(default_factory=dict)
    """If the session itself chooses what to collect: maps each parent folder to the children to collect."""
    prefers_benchmark: bool = False
    """Whether -k and -m select from the benchmark first, because no ``--split`` was given."""
    agents: tuple[Agent, ...] = ()
    reader: GroupReader | None = None
    """The reader of the run group; None if no agents run."""
    resumed: tuple[PlannedRun, ...] = ()
    """The planned runs of the ``--resume`` group."""
    finished: Mapping[RunKey, RunRecord] = field(default_factory=dict)
    """The runs of the group that are not rerun."""
    worker: str = ""
    runs_of: Callable[[Any], Iterator[pytest.Item]] | None = None
    """Creates the items of a ``competition.yaml`` if agents run; None to collect its checks."""

    @cached_property
    def catalogue(self) -> Catalogue:
        """The competitions. Collecting needs nothing else of ``bench``."""
        from pytest_mlebench.catalog import default_catalogue

        return default_catalogue(*self.settings.competitions_dirs, version=self.settings.version)

    @cached_property
    def bench(self) -> Bench:
        from pytest_mlebench.bench import Bench

        bench = Bench(settings=self.settings, reporter=self.reporter, workers=self.workers)
        bench.catalogue = self.catalogue
        return bench

    @property
    def group(self) -> Path:
        """The run group's folder."""
        assert self.reader is not None
        return self.reader.folder

    def competition_file(self, nodeid: str) -> Path:
        """Return the ``competition.yaml`` of a node id."""
        name = nodeid.split("::")[0]
        path, id = self.rootdir / name, Path(name).parent.name
        return path if path.exists() or id not in self.catalogue else self.catalogue[id].folder / path.name


class Engines(Protocol):
    """The interface of the ``engines`` extra for sessions with ``--cluster``: a module, found by its entry point."""

    def load_keys(self, file: Path) -> object:
        """Add the keys of ``--cluster-keys`` to the environment; raises UsageError."""

    def check(self, config: pytest.Config) -> None:
        """Check that runs can be submitted to the engine; raises UsageError."""

    def check_none_runs(self, session: Session) -> None:
        """Raise UsageError if an engine still executes runs that this session cannot continue."""

    def machine_shares(self, settings: Settings) -> int:
        """Return the number of runs that share one machine."""

    def description(self, config: pytest.Config) -> Mapping[str, str] | None:
        """Return the engine's description for the manifest."""

    def loop(self, session: pytest.Session) -> bool | None:
        """Run the session's items in the order in which their runs end; None for sessions without ``--cluster``."""

    def fetched(self, config: pytest.Config, key: RunKey) -> RunRecord:
        """Return the record of a finished run; raises SandboxError if there is none."""


def engines() -> Engines:
    """Return the ``engines`` extra; raises UsageError if it is not installed."""
    found: Engines | None = load_extension("mlebench.plugins", "engines")
    if found is None:
        raise UsageError(not_installed("--cluster"))
    return found


def has_engines() -> bool:
    return "engines" in extensions("mlebench.plugins")


def add_ini_keys(parser: pytest.Parser) -> None:
    for option in OPTIONS.values():
        if option.traits & INI:
            kind: Literal["args", "bool", "string"]
            kind = "args" if option.traits & LIST else "bool" if option.traits & FLAG else "string"
            parser.addini(option.ini_key, f"default of {option.name}: {option.help}", type=kind, default=None)


def add_options(parser: pytest.Parser) -> None:
    """Add each option by its short and long name, or only by its long name if the short one is taken.

    Must be called after all plugins and initial conftests have added their options.
    """
    taken = internals.taken_option_names(parser)
    for topic, (topic_options, _) in TOPICS.items():
        group = parser.getgroup(f"mlebench {topic}", f"MLE-bench: {topic}")
        for option in map(OPTIONS.__getitem__, topic_options.split()):
            names = (option.long_name,) if option.name in taken else (option.name, option.long_name)
            group.addoption(*names, **option.for_argparse)


def read_settings(config: pytest.Config, *resumed: OptionSource) -> Settings:
    """Read the settings, with those of the ``resumed`` run group if any; raises UsageError."""
    ini = {
        option.ini_key: internals.ini_value_as_written(config, option.ini_key)
        for option in OPTIONS.values()
        if option.traits & INI
    }
    here = config.invocation_params.dir
    return read_call(config.option, *resumed, ini=ini, file=config.inipath, here=here, root=config.rootpath)


def given_options(config: pytest.Config) -> frozenset[str]:
    """Return the names of the options on the command line."""
    return frozenset(option.name for option in OPTIONS.values() if getattr(config.option, option.dest, None))


def session_of(config: pytest.Config) -> Session:
    return config.stash[_SESSION]


def settings_of(config: pytest.Config) -> Settings:
    return session_of(config).settings


def configure(config: pytest.Config, reporter: Reporter) -> None:
    """Create the session; raises pytest.UsageError for invalid settings. ``reporter`` shows progress events."""
    config.addinivalue_line("markers", "competition(id): the competition for the fixtures of pytest-mlebench")
    config.addinivalue_line("markers", "agent(id): the agent for the fixtures of pytest-mlebench")
    if config.option.help:
        return
    internals.release_option_names(config, {option.name: option.dest for option in OPTIONS.values()})
    with usage_errors():
        config.stash[_SESSION] = Session(
            settings=read_settings(config),
            reporter=reporter,
            workers=internals.worker_count(config),
            rootdir=config.rootpath,
        )


def check_options(config: pytest.Config) -> None:
    """Check that each option on the command line has an effect; raises pytest.UsageError."""
    if not is_worker(config):
        with usage_errors():
            check_effects(settings_of(config), given_options(config))


def header(config: pytest.Config) -> list[str]:
    """Return the header of a session without ``--agent``: options that may have no effect."""
    if settings_of(config).has_runs:
        return []
    ignored = without_effect(settings_of(config), given_options(config))
    return [f"mlebench: without --agent, only tests that run agents use {', '.join(ignored)}"] if ignored else []


def chooses(config: pytest.Config) -> bool:
    """Whether the session chooses competitions: agents run, or a split or a possible catalogue path is given."""
    settings = settings_of(config)
    return settings.has_runs or settings.split is not None or any(arg.startswith(NAMES) for arg in config.args)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Context manager: convert MLEBenchError, and OSError about a file, to pytest.UsageError, shown as one line."""
    try:
        yield
    except MLEBenchError as error:
        raise pytest.UsageError(str(error)) from error
    except OSError as error:
        if error.filename is None:
            raise
        raise pytest.UsageError(unusable(error)) from error


def or_fail(function: Callable[[], Result]) -> Result:
    """Call the function; an MLEBenchError fails the test with its message, without a traceback."""
    from pytest_mlebench.io.units import plain

    try:
        return function()
    except MLEBenchError as error:
        message = plain(str(error))  # may quote an agent
    pytest.fail(message, pytrace=False)  # outside the handler: within it, pytest would show both exceptions


def writes_group(config: pytest.Config) -> bool:
    """Whether this process manages the run group: it runs agents itself or through workers."""
    return settings_of(config).has_runs and not config.option.collectonly and not is_worker(config)


def is_worker(config: pytest.Config) -> bool:
    return internals.worker_input(config) is not None


def offered(config: pytest.Config) -> list[str]:
    """Return the ids of the competitions that the session chose itself; empty if the user gave paths."""
    return [file.parent.name for paths in session_of(config).ways.values() for file in paths if file.is_file()]


def is_ours(item: pytest.Item) -> bool:
    """Whether an item has data for its report, or may show an agent's secrets."""
    has_data = RECORD in item.stash or HARNESS_ERROR in item.stash or NOT_PREPARED in item.stash
    return has_data or settings_of(item.config).has_runs


class Leavings(pytest.Directory):
    """The folder of a run group or run. Nothing in it is collected, and its conftests are not imported."""

    def collect(self) -> Iterator[pytest.Collector]:
        return iter(())


def is_ignored(path: Path) -> bool:
    return path.is_dir() and is_group(path)


def refuse_paths(config: pytest.Config) -> None:
    """Raise pytest.UsageError for a path in a run group: pytest would import the conftests of its parent folders."""
    for name in internals.initial_paths(config):
        path = Path(os.path.abspath(config.invocation_params.dir / name.split("::")[0]))  # noqa: PTH100 - keep links
        # pytest also looks for conftests in subfolders named test*.
        is_dir = os.path.isdir(path)  # noqa: PTH112 - False for a name that is too long, which pytest reports
        tests = [folder for folder in path.glob("test*") if (folder / CONFTEST).exists()] if is_dir else []
        for candidate in {path, real_path(path), *(folder for folder in tests if not has_guard(folder))}:
            if (group := group_of(candidate)) is not None:
                raise pytest.UsageError(
                    f"{name} is in the run group {group}, whose files agents wrote: pytest does not collect or import "
                    "them. Name your tests, or start pytest in your project's folder. To inspect these files: "
                    "mlebench files, mlebench unpack"
                )
