"""What the user asked for: options and ini keys, read once into ``Settings``."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_mlebench.agents import Agent, AgentRegistry
from pytest_mlebench.agents.definition import parse_agent_ids
from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.catalog.catalogue import bundled, unknown
from pytest_mlebench.data.dataset import DESCRIPTIONS, Description
from pytest_mlebench.data.store import default_data_dir
from pytest_mlebench.errors import MLEBenchError
from pytest_mlebench.options import MIN_MEDALS, PREPARE, SANDBOXES, ini_key, parse_positive
from pytest_mlebench.quantities import parse_duration, parse_size
from pytest_mlebench.results.manifest import MANIFEST, Manifest
from pytest_mlebench.results.record import RunKey, RunRecord, read_records
from pytest_mlebench.runs import RunGroup
from pytest_mlebench.sandbox import Limits, Sandbox
from pytest_mlebench.sandbox.gpus import GpuPool

_NODEIDS = "node ids"


@dataclass(frozen=True)
class Settings:
    """What the user asked for, options before ini keys before defaults."""

    config: pytest.Config
    _sandboxes: dict[str, Sandbox] = field(default_factory=dict)

    def _get(self, option: str, default: Any, parse: Callable[[str], Any] = str) -> Any:
        value = self._given(option)
        if value is not None:
            return value
        text = self.config.getini(ini_key(option))
        if not text:
            return default
        try:
            return parse(text)
        except ValueError as error:
            raise pytest.UsageError(f"ini key {ini_key(option)}: {error}") from error

    def _given(self, option: str, default: Any = None) -> Any:
        """What the command line says, else the group that is resumed."""
        value = self.config.getoption(option)
        is_absent = value is None or value is False or value == []  # but 0 is a value
        return self._resumed.get(option, default) if is_absent else value

    @cached_property
    def _resumed(self) -> Mapping[str, Any]:
        """The options of the group that ``--resume`` names; agents and seeds are those of all its sessions."""
        if not self.config.getoption("--resume"):
            return {}
        manifest = Manifest.read(self.run_group_folder)
        if manifest is None:
            groups = [path.parent.name for path in self.runs_dir.glob(f"*/{MANIFEST}")]
            raise unknown("run group", self.run_group_name, groups)
        if not manifest.runs:
            raise pytest.UsageError(
                f"run group {self.run_group_name} was stopped before its runs were known: start it again with "
                f"--run-group={self.run_group_name} and its own options"
            )
        agents = list(dict.fromkeys(run["agent"] for run in manifest.runs))
        seeds = 1 + max(run["seed"] for run in manifest.runs)
        nodeids = [run["nodeid"] for run in manifest.runs]
        return {**manifest.options, "--agent": agents, "--seeds": seeds, _NODEIDS: nodeids}

    def _one_of(self, option: str, choices: Sequence[str]) -> str | None:
        value: str | None = self._get(option, None)
        if value not in (None, *choices):
            raise pytest.UsageError(f"ini key {ini_key(option)} is {value!r}, must be one of {', '.join(choices)}")
        return value

    @property
    def has_runs(self) -> bool:
        return bool(self.config.getoption("--agent") or self.config.getoption("--resume"))

    @cached_property
    def resumed_arguments(self) -> list[str]:
        """What to collect of a resumed group: its runs, or its competitions where other agents or seeds are wanted."""
        if self.config.getoption("--split"):
            return []
        nodeids = self._resumed.get(_NODEIDS, [])
        others = any(self.config.getoption(option) for option in ("--agent", "--seeds"))
        found = ((str(self.find(id)), *([] if others else id.split("::")[1:])) for id in nodeids)
        return list(dict.fromkeys("::".join(parts) for parts in found))

    @cached_property
    def finished(self) -> Mapping[RunKey, RunRecord]:
        """The runs of this group that are not run again: they have a record that ``--retry-failed`` does not name."""
        again = self.config.getoption("--retry-failed")
        return {record.key: record for record in read_records(self.run_group.folder) if record.outcome not in again}

    @property
    def allow_changes(self) -> bool:
        return bool(self.config.getoption("--allow-changes"))

    def find(self, nodeid: str) -> Path:
        """The ``competition.yaml`` of a node id."""
        file = nodeid.split("::")[0]
        own = self.config.rootpath / file
        return own if own.exists() else bundled("competitions").parent / file

    @cached_property
    def split(self) -> str | None:
        value: str | None = self.config.getoption("--split") if self._resumed else self._get("--split", None)
        return value

    @cached_property
    def competitions(self) -> list[Competition]:
        """The bundled competitions of the chosen split; all of the 75 without one."""
        return default_catalogue().split(self.split or "all")

    @cached_property
    def selected_ids(self) -> frozenset[str] | None:
        """The ids that ``--split`` lets through; None for all."""
        return frozenset(competition.id for competition in self.competitions) if self.split else None

    @cached_property
    def registry(self) -> AgentRegistry:
        return AgentRegistry(bundled("agents"), *self.agents_dirs)

    @cached_property
    def agents_dirs(self) -> list[Path]:
        folders = self._paths("--agents-dir")
        for folder in folders:
            if not folder.is_dir():
                raise pytest.UsageError(f"--agents-dir {folder} is not a folder")
        return [folder.resolve() for folder in folders]

    @cached_property
    def agents(self) -> list[Agent]:
        return parse_agent_ids(self.registry, self._given("--agent", []))

    @cached_property
    def seeds(self) -> int:
        value: int = self._get("--seeds", 1, parse_positive)
        return value

    @cached_property
    def sandbox(self) -> str:
        return self._one_of("--sandbox", SANDBOXES) or "auto"

    @cached_property
    def gpu_ids(self) -> tuple[str, ...]:
        return tuple(word.strip() for word in self._get("--gpu-ids", "").split(",") if word.strip())

    def choose_sandbox(self, agent: Agent, progress: Callable[[str], None]) -> Sandbox:
        """The sandbox for an agent (one of each kind a session); raises SandboxError."""
        from pytest_mlebench.sandbox.choice import choose

        return choose(
            self.sandbox, agent, local=lambda: self._local_sandbox(progress), docker=lambda: self._docker(progress)
        )

    def _local_sandbox(self, progress: Callable[[str], None]) -> Sandbox:
        from pytest_mlebench.sandbox.local import LocalSandbox

        return LocalSandbox(gpu_ids=self.gpu_ids, progress=progress)

    def _docker(self, progress: Callable[[str], None]) -> Sandbox:
        from pytest_mlebench.sandbox.docker import DockerSandbox

        if "docker" not in self._sandboxes:  # connecting, and asking for its images, once a session
            self._sandboxes["docker"] = DockerSandbox(
                **self.container_settings,
                gpus=self.limits.gpus,
                gpu_ids=self.gpu_ids,
                progress=progress,
            )
        return self._sandboxes["docker"]

    @cached_property
    def container_settings(self) -> dict[str, Any]:
        """What containers are like, as DockerSandbox takes it."""
        return {
            "network": self._get("--network", "llm"),
            "allow_hosts": self._given("--allow-host", []),
            "runtime": self._get("--runtime", None),
            "allow_privileged": self._given("--allow-privileged", False),
            "base_image": self._get("--base-image", None),
            "heavy": self._given("--heavy", False),
        }

    @property
    def options(self) -> dict[str, Any]:
        """The options that bound runs, for ``--resume``."""
        containers = {f"--{name.replace('_', '-')}": value for name, value in self.container_settings.items()}
        containers["--allow-host"] = containers.pop("--allow-hosts")
        limits = self.limits
        return {
            "--agents-dir": list(map(str, self.agents_dirs)),
            "--sandbox": self.sandbox,
            "--data-dir": str(self.data_dir.absolute()),
            "--description": self.description,
            "--time-limit": limits.time_limit,
            "--cpus": limits.cpus,
            "--memory": limits.memory,
            "--disk": limits.disk,
            "--gpus": limits.gpus,
            "--gpu-ids": ",".join(self.gpu_ids),
            "--max-submission-size": self.run_group.max_submission_bytes,
            **containers,
        }

    @cached_property
    def data_dir(self) -> Path:
        return next(iter(self._paths("--data-dir")), default_data_dir())

    @cached_property
    def prepare(self) -> str:
        return self._one_of("--prepare", PREPARE) or "auto"

    @cached_property
    def description(self) -> Description | None:
        """Whose description agents read; None: whatever is there, else ours."""
        return cast("Description | None", self._one_of("--description", DESCRIPTIONS))

    @cached_property
    def runs_dir(self) -> Path:
        given: Path | None = self.config.getoption("--runs-dir")  # a resumed group is looked for here
        folders = [given.expanduser()] if given else self._ini_paths("--runs-dir")
        return next(iter(folders), self.config.rootpath / "reports")

    @cached_property
    def min_medal(self) -> str | None:
        return self._one_of("--min-medal", MIN_MEDALS)

    @cached_property
    def real_data(self) -> bool:
        return bool(self.config.getoption("--real-data"))

    @cached_property
    def limits(self) -> Limits:
        return Limits(
            time_limit=self._get("--time-limit", 24 * 3600.0, parse_duration),
            cpus=self._get("--cpus", None, float),
            memory=self._get("--memory", None, parse_size),
            disk=self._get("--disk", None, parse_size),
            gpus=self._get("--gpus", 0, int),
        )

    @cached_property
    def run_group(self) -> RunGroup:
        """This invocation's run group; a worker is told its name by the controller."""
        worker = getattr(self.config, "workerinput", {})
        return RunGroup(
            name=self.run_group_name,
            folder=self.run_group_folder,
            limits=self.limits,
            max_submission_bytes=self._get("--max-submission-size", 1 << 30, parse_size),
            keep_sandbox=self.config.getoption("--keep-sandbox"),
            worker=worker.get("workerid", ""),
        )

    @cached_property
    def run_group_name(self) -> str:
        worker = getattr(self.config, "workerinput", {})
        resumed, named = self.config.getoption("--resume"), self.config.getoption("--run-group")
        if resumed and named and resumed != named:
            raise pytest.UsageError(f"--resume={resumed} and --run-group={named} are two groups; name one")
        name: str = worker.get("mlebench_run_group") or resumed or named or _new_group_name()
        if Path(name).name != name or name.startswith("."):
            raise pytest.UsageError(f"run group {name!r} must be a plain folder name below --runs-dir")
        return name

    @property
    def run_group_folder(self) -> Path:
        return self.runs_dir.absolute() / self.run_group_name

    def validate(self) -> None:
        """Read what can be wrong now, before anything is collected or run; raises UsageError.

        Secrets are looked up too: a missing one is found before the first run.
        """
        try:
            self.prepare, self.description  # noqa: B018
            if self.split is not None:
                self.competitions  # noqa: B018
            if self.has_runs:
                for agent in self.agents:
                    agent.launch()
                self.seeds, self.sandbox, self.min_medal, self.run_group  # noqa: B018
                if self.limits.gpus:
                    GpuPool(self.gpu_ids).check(self.limits.gpus)
        except MLEBenchError as error:
            raise pytest.UsageError(str(error)) from error

    def _paths(self, option: str) -> list[Path]:
        """Paths of an option; those of its ini key are relative to the folder of the ini file."""
        value = self._given(option)
        if value is None:
            return self._ini_paths(option)
        return [Path(path).expanduser() for path in (value if isinstance(value, list) else [value])]

    def _ini_paths(self, option: str) -> list[Path]:
        base = self.config.inipath.parent if self.config.inipath else self.config.rootpath
        return [base / Path(word).expanduser() for word in (self.config.getini(ini_key(option)) or "").split()]


def _new_group_name() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}-{secrets.token_hex(2)}"
