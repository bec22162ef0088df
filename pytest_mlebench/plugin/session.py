"""What a pytest session is for: its options and settings, its agents, its run group, and what it collects."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pytest

from pytest_mlebench.errors import MLEBenchError, UsageError, unusable
from pytest_mlebench.io.extensions import extensions, load_extension
from pytest_mlebench.options import AGENT, GRANTED, INI, LIST, NEEDS, OPTIONS, RESTORED, TOPICS, Settings, read_call
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

_SESSION: pytest.StashKey[Session] = pytest.StashKey()
RECORD: pytest.StashKey[RunRecord] = pytest.StashKey()
HARNESS_ERROR = pytest.StashKey[str]()
"""Why a run has no record: the harness could not even write one."""
NOT_PREPARED = pytest.StashKey[str]()
"""Why an item was skipped: its data is not there."""
CANNOT_WORK = pytest.StashKey[dict[str, str]]()
"""Of the session's config: by agent, why none of its model calls can be answered. Its other runs are skipped."""
NOT_RUN = pytest.StashKey[str]()
"""Why an item was skipped: see ``CANNOT_WORK``."""
ATTACHED = "mlebench"
"""The attribute of a report that holds what is above; a mapping of plain values travels from workers to xdist's
controller."""

FIXTURES = (
    *("agent", "competition", "data_store", "dataset", "grade_submission", "run_agent", "run_group", "sandbox"),
    *("synthetic_dataset", "synthetic_grades"),
)
"""The names of the plugin's fixtures."""
FIXTURES_MODULE = "pytest_mlebench.plugin.fixtures"

NAMES = "competitions/"
"""How node ids of bundled competitions begin, wherever the package is installed."""


@dataclass(kw_only=True)
class Session:
    """One invocation of pytest. Where no agents run, only the first four and ``chosen`` matter."""

    settings: Settings
    reporter: Reporter
    workers: int
    rootdir: Path
    chosen: tuple[Competition, ...] | None = None
    """The competitions of ``--split``; None: all."""
    ways: Mapping[Path, Sequence[Path]] = field(default_factory=dict)
    """Where this session chooses what to collect: each folder on the way to that, with the next steps."""
    prefers_benchmark: bool = False
    """Whether -k and -m choose among the benchmark's competitions first, as no ``--split`` was named."""
    agents: tuple[Agent, ...] = ()
    reader: GroupReader | None = None
    """Of the run group; None where no agents run."""
    resumed: tuple[PlannedRun, ...] = ()
    """The runs of the group that ``--resume`` names."""
    finished: Mapping[RunKey, RunRecord] = field(default_factory=dict)
    """The runs of the group that are not run again."""
    worker: str = ""
    runs_of: Callable[[Any], Iterator[pytest.Item]] | None = None
    """The items of a ``competition.yaml`` where agents run; None: its checks."""

    @cached_property
    def catalogue(self) -> Catalogue:
        """The competitions; all that collecting needs."""
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
        """The ``competition.yaml`` that a node id begins with."""
        name = nodeid.split("::")[0]
        found = self.catalogue
        own, id = self.rootdir / name, Path(name).parent.name
        return own if own.exists() or id not in found else found[id].folder / own.name


class Engines(Protocol):
    """What the extra ``engines`` does for a session with ``--cluster``: a module, found by its entry point."""

    def load_keys(self, file: Path) -> object:
        """Add the keys of ``--cluster-keys`` to the environment; raises UsageError."""

    def check(self, config: pytest.Config) -> None:
        """Check that runs can be handed to the engine; raises UsageError."""

    def check_none_runs(self, session: Session) -> None:
        """Where this session does runs itself: see that no engine still does them; raises UsageError."""

    def machine_shares(self, settings: Settings) -> int:
        """How many runs share one machine."""

    def description(self, config: pytest.Config) -> Mapping[str, str] | None:
        """What the manifest says of the engine."""

    def loop(self, session: pytest.Session) -> bool | None:
        """Run the session's items, in the order in which their runs end; None for other sessions."""

    def fetched(self, config: pytest.Config, key: RunKey) -> RunRecord:
        """The record of a run that has ended; raises SandboxError where it left none."""


