"""What a pytest session is for: its settings, its agents, its run group, and what it collects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_mlebench.errors import MLEBenchError, UsageError, unusable
from pytest_mlebench.plugin import combinations, options, private

if TYPE_CHECKING:
    from pytest_mlebench.agents import Agent
    from pytest_mlebench.catalog import Competition
    from pytest_mlebench.runs.group import GroupReader
    from pytest_mlebench.runs.manifest import PlannedRun
    from pytest_mlebench.runs.record import RunKey, RunRecord
    from pytest_mlebench.settings import Settings

_SESSION: pytest.StashKey[Session] = pytest.StashKey()
_PREFERS_BENCHMARK = pytest.StashKey[bool]()
_WAYS = pytest.StashKey[dict[Path, list[Path]]]()
_NAMES = "competitions/"
"""How node ids of bundled competitions begin, wherever the package is installed."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """One invocation of pytest. Where no agents run, only ``settings``, ``rootdir`` and ``chosen`` matter."""

    settings: Settings
    rootdir: Path
    chosen: tuple[Competition, ...] | None = None
    """The competitions of ``--split``; None: all."""
    agents: tuple[Agent, ...] = ()
    reader: GroupReader | None = None
    """Of the run group; None where no agents run."""
    resumed: tuple[PlannedRun, ...] = ()
    """The runs of the group that ``--resume`` names."""
    finished: Mapping[RunKey, RunRecord] = field(default_factory=dict)
    """The runs of the group that are not run again."""
    worker: str = ""

    @property
    def group(self) -> Path:
        """The run group's folder."""
        assert self.reader is not None
        return self.reader.folder

    def competition_file(self, nodeid: str) -> Path:
        """The ``competition.yaml`` that a node id begins with."""
        from pytest_mlebench.factories import catalogue

        name = nodeid.split("::")[0]
        found = catalogue(self.settings)
        own, id = self.rootdir / name, Path(name).parent.name
        return own if own.exists() or id not in found else found[id].folder / own.name


def session_of(config: pytest.Config) -> Session:
    return config.stash[_SESSION]


def configure(config: pytest.Config) -> None:
    """Read the settings, and choose what to collect; raises pytest.UsageError."""
    config.addinivalue_line("markers", "competition(id): the competition for the fixtures of pytest-mlebench")
    config.addinivalue_line("markers", "agent(id): the agent for the fixtures of pytest-mlebench")
    if config.option.help:
        return
    options.release_short_names(config)
    with usage_errors():
        session = config.stash[_SESSION] = _start(config)
        if not is_worker(config):
            combinations.check(session.settings, options.given(config))
            if session.settings.cluster is not None and not config.option.collectonly:
                from pytest_mlebench.plugin import cluster

                cluster.check(config)
        _choose_paths(config, session)
    if _wants_html(config):
        from pytest_mlebench.plugin.html import MedalReport

        config.pluginmanager.register(MedalReport(config), "mlebench-html")


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
    return session_of(config).settings.has_runs and not config.option.collectonly and not is_worker(config)


def is_worker(config: pytest.Config) -> bool:
    return private.worker_input(config) is not None


def _start(config: pytest.Config) -> Session:
    settings = options.read(config)
    if not settings.has_runs:
        return Session(settings=settings, rootdir=config.rootpath, chosen=_chosen(settings))
    from pytest_mlebench import factories
    from pytest_mlebench.runs.group import GroupReader
    from pytest_mlebench.runs.layout import MANIFEST
    from pytest_mlebench.runs.manifest import Manifest
    from pytest_mlebench.runs.record import RunRecord

    sent = private.worker_input(config)
    folder = Path(sent["mlebench_group"]) if sent else _group_folder(settings)
    resumed: tuple[PlannedRun, ...] = ()
    if settings.resume:
        manifest = Manifest.read(folder)
        if manifest is None:
            raise UsageError(f"run group {folder} has no {MANIFEST}: it cannot be resumed")
        settings, resumed = options.read_resumed(config, manifest, folder / MANIFEST), manifest.runs
    finished = [RunRecord.from_json(values) for values in sent["mlebench_finished"]] if sent else []
    session = Session(
        settings=settings,
        rootdir=config.rootpath,
        chosen=_chosen(settings),
        agents=factories.agents(settings),
        reader=GroupReader(folder),
        resumed=resumed,
        finished={record.key: record for record in finished},
        worker=sent["workerid"] if sent else "",
    )
    if not sent:
        _check_agents(session)
    return session


def read_finished(config: pytest.Config) -> None:
    """Read which runs are finished. To be called when the group is open: until then, workers of a killed session may
    finish some more."""
    session = session_of(config)
    assert session.reader is not None
    again = session.settings.retry_failed
    finished = {record.key: record for record in session.reader.records() if record.outcome not in again}
    config.stash[_SESSION] = replace(session, finished=finished)


def _chosen(settings: Settings) -> tuple[Competition, ...] | None:
    if settings.split is None:
        return None
    from pytest_mlebench.factories import competitions

    return tuple(competitions(settings))


