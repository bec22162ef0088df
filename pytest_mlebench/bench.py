"""``Bench``: the benchmark as one object, with the options of the command line.

>>> from pytest_mlebench import Bench
>>> with Bench(sandbox="local", runs_dir="more") as bench:
...     group = bench.run("dummy", "smoke-diabetes", group="bench")
>>> group.records[0].outcome.name
'no_medal'
"""

from __future__ import annotations

import os
import secrets
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from pytest_mlebench import options as declared
from pytest_mlebench.agents import Agent, AgentRegistry, Permissions
from pytest_mlebench.agents.registry import check_folder
from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.catalog.competition import FIRST, item_name
from pytest_mlebench.data.dataset import OBFUSCATED, default_data_dir
from pytest_mlebench.data.preparing import Twins, resolve_choice, seed_of, twins_of, with_twins
from pytest_mlebench.data.store import DEFAULT_JOBS, DataStore, PrepareOptions
from pytest_mlebench.defaults import MAX_SEEDS
from pytest_mlebench.errors import DataError, MLEBenchError, SandboxError, UsageError, expect, number, quoted, reason
from pytest_mlebench.grading.grader import Grader, GradingLimits
from pytest_mlebench.io.extensions import extensions, is_deleted, load_extension, not_installed
from pytest_mlebench.io.files import AnyPath, bundled, expanded, remove_tree
from pytest_mlebench.io.progress import Note, Reporter, WarningNote, silent
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.manifest import Manifest, PlannedRun
from pytest_mlebench.records.record import RunKey
from pytest_mlebench.results import LAST, find_group, read_group
from pytest_mlebench.runs.regrade import Regrader, Regrading, regrade, write_regrading
from pytest_mlebench.runs.writer import OpenGroup, check_group_name, make_runs_dir
from pytest_mlebench.sandbox import Limits
from pytest_mlebench.sandbox.collection import SnapshotPolicy
from pytest_mlebench.sandbox.contract import choose

if TYPE_CHECKING:
    from pytest_mlebench.catalog import Catalogue
    from pytest_mlebench.data.dataset import Dataset, Description
    from pytest_mlebench.data.jobs import PreparationResult
    from pytest_mlebench.llm.accounting import GatewaySettings
    from pytest_mlebench.records.outcome import Report
    from pytest_mlebench.results.overview import Overview
    from pytest_mlebench.runs.run import RunOptions
    from pytest_mlebench.sandbox import AddedSandbox, ContainerSandbox, Sandbox
    from pytest_mlebench.sandbox.docker.sandbox import DockerSandbox

_SANDBOXES = "mlebench.sandboxes"
"""Entry point group of added sandboxes: functions that take the ``Bench`` and return an ``AddedSandbox``."""
_METHODS = "mlebench.methods"
"""Entry point group of added methods: functions that take the ``Bench`` as first argument."""
_MAX_UNPACKED = 64 << 30
"""Maximum unpacked size of a bundle that is opened, in bytes."""