def engines() -> Engines:
    """The extra that hands runs to engines; raises UsageError where it is not installed."""
    found: Engines | None = load_extension("mlebench.plugins", "engines")
    if found is None:
        raise UsageError("--cluster needs the extra of engines, which this installation of pytest-mlebench lacks")
    return found


def has_engines() -> bool:
    return "engines" in extensions("mlebench.plugins")


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


def read_settings(config: pytest.Config, *resumed: OptionSource) -> Settings:
    """The settings, with those of a run group that is ``resumed``; raises UsageError."""
    ini = {option.ini_key: config.getini(option.ini_key) for option in OPTIONS.values() if option.traits & INI}
    here = config.invocation_params.dir
    return read_call(config.option, *resumed, ini=ini, file=config.inipath, here=here, root=config.rootpath)


def given_options(config: pytest.Config) -> frozenset[str]:
    """The names of the options that the command line has."""
    return frozenset(option.name for option in OPTIONS.values() if getattr(config.option, option.dest, None))


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


def check_effects(settings: Settings, given: AbstractSet[str]) -> None:
    """Check that each of the ``given`` options has an effect; raises UsageError."""
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


def session_of(config: pytest.Config) -> Session:
    return config.stash[_SESSION]


def settings_of(config: pytest.Config) -> Settings:
    return session_of(config).settings


def configure(config: pytest.Config, reporter: Reporter) -> None:
    """Read the settings; raises pytest.UsageError for wrong ones. ``reporter`` shows what work reports."""
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
    """What a session without ``--agent`` says at its start: options that may have no effect."""
    if settings_of(config).has_runs:
        return []
    ignored = without_effect(settings_of(config), given_options(config))
    return [f"mlebench: without --agent, only tests that run agents use {', '.join(ignored)}"] if ignored else []


def chooses(config: pytest.Config) -> bool:
    """Whether competitions are to be chosen: agents run, a split is named, or a path that may be in the catalogue."""
    settings = settings_of(config)
    return settings.has_runs or settings.split is not None or any(arg.startswith(NAMES) for arg in config.args)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Errors of ours that come up here are mistakes of the user: pytest shows them in a line."""
    try:
        yield
    except MLEBenchError as error:
        raise pytest.UsageError(str(error)) from error
    except OSError as error:
        if error.filename is None:
            raise
        raise pytest.UsageError(unusable(error)) from error


def writes_group(config: pytest.Config) -> bool:
    """Whether this process runs agents, or has workers run them, and keeps their run group."""
    return settings_of(config).has_runs and not config.option.collectonly and not is_worker(config)


def is_worker(config: pytest.Config) -> bool:
    return internals.worker_input(config) is not None


def offered(config: pytest.Config) -> list[str]:
    """The ids of the competitions that the session collects on its own; none where paths choose."""
    return [file.parent.name for ways in session_of(config).ways.values() for file in ways if file.is_file()]


def is_ours(item: pytest.Item) -> bool:
    """Whether an item has left something for its report, or may show an agent's secrets."""
    left = RECORD in item.stash or HARNESS_ERROR in item.stash or NOT_PREPARED in item.stash
    return left or settings_of(item.config).has_runs


class Leavings(pytest.Directory):
    """The folder of a run group or of a run: nothing in it is collected, and no conftest of it imported."""

    def collect(self) -> Iterator[pytest.Collector]:
        return iter(())


def is_ignored(path: Path) -> bool:
    return path.is_dir() and is_group(path)


def refuse_paths(config: pytest.Config) -> None:
    """Raise UsageError for a path in a run group: pytest would import each ``conftest.py`` on the way to it."""
    for name in internals.initial_paths(config):
        path = Path(os.path.abspath(config.invocation_params.dir / name.split("::")[0]))  # noqa: PTH100 - links count
        # pytest looks for conftests in folders called test… as well.
        tests = [folder for folder in path.glob("test*") if (folder / CONFTEST).exists()] if path.is_dir() else []
        for way in {path, path.resolve(), *(folder for folder in tests if not has_guard(folder))}:
            if (group := group_of(way)) is not None:
                raise pytest.UsageError(
                    f"{name} is in the run group {group}, whose files agents wrote: pytest does not collect or import "
                    "them. Name your tests, or start pytest in the folder of your project. To look at these files: "
                    "mlebench files, mlebench unpack"
                )