def _check_agents(session: Session) -> None:
    """Notice before the first run that a secret is not set, or that there are too few GPUs.

    Other machines have GPUs of their own, and their own environment unless ``--cluster-keys`` gives the keys.
    """
    from pytest_mlebench.factories import check_agent

    settings, elsewhere = session.settings, session.settings.cluster not in (None, "local")
    if settings.cluster_keys is not None:
        from pytest_mlebench.cluster.keys import load_keys

        load_keys(settings.cluster_keys)
    elif elsewhere:
        return
    for agent in session.agents:
        check_agent(session.settings, agent)
    if session.settings.gpus and not elsewhere:
        from pytest_mlebench.sandbox.gpus import GpuPool

        GpuPool(session.settings.gpu_ids).check(session.settings.gpus)


def _group_folder(settings: Settings) -> Path:
    resumed, named = settings.resume, settings.run_group
    if resumed is None:
        return _group(settings.runs_dir, named or _new_group_name())
    from pytest_mlebench.runs.group import find_group

    folder = find_group(resumed, settings.runs_dir).absolute()
    if named is not None and _group(settings.runs_dir, named) != folder:
        raise UsageError(f"--resume={resumed} and --run-group={named} are two groups; name one")
    return folder


def _group(runs_dir: Path, name: str) -> Path:
    """The group of ``--run-group``, which may be new: any folder, or a name below ``runs_dir``."""
    from pytest_mlebench.runs.group import LAST, find_group

    return (find_group(name, runs_dir) if name == LAST else runs_dir / name).absolute()


def _new_group_name() -> str:
    import secrets

    return f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}-{secrets.token_hex(2)}"


def _choose_paths(config: pytest.Config, session: Session) -> None:
    """Without a path, collect bundled competitions, or the runs of the group that is resumed.

    An xdist worker is given the command line as the user wrote it, and finds the same items.
    """
    settings = session.settings
    if private.has_paths(config) or not (settings.has_runs or settings.split):
        here = config.invocation_params.dir
        private.set_paths(config, [_with_bundled(session, argument, here) for argument in config.args])
        return
    if paths := _resumed_paths(config, session):
        private.set_paths(config, paths)
        return
    from pytest_mlebench import factories

    # `-k spaceship` needs no --split=dev.
    prefers_benchmark = settings.split is None and bool(config.option.keyword or config.option.markexpr)
    config.stash[_PREFERS_BENCHMARK] = prefers_benchmark
    chosen: Iterable[Competition]
    chosen = factories.catalogue(settings) if prefers_benchmark else factories.competitions(settings)
    files = [competition.folder / "competition.yaml" for competition in chosen]
    private.set_paths(config, map(str, files))
    config.stash[_WAYS] = _ways(files)


def _ways(files: Iterable[Path]) -> dict[Path, list[Path]]:
    """The folders on the way to files, each with the next steps: folders, and the files themselves."""
    ways: dict[Path, dict[Path, None]] = {}
    for file in files:
        path = file
        while path not in ways.get(path.parent, ()) and path.parent != path:
            ways.setdefault(path.parent, {})[path] = None
            path = path.parent
    return {folder: list(steps) for folder, steps in ways.items()}


def ways_below(config: pytest.Config, folder: Path) -> list[Path]:
    """What is to be collected of a folder, if this session chose itself what to collect; nothing for other folders."""
    return config.stash.get(_WAYS, {}).get(folder, [])


def _resumed_paths(config: pytest.Config, session: Session) -> list[str]:
    """The runs of a group that is resumed; its competitions if the command line names other agents or seeds."""
    if session.settings.split:
        return []
    others = not {"--agent", "--seeds"}.isdisjoint(options.given(config))
    files = ((session.competition_file(run.nodeid), run.nodeid.partition("::")[2]) for run in session.resumed)
    return list(dict.fromkeys(str(file) if others else f"{file}::{name}" for file, name in files))


def _with_bundled(session: Session, argument: str, here: Path) -> str:
    """``competitions/ID/…`` names a competition of the catalogue where there is no such folder, as node ids do."""
    path, *names = argument.split("::")
    if not path.startswith(_NAMES) or (here / path).exists():
        return argument
    from pytest_mlebench.catalog.catalogue import unknown
    from pytest_mlebench.factories import catalogue

    found, (_, id, *rest) = catalogue(session.settings), Path(path).parts
    if id in found:
        return "::".join([str(found[id].folder.joinpath(*rest)), *names])
    if rest == ["competition.yaml"]:
        raise unknown("competition", id, found.ids)
    return argument


def offered(config: pytest.Config) -> list[str]:
    """The ids of the competitions that the session collects on its own; none where paths choose."""
    return [file.parent.name for ways in config.stash.get(_WAYS, {}).values() for file in ways if file.is_file()]


def prefer_the_benchmark(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without ``--split``, -k and -m choose among the benchmark, and among the rest where none of that matches."""
    if not config.stash.get(_PREFERS_BENCHMARK, False):
        return
    from pytest_mlebench.catalog.catalogue import BENCHMARK
    from pytest_mlebench.plugin.collection import CompetitionItem

    inside = [item for item in items if isinstance(item, CompetitionItem) and item.competition.split in BENCHMARK]
    if inside:
        kept = set(inside)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = inside


def _wants_html(config: pytest.Config) -> bool:
    return writes_group(config) and bool(getattr(config.option, "htmlpath", None)) and private.is_on(config, "html")


def for_workers(config: pytest.Config) -> dict[str, Any]:
    """What xdist workers are given: one group for all, and its records, which are read once."""
    session = session_of(config)
    if not session.settings.has_runs:
        return {}
    finished = [record.to_json() for record in session.finished.values()]
    return {"mlebench_group": str(session.group), "mlebench_finished": finished}