class Bench:
    """The benchmark and its options. Resources are opened on first use.

    Options are named as on the command line, with underscores: ``Bench(sandbox="docker", max_cost=2)``. Values may be
    command-line strings, numbers or paths; a repeatable option takes a list. Omitted options come from the same
    environment variables as on the command line. Ini files are not read. ``reporter`` is called with progress and
    warnings.

    Agents get no keys, and have limits and records as in a pytest session. Methods of extras, such as ``audit`` and
    ``bundle``, exist if the extra is installed. Raises UsageError for an unknown option or an invalid value.

    >>> Bench(max_cost="lots")
    Traceback (most recent call last):
    ...
    pytest_mlebench.errors.UsageError: max_cost: 'lots' is not a positive number
    """

    def __init__(
        self,
        *,
        reporter: Reporter = silent,
        settings: declared.Settings | None = None,
        workers: int = 1,
        **options: Any,
    ) -> None:
        if settings is not None:
            expect(settings, declared.Settings, "settings", "or leave it out, and give options by name")
        number(workers, "workers", least=1)
        self.settings = settings or declared.from_python(options)
        self._given = frozenset(f"--{name.replace('_', '-')}" for name, value in options.items() if value)
        self.reporter, self.workers = reporter, workers
        self._containers: dict[str, DockerSandbox] = {}
        self._added: dict[str, AddedSandbox] = {}
        self._opened: dict[Path, Path] = {}
        self._unpacked = ExitStack()
        weakref.finalize(self, self._unpacked.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Discard the opened sandboxes and the unpacked bundles; the object can be used again afterwards."""
        self._containers.clear()
        self._added.clear()
        self._opened.clear()
        self._unpacked.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        method = load_extension(_METHODS, name)
        if method is None:
            deleted = is_deleted(_METHODS, name) or name in extensions(_METHODS)
            raise AttributeError(not_installed(f"Bench.{name}") if deleted else f"Bench has no attribute {name!r}")
        return method.__get__(self)

    def with_settings(self, **changes: Any) -> Bench:
        """A copy with other settings, which shares this object's container sandboxes."""
        copy = Bench(settings=replace(self.settings, **changes), reporter=self.reporter, workers=self.workers)
        copy._containers, copy._given = self._containers, self._given
        return copy

    # Objects that the options determine.

    @cached_property
    def catalogue(self) -> Catalogue:
        """The bundled competitions, and those in ``competitions_dir``."""
        return default_catalogue(*self.settings.competitions_dirs, version=self.settings.version)

    @cached_property
    def registry(self) -> AgentRegistry:
        """The bundled agents, and those in ``agents_dir``."""
        return AgentRegistry(bundled("agents"), *self.settings.agents_dirs)

    @cached_property
    def store(self) -> DataStore:
        """The store of prepared data in ``data_dir``; with ``data="twin"``, the store of twins. Raises DataError if the
        default folder is needed and there is no home directory."""
        return self.store_of()

    def store_of(self, seed: int = 0) -> DataStore:
        """The data store for runs with this seed; with ``twin_per_seed``, each seed has its own."""
        if not self.settings.has_twins:
            return DataStore(self.data_dir, source=self.settings.data_source, policy=None)
        return self.twin_store(twins_of(self._twins, seed if self.settings.twin_per_seed else None))

    def twin_store(self, twins: Twins) -> DataStore:
        """The data store of these twins."""
        from pytest_mlebench.grading.twins import TwinStore

        return TwinStore(self.data_dir, twins)

    @cached_property
    def _twins(self) -> str:
        """The option ``data`` with a key in place of the seed. A random seed is drawn only once."""
        return resolve_choice(self.settings.data, self.data_dir)

    def settle_twins(self, group: Path) -> Bench:
        """Return a Bench whose option ``data`` has the key of the twins' seed: the run group's if it exists, else a new
        one. Returns this object if nothing changes. Raises DataError."""
        manifest = Manifest.read(group) if self.settings.has_twins else None
        known = None if manifest is None else manifest.settings.get("data")
        chosen = resolve_choice(self.settings.data, self.data_dir, known=known if isinstance(known, str) else None)
        return self if chosen == self.settings.data else self.with_settings(data=chosen)

    @property
    def data_dir(self) -> Path:
        """The data folder. Raises DataError if the default is needed and there is no home directory."""
        return self.settings.data_dir or default_data_dir()

    @property
    def chosen_agents(self) -> tuple[Agent, ...]:
        """The agents of the option ``agent``; raises UsageError for an unknown one."""
        return tuple(self.registry[id] for id in self.settings.agents)

    @property
    def permissions(self) -> Permissions:
        """The permissions that the user grants to agents."""
        settings = self.settings
        return Permissions(
            allow_secrets=settings.allow_secrets, allow_hosts=settings.allow_hosts, trust_agents=settings.trust_agents
        )

    @property
    def limits(self) -> Limits:
        """The limits of each run."""
        names = ("time_limit", "cpus", "memory", "disk", "gpus")
        return Limits(**{name: getattr(self.settings, name) for name in names})

    @property
    def prepare_options(self) -> PrepareOptions:
        """Arguments of ``DataStore.prepare`` for runs. Existing raw data is kept."""
        described = self.settings.description
        # Each run obfuscates its own description.
        stored = None if described == OBFUSCATED else cast("Description | None", described)
        return {"keep_raw": None, "description": stored}

    @property
    def grading_options(self) -> dict[str, Any]:
        """Keyword arguments of ``Grader``."""
        limits = GradingLimits(memory=self.settings.grading_memory, seconds=self.settings.grading_time)
        return {"max_bytes": self.settings.max_submission_size, "limits": limits}

    @cached_property
    def gateway(self) -> GatewaySettings:
        """Settings of the gateways to language models; raises UsageError for an invalid providers or prices file."""
        from pytest_mlebench.llm.accounting import GatewaySettings

        settings = self.settings
        return GatewaySettings.load(
            providers=settings.llm_providers,
            prices=settings.prices,
            record=settings.llm_record,
            limits={
                name: getattr(settings, name) for name in ("max_cost", "max_tokens", "max_calls", "max_total_cost")
            },
            models=settings.models,
            retries=settings.llm_retries,
            rpm=settings.llm_rpm,
            allow_provider_tools=settings.allow_provider_tools,
        )

    @property
    def replayed_group(self) -> Path | None:
        """The folder of the run group ``llm_replay``; raises UsageError if the group is unknown."""
        name = self.settings.llm_replay
        return None if name is None else find_group(name, self.settings.runs_dir).absolute()

    @property
    def container_options(self) -> dict[str, Any]:
        """Keyword arguments of ``DockerSandbox``."""
        settings = self.settings
        # Only Docker's builder can be restricted to registries.
        offline_policy = "registries" if settings.sandbox in ("auto", "docker", "local") else "none"
        is_offline = settings.network == "none" and settings.build_network is None
        return {
            "network": settings.network,
            # An agent without network access cannot use its Dockerfile to send data out.
            "build_network": settings.build_network or (offline_policy if is_offline else "full"),
            **(
                {"bundled_build_network": "full"} if is_offline and offline_policy == "none" else {}
            ),  # bundled Dockerfiles are trusted
            "allow_hosts": list(settings.allow_hosts),
            "runtime": settings.runtime,
            "allow_privileged": settings.allow_privileged,
            **({"allow_unenforced_limits": True} if settings.allow_unenforced_limits else {}),
            "base_image": settings.base_image,
            "heavy": settings.heavy if settings.heavy != "auto" else "cuda" if settings.gpus else "cpu",
        }

    @property
    def comparable_settings(self) -> dict[str, Any]:
        """The settings, besides agents and limits, that must stay the same for the runs of a group to be comparable."""
        settings, containers = self.settings, self.container_options
        return {
            **({} if settings.version == FIRST else {"bench_version": settings.version}),
            **({"data": settings.data} if settings.has_twins else {}),
            **({"twin_per_seed": True} if settings.twin_per_seed else {}),
            "description": settings.description,
            "max_submission_size": settings.max_submission_size,
            "until": settings.until,
            "grading": {"memory": settings.grading_memory, "seconds": settings.grading_time},
            **containers,
            "heavy": containers["heavy"] or False,  # as in groups of earlier versions
            **_comparable_llm_settings(settings),
        }

    @property
    def session_options(self) -> dict[str, Any]:
        """The options that determine a run, by name, for another session or a job to restore."""
        return {**self.settings.restored_options(), "--data-dir": str(self.data_dir)}

    @property
    def _twin_details(self) -> dict[str, Any]:
        """Seed and size of the twins, for the manifest of a group whose runs are all done; empty without twins."""
        if not self.settings.has_twins:
            return {}
        twins = twins_of(self._twins)
        return {
            "seed": seed_of(twins.key, self.data_dir),
            "size": twins.size,
            "per_seed": self.settings.twin_per_seed,
        }

    def run_options(self, folder: Path, *, worker: str = "", job: Mapping[str, Any] | None = None) -> RunOptions:
        """The options of runs in the run group ``folder``. ``job`` describes the engine's job in their records."""
        from pytest_mlebench.runs.run import RunOptions

        settings = self.settings
        return RunOptions(
            folder=folder,
            limits=self.limits,
            max_submission_bytes=settings.max_submission_size,
            grading=self.grading_options["limits"],
            keep_sandbox=settings.keep_sandbox,
            obfuscated=settings.description == OBFUSCATED,
            until=settings.until,
            gateway=None if settings.llm_gateway == "off" else lambda: self.gateway,
            permissions=self.permissions,
            replay=self.replayed_group,
            worker=worker,
            snapshots=SnapshotPolicy() if settings.snapshots == "on" else None,
            job=job or {},
        )

    def regrader(self, version: str) -> Regrader:
        """A ``Regrader`` for a version of the benchmark."""
        catalogue = self.with_settings(bench_version=version.removeprefix("v")).catalogue
        return Regrader(catalogue, self.store, self.twin_store, self.grading_options)

    def check_agent(self, agent: Agent) -> None:
        """Check before the first run that an agent has the secrets, hosts and permissions that it needs.

        Raises AgentError, SandboxError or UsageError.
        """
        from pytest_mlebench.runs.run import check_hosts, run_environment

        check_folder(agent)  # before anything reads its files
        settings, granted, gateway, replayed = self.settings, self.permissions, None, False
        if settings.llm_gateway == "on" and agent.may_ask_models:
            gateway, replayed = self.gateway, self.replayed_group is not None
        elif settings.llm_replay is not None:
            _ = self.replayed_group  # an unknown group is an error for every agent
        elif settings.llm_providers or settings.prices:
            _ = self.gateway  # an invalid file is an error for every agent
        environment = run_environment(agent, granted, gateway, replayed=replayed)
        if settings.network == "llm" and settings.sandbox != "local":
            check_hosts(agent, granted, gateway)
        if gateway is None:
            agent.launch(environment)
            return
        from pytest_mlebench.llm.gateway import check_secrets

        check_secrets(gateway, agent, replayed=replayed)

    def sandbox(self, agent: Agent) -> Sandbox:
        """The sandbox for an agent; raises SandboxError."""
        if (added := self.added_sandbox(self.settings.sandbox)) is not None:
            return added
        return choose(
            self.settings.sandbox,
            agent,
            self.permissions,
            local=self._local_sandbox,
            container=self.container_sandbox,
        )

    def ready_sandbox(self, agent: Agent) -> Sandbox:
        """The sandbox for an agent, ready to run it; raises SandboxError."""
        sandbox = self.sandbox(agent)
        sandbox.check(agent)
        sandbox.prepare(agent)
        return sandbox

    def _local_sandbox(self) -> Sandbox:
        from pytest_mlebench.sandbox.local.sandbox import LocalSandbox

        return LocalSandbox(
            limits=self.limits,
            workers=self.workers,
            gpu_ids=self.settings.gpu_ids,
            network=self.settings.network,
            reporter=self.reporter,
        )

    def container_sandbox(self, engine: str | None = None) -> DockerSandbox:
        """The container sandbox of Docker or Podman (default: set by the option ``sandbox``); raises SandboxError."""
        from pytest_mlebench.sandbox.docker.sandbox import DockerSandbox

        engine = engine or ("podman" if self.settings.sandbox == "podman" else "docker")
        if engine not in self._containers:
            self._containers[engine] = DockerSandbox(
                engine=engine,
                limits=self.limits,
                workers=self.workers,
                gpus=self.settings.gpus,
                gpu_ids=self.settings.gpu_ids,
                reporter=self.reporter,
                **self.container_options,
            )
        return self._containers[engine]

    def added_sandbox(self, kind: str) -> AddedSandbox | None:
        """The sandbox of an extra; None if no extra has one of this name. Raises SandboxError."""
        if kind not in self._added:
            create = load_extension(_SANDBOXES, kind)
            if create is None:
                return None
            self._added[kind] = create(self)
        return self._added[kind]

    def building_sandbox(self) -> ContainerSandbox:
        """The sandbox that the options select, for building its images; raises SandboxError if it has none."""
        added = self.added_sandbox(self.settings.sandbox)
        if added is None:
            return self.container_sandbox()
        if not hasattr(added, "images"):
            raise SandboxError(f"--sandbox={self.settings.sandbox} has no images")
        return cast("ContainerSandbox", added)

    # Operations.

    def agents(self) -> list[Agent]:
        """All agents that can be run, variants included."""
        return list(self.registry.load().values())

    def competitions(self, split: str | None = None) -> list[Competition]:
        """The competitions of a split (default: that of the option ``split``, else all). Raises UsageError."""
        chosen = self.settings.split if split is None else split
        if chosen is not None:
            expect(chosen, str, "split", "a name, for example 'lite'")
        return self.catalogue.split(chosen) if chosen else list(self.catalogue)

    def prepare(self, *competitions: str | Competition, split: str | None = None) -> list[Dataset]:
        """Prepare missing data of competitions, or of a split; raises DataError."""
        chosen = self._chosen(competitions, split)
        return [self.store.prepare(item, reporter=self.reporter, **self.prepare_options) for item in chosen]

    def prepare_all(
        self,
        competitions: Sequence[Competition],
        *,
        jobs: int = DEFAULT_JOBS,
        seed: int = 0,
        skip_denied: bool = False,
        ended: Callable[[PreparationResult], None] = lambda _: None,
        **options: Unpack[PrepareOptions],
    ) -> list[PreparationResult]:
        """Prepare competitions, ``jobs`` at once, each in its own process; a failure does not stop the others.

        Access to Kaggle and disk space are checked first; with ``skip_denied``, competitions that Kaggle denies are
        among the failures. ``seed`` is that of the runs (see ``store_of``), ``ended`` is called with each result as it
        arrives, and ``options`` are those of ``DataStore.prepare``. Raises DataError if the check fails.
        """
        from pytest_mlebench.data.download.kaggle import KaggleDownloads
        from pytest_mlebench.data.jobs import prepare_all

        store, how = self.store_of(seed), PrepareOptions(**{**self.prepare_options, **options})
        store.parallel_downloads = jobs
        store.check_all(
            competitions, KaggleDownloads(), jobs=jobs, skip_denied=skip_denied, reporter=self.reporter, **how
        )
        how["check_disk"] = how.get("check_disk", True) and "unpacking"
        return prepare_all(store, competitions, self.reporter, ended=ended, jobs=jobs, **how)

    def run(
        self,
        agent: str | Agent,
        competition: str | Competition | list[str | Competition] | None = None,
        *,
        split: str | None = None,
        seeds: int | Iterable[int] | None = None,
        group: AnyPath | None = None,
    ) -> RunGroup:
        """Run an agent on competitions, or on a split, and return the run group, which is complete on disk.

        ``seeds`` is the number of seeds, or lists them (default: the option ``seeds``, else 1). ``group`` is a new run
        group, or one to resume: runs that have a record are not rerun, except those that ``retry_failed`` selects.
        Failures of the agent or the harness are outcomes in records, and the other runs continue. So do they if a
        competition cannot be used, for example because its data cannot be prepared: ``reporter`` gets a warning.
        Raises UsageError, DataError or SandboxError if nothing can run, or if an option has no effect. Interrupts are
        passed on.
        """
        chosen_agent = self.registry[agent] if isinstance(agent, str) else agent
        expect(chosen_agent, Agent, "agent", "or a string with its id")
        named = competition if isinstance(competition, list | tuple) else [competition]
        chosen = self._chosen((item for item in named if item is not None), split)
        numbers = _seeds(self.settings.seeds if seeds is None else seeds)
        named_group = self.settings.run_group if group is None else group
        folder = group_folder(named_group, self.settings.runs_dir)
        bench = self.with_settings(agents=(chosen_agent.id,), run_group=named_group and str(named_group))
        declared.check_effects(bench.settings, self._given, in_session=False)
        return bench.settle_twins(folder)._run_all(folder, chosen_agent, chosen, numbers)

    def _run_all(
        self, folder: Path, agent: Agent, competitions: Iterable[Competition], seeds: Sequence[int]
    ) -> RunGroup:
        from pytest_mlebench.runs.run import check_seed, run_agent

        for seed in seeds:
            check_seed(seed)
        self.check_agent(agent)
        sandbox = self.sandbox(agent)
        sandbox.check(agent)
        by_id = {item.id: item for item in competitions}
        files = {id: item.folder / "competition.yaml" for id, item in by_id.items()}
        opened = self.open_group(
            folder,
            agents=(agent,),
            sandboxes={agent.id: sandbox.name},
            competition_file=lambda nodeid: files.get(Path(nodeid.split("::")[0]).parent.name, Path(nodeid)),
        )
        with opened:
            keys = dict.fromkeys(RunKey(agent.id, id, seed) for id in by_id for seed in seeds)
            opened.plan(PlannedRun(*key, nodeid=_nodeid(key, by_id[key.competition_id].version)) for key in keys)
            sandbox.prepare(agent)
            retried = self.settings.retry_failed
            finished = {record.key for record in opened.reader.records() if record.outcome not in retried}
            options = self.run_options(opened.folder)
            unusable: dict[str, MLEBenchError] = {}
            has_run = False
            for key in keys:
                if key in finished or key.competition_id in unusable:
                    continue
                item = by_id[key.competition_id]
                try:
                    record = run_agent(agent, item, self._prepared(item, key.seed), sandbox, options, seed=key.seed)
                except MLEBenchError as error:
                    unusable[item.id] = error
                    self.reporter(WarningNote(f"{item.id} is skipped: {error}"))
                    continue
                opened.reader.add(record)
                has_run = True
            if unusable and not has_run:
                raise next(iter(unusable.values()))
        return opened.reader.read()

    def _prepared(self, competition: Competition, seed: int) -> Dataset:
        """The data of a run, which is prepared now if it is missing and ``prepare`` allows it. Raises DataError."""
        store = self.store_of(seed)
        if self.settings.prepare == "never":
            if reason := self.why_not_prepared(competition, store):
                raise DataError(reason)
            return store.dataset(competition)
        return store.prepare(competition, reporter=self.reporter, **self.prepare_options)

    def why_not_prepared(self, competition: Competition, store: DataStore) -> str:
        """Why runs cannot use the competition's data without preparing it; empty if they can. Raises DataError."""
        if store.is_usable(competition, **self.prepare_options):
            return ""
        described = self.settings.description
        return store.not_prepared(
            competition, *(() if described in (None, OBFUSCATED) else (f"--description {described}",))
        )

    def open_group(
        self,
        folder: Path,
        *,
        agents: Sequence[Agent],
        sandboxes: Mapping[str, str],
        competition_file: Callable[[str], Path],
        workers: int | None = None,
        cluster: Mapping[str, str] | None = None,
    ) -> OpenGroup:
        """Open a run group to write runs to it.

        ``sandboxes`` maps agents to kinds of sandbox, ``competition_file`` finds the ``competition.yaml`` of a node id,
        ``workers`` is the number of runs that share the machine, and ``cluster`` describes the engine that gets the
        runs. Raises UsageError if another session has the group open, or if it was created with other settings.
        """
        from pytest_mlebench.reports.page import page  # imports Jinja2 and the plots

        make_runs_dir(folder.parent)
        return OpenGroup(
            folder,
            agents=agents,
            sandboxes=sandboxes,
            limits=self.limits,
            workers=self.workers if workers is None else workers,
            settings=self.comparable_settings,
            options=self.session_options,
            competition_file=competition_file,
            page=lambda group: page(self.report(group), folder=group.folder),
            allow_changes=self.settings.allow_changes,
            cluster=cluster,
            twins=self._twin_details,
            reporter=self.reporter,
        )

    def grade(self, competition: str | Competition, submission: AnyPath) -> Report:
        """Grade a submission against the competition's prepared answers. Raises DataError if they are missing."""
        (chosen,) = self._chosen((competition,), None)
        return Grader(chosen, self.store.dataset(chosen), **self.grading_options).report(expanded(submission))

    def grade_all(self, submissions: Iterable[tuple[str | Competition, AnyPath]]) -> Iterator[Report]:
        """Grade submissions, each given with its competition. All missing data is prepared before the first grade, so
        that no grades are lost if some cannot be prepared. Raises DataError."""
        chosen = [(self._chosen((competition,), None)[0], path) for competition, path in submissions]
        for competition, _ in chosen:
            if not self.store.dataset(competition).is_prepared:
                self.store.prepare(competition)
        for competition, path in chosen:
            yield self.grade(competition, path)

    def regrade(self, group: AnyPath | RunGroup) -> Regrading:
        """Regrade a run group's stored submissions, with the option ``bench_version`` or else the group's own version.
        The records do not change; the new grades are written to a new file, except those of a bundle. Raises
        UsageError."""
        runs = group if isinstance(group, RunGroup) else self.group(group)
        version = self.settings.version if self.settings.bench_version is not None else runs.version
        result = regrade(runs, version, self.regrader(version))
        written = "not saved, because bundles are never changed: unpack it with `mlebench unbundle` first"
        if not self.is_unpacked(runs):
            written = str(write_regrading(runs.folder, result))
        self.reporter(Note(written))
        return result

    def group(self, name: AnyPath) -> RunGroup:
        """A run group by its folder, its name below ``runs_dir``, part of its name, or ``last``; or by its bundle.

        ``reporter`` gets a warning for each file that should be a record but cannot be read. A bundle is unpacked until
        ``close``. Raises UsageError, and DataError for an invalid bundle.
        """
        group = read_group(self.group_folder(name))
        for problem in group.broken:
            self.reporter(WarningNote(problem))
        return group

    def group_folder(self, name: AnyPath) -> Path:
        """The folder of a run group, or of an unpacked bundle (see ``group``)."""
        if (path := bundle_at(name)) is None:
            return find_group(name, self.settings.runs_dir)
        if path not in self._opened:
            folder = Path(tempfile.mkdtemp(prefix="mlebench-bundle-"))
            self._unpacked.callback(_delete, folder, self.reporter)
            self._opened[path] = bundles_extra().opened(path, folder, max_bytes=_MAX_UNPACKED)
            self.reporter(Note(f"{path}: not verified; `mlebench verify` does that"))
        return self._opened[path]

    def is_unpacked(self, group: RunGroup) -> bool:
        """Whether a run group is from a bundle, so that its folder is deleted by ``close``."""
        return group.folder in self._opened.values()

    def report(self, *groups: AnyPath | RunGroup, pad_missing: bool = False, by_category: bool = False) -> Overview:
        """The results of run groups: rates, medals, costs and comparisons, as ``mlebench report`` shows them."""
        from pytest_mlebench.results.overview import overview

        read = [group if isinstance(group, RunGroup) else self.group(group) for group in groups]
        return overview(read, pad_missing=pad_missing, by_category=by_category)

    def _chosen(self, competitions: Iterable[str | Competition], split: str | None) -> list[Competition]:
        named = [self.catalogue[item] if isinstance(item, str) else item for item in competitions]
        for item in named:
            expect(item, Competition, "competition", "or a string with its id")
        if named and split:
            raise UsageError(f"name competitions or a split ({split}), not both")
        if not named and not (split or self.settings.split):
            raise UsageError("name a competition or a split")
        return named or self.with_data(self.competitions(split))

    def with_data(self, competitions: list[Competition], named: Collection[str] = ()) -> list[Competition]:
        """The competitions that have data: with ``data="twin"``, those that have a twin. ``reporter`` gets a warning
        about the others. Raises UsageError if none has one, or one in ``named`` has none."""
        if not self.settings.has_twins:
            return competitions
        found = with_twins(competitions, named)
        if skipped := [item.id for item in competitions if item not in found]:
            self.reporter(WarningNote(f"skipped because they have no twin: {', '.join(skipped)}"))
        return found


def _seeds(seeds: object) -> list[int]:
    """The seeds of ``Bench.run``. Raises UsageError if there are none or too many, and TypeError."""
    if isinstance(seeds, bool) or not isinstance(seeds, int | Iterable):
        raise TypeError(f"seeds must be a whole number or a list of whole numbers, not {quoted(seeds)}")
    if isinstance(seeds, int):
        seeds = range(max(0, seeds))
    numbers = list(islice(seeds, MAX_SEEDS + 1))
    if not numbers:
        raise UsageError("seeds: at least one is needed")
    if len(numbers) > MAX_SEEDS:
        raise UsageError(f"seeds: a run group gets at most {MAX_SEEDS:,} in one call")
    return numbers


def bundles_extra() -> Any:
    """The module of the extra for bundles, ``commands.bundle``; None if it is not installed."""
    return load_extension("mlebench.plugins", "bundles")


def bundle_at(name: AnyPath) -> Path | None:
    """The path of a bundle if the name is one."""
    try:
        path = expanded(name)
        found = name and path.is_file() and (extra := bundles_extra()) is not None and extra.is_bundle(path)
        return path.resolve() if found else None
    except (OSError, ValueError):
        return None


def _delete(folder: Path, reporter: Reporter) -> None:
    try:
        remove_tree(folder, ignore_errors=False)
    except OSError as error:
        reporter(WarningNote(f"{folder} was not deleted completely: {reason(error)}"))


def group_folder(group: AnyPath | None, runs_dir: Path) -> Path:
    """The folder of a new or existing run group: a path, a name below ``runs_dir``, or ``last``; None: a new one, named
    by date and time. Raises UsageError."""
    if group is None:
        group = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}-{secrets.token_hex(2)}"
    if not isinstance(group, str | os.PathLike):
        raise TypeError(f"group must be a name or a path, not {quoted(group)}")
    name = os.path.normpath(group)
    check_group_name(Path(name).name)
    return (find_group(name, runs_dir) if name == LAST else runs_dir / expanded(name)).absolute()


def _nodeid(key: RunKey, version: str) -> str:
    """pytest's node id of the run, so that ``pytest --resume`` can resume the group."""
    name = item_name(key.agent, f"seed={key.seed}", version)
    return f"competitions/{key.competition_id}/competition.yaml::{name}"


def _comparable_llm_settings(settings: declared.Settings) -> dict[str, Any]:
    """Settings that are not defaults, so that groups without models are comparable with those of earlier versions."""
    names = ("llm_gateway", "max_cost", "max_tokens", "max_calls", "models", "allow_provider_tools")
    values = {name: getattr(settings, name) for name in names}
    if settings.llm_replay is not None:
        values["llm_replay"] = settings.llm_replay
    chosen = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    default = {name: getattr(declared.Settings, name, None) for name in chosen}
    return {name: value for name, value in chosen.items() if value not in (None, [], False, default[name])}
