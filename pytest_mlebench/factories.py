"""What settings lead to: a catalogue, agents, a data store, sandboxes, and how to run agents.

Collecting competitions takes a catalogue alone, so each function imports what it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_mlebench.catalog import Catalogue, Competition, default_catalogue
from pytest_mlebench.catalog.competition import FIRST
from pytest_mlebench.io.paths import bundled
from pytest_mlebench.options import Settings

if TYPE_CHECKING:
    from pytest_mlebench.agents import Agent, AgentRegistry, Permissions
    from pytest_mlebench.data.dataset import Description
    from pytest_mlebench.data.store import DataStore, PrepareOptions
    from pytest_mlebench.io.progress import Reporter
    from pytest_mlebench.llm.ledger import Recording
    from pytest_mlebench.llm.settings import GatewaySettings
    from pytest_mlebench.runs.regrade import Regrader
    from pytest_mlebench.runs.run import RunOptions
    from pytest_mlebench.sandbox import Limits, Sandbox


def catalogue(settings: Settings) -> Catalogue:
    """The bundled competitions, and those of ``--competitions-dir``."""
    return default_catalogue(*settings.competitions_dirs, version=settings.version)


def competitions(settings: Settings) -> list[Competition]:
    """The competitions of ``--split``; without it MLE-bench's 75. Raises UsageError for an unknown split."""
    return catalogue(settings).split(settings.split or "all")


def agent_registry(settings: Settings) -> AgentRegistry:
    """The bundled agents, and those of ``--agents-dir``."""
    from pytest_mlebench.agents import AgentRegistry

    return AgentRegistry(bundled("agents"), *settings.agents_dirs)


def agents(settings: Settings) -> tuple[Agent, ...]:
    """The agents of ``--agent``; raises UsageError for an unknown one."""
    registry = agent_registry(settings)
    return tuple(registry[id] for id in settings.agents)


def permissions(settings: Settings) -> Permissions:
    """What the user grants agents."""
    from pytest_mlebench.agents import Permissions

    return Permissions(
        allow_secrets=settings.allow_secrets, allow_hosts=settings.allow_hosts, trust_agents=settings.trust_agents
    )


def data_dir(settings: Settings) -> Path:
    """The folder of the data; raises DataError where there is no home directory to put it in."""
    from pytest_mlebench.data.store import default_data_dir

    return settings.data_dir or default_data_dir()


def data_store(settings: Settings, *, parallel_downloads: int | None = None) -> DataStore:
    """The store in ``--data-dir``, with ``--data-source``."""
    from pytest_mlebench.data.store import DataStore

    parallel = {} if parallel_downloads is None else {"parallel_downloads": parallel_downloads}
    return DataStore(data_dir(settings), source=settings.data_source, policy=None, **parallel)


def prepare_options(settings: Settings) -> PrepareOptions:
    """How a session prepares data: raw data that was there before stays."""
    from pytest_mlebench.data.dataset import OBFUSCATED

    stored = None if settings.description == OBFUSCATED else settings.description  # each run sees to that by itself
    return {"keep_raw": None, "description": cast("Description | None", stored)}


def limits(settings: Settings) -> Limits:
    """What each run may use."""
    from pytest_mlebench.sandbox import Limits

    return Limits(
        time_limit=settings.time_limit,
        cpus=settings.cpus,
        memory=settings.memory,
        disk=settings.disk,
        gpus=settings.gpus,
    )


def grading_options(settings: Settings) -> dict[str, Any]:
    """How submissions are graded, as ``Grader`` takes it."""
    from pytest_mlebench.grading.limits import GradingLimits

    grading = GradingLimits(memory=settings.grading_memory, seconds=settings.grading_time)
    return {"max_bytes": settings.max_submission_size, "limits": grading}


def regrader(settings: Settings, version: str) -> Regrader:
    """What grades submissions of a version of the benchmark again."""
    from pytest_mlebench.runs.regrade import Regrader

    of_version = replace(settings, bench_version=version.removeprefix("v"))
    return Regrader(catalogue(of_version), data_store(settings), grading_options(settings))


def run_options(
    settings: Settings, folder: Path, *, worker: str = "", job: Mapping[str, Any] | None = None
) -> RunOptions:
    """How agents run, and the folder of the run group; ``job`` is what the record says of the engine's job."""
    from pytest_mlebench.data.dataset import OBFUSCATED
    from pytest_mlebench.grading.limits import GradingLimits
    from pytest_mlebench.runs.run import RunOptions
    from pytest_mlebench.sandbox.snapshots import SnapshotPolicy

    return RunOptions(
        folder=folder,
        limits=limits(settings),
        max_submission_bytes=settings.max_submission_size,
        grading=GradingLimits(memory=settings.grading_memory, seconds=settings.grading_time),
        keep_sandbox=settings.keep_sandbox,
        obfuscated=settings.description == OBFUSCATED,
        until=settings.until,
        gateway=None if settings.llm_gateway == "off" else lambda: gateway_settings(settings),
        permissions=permissions(settings),
        replay=replayed_group(settings),
        worker=worker,
        snapshots=SnapshotPolicy() if settings.snapshots == "on" else None,
        job=job or {},
    )


@cache
def gateway_settings(settings: Settings) -> GatewaySettings:
    """What the gateways to language models do; raises UsageError for a wrong file of providers or prices."""
    from pytest_mlebench.llm.budget import Limits as Budget
    from pytest_mlebench.llm.prices import Prices
    from pytest_mlebench.llm.providers import load_providers
    from pytest_mlebench.llm.settings import GatewaySettings

    def dollars(value: float | None) -> Decimal | None:
        return None if value is None else Decimal(str(value))

    return GatewaySettings(
        providers=load_providers(*settings.llm_providers),
        record=cast("Recording", settings.llm_record),
        limits=Budget(
            max_cost=dollars(settings.max_cost),
            max_tokens=settings.max_tokens,
            max_calls=settings.max_calls,
            max_total_cost=dollars(settings.max_total_cost),
        ),
        models=settings.models,
        prices=Prices.load(*settings.prices),
        retries=settings.llm_retries,
        rpm=settings.llm_rpm,
        allow_provider_tools=settings.allow_provider_tools,
    )


def replayed_group(settings: Settings) -> Path | None:
    """The folder of ``--llm-replay``; raises UsageError for an unknown group."""
    if settings.llm_replay is None:
        return None
    from pytest_mlebench.records.group import find_group

    return find_group(settings.llm_replay, settings.runs_dir).absolute()


def check_agent(settings: Settings, agent: Agent) -> None:
    """Notice before the first run what an agent's start would lack, or has not been granted.

    Raises AgentError, SandboxError or UsageError.
    """
    from pytest_mlebench.agents.config import check_folder
    from pytest_mlebench.runs.permitted import check_hosts, run_environment

    check_folder(agent)  # before anything reads what is in it
    granted, gateway, replayed = permissions(settings), None, False
    if settings.llm_gateway == "on" and agent.may_ask_models:
        gateway, replayed = gateway_settings(settings), replayed_group(settings) is not None
    elif settings.llm_providers or settings.prices:  # a file that is wrong is not ignored
        gateway_settings(settings)
    environment = run_environment(agent, granted, gateway, replayed=replayed)
    if settings.network == "llm" and settings.sandbox != "local":
        check_hosts(agent, granted, gateway)
    if gateway is None:
        agent.launch(environment)
        return
    from pytest_mlebench.llm.run_gateway import check_secrets

    check_secrets(gateway, agent, replayed=replayed)


def engine_options(settings: Settings) -> dict[str, Any]:
    """Whose containers ``--sandbox`` chooses, as ``DockerSandbox`` takes it: Docker's unless it is ``podman``."""
    return {"engine": "podman" if settings.sandbox == "podman" else "docker"}


def container_options(settings: Settings) -> dict[str, Any]:
    """What containers are like, as ``DockerSandbox`` takes it."""
    closed = "none" if settings.sandbox == "podman" else "registries"
    return {
        "network": settings.network,
        # Where an agent may reach nothing, whoever wrote its Dockerfile gets no way out either.
        "build_network": settings.build_network or (closed if settings.network == "none" else "full"),
        "allow_hosts": list(settings.allow_hosts),
        "runtime": settings.runtime,
        "allow_privileged": settings.allow_privileged,
        **({"allow_unenforced_limits": True} if settings.allow_unenforced_limits else {}),
        "base_image": settings.base_image,
        "heavy": _heavy(settings),
    }


def _heavy(settings: Settings) -> str | None:
    if settings.heavy == "auto":
        return "cuda" if settings.gpus else "cpu"
    return settings.heavy


def comparable_settings(settings: Settings) -> dict[str, Any]:
    """What must stay the same, beside agents and limits, for the runs of a group to compare."""
    containers = container_options(settings)
    return {
        **({} if settings.version == FIRST else {"bench_version": settings.version}),
        "description": settings.description,
        "max_submission_size": settings.max_submission_size,
        "until": settings.until,
        "grading": {"memory": settings.grading_memory, "seconds": settings.grading_time},
        **containers,
        "heavy": containers["heavy"] or False,  # as groups of earlier versions have it
        **_comparable_llm_settings(settings),
    }


def _comparable_llm_settings(settings: Settings) -> dict[str, Any]:
    """What differs from the defaults, so that groups without models compare with groups of earlier versions."""
    names = ("llm_gateway", "max_cost", "max_tokens", "max_calls", "models", "allow_provider_tools")
    values = {name: getattr(settings, name) for name in names}
    if settings.llm_replay is not None:
        values["llm_replay"] = settings.llm_replay
    own = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    default = {name: getattr(Settings, name, None) for name in own}
    return {name: value for name, value in own.items() if value not in (None, [], False, default[name])}


def session_options(settings: Settings) -> dict[str, Any]:
    """The options that determine a run, by name, so that another session, or a job, can restore them."""
    return {**settings.restored_options(), "--data-dir": str(data_dir(settings))}


class Sandboxes:
    """The sandboxes of one session: one connection to the engine, and images that are asked for once."""

    def __init__(self, settings: Settings, reporter: Reporter, *, workers: int = 1) -> None:
        self._settings = settings
        self._shares: dict[str, Any] = {"limits": limits(settings), "workers": workers}
        self._reporter = reporter
        self._containers: dict[str, Sandbox] = {}

    def choose(self, agent: Agent) -> Sandbox:
        """The sandbox for an agent; raises SandboxError."""
        from pytest_mlebench.sandbox.endings import choose

        granted = permissions(self._settings)
        return choose(self._settings.sandbox, agent, granted, local=self._local, container=self._container)

    def ready(self, agent: Agent) -> Sandbox:
        """The sandbox for an agent, ready to run it; raises SandboxError."""
        sandbox = self.choose(agent)
        sandbox.check(agent)
        sandbox.prepare(agent)
        return sandbox

    def _local(self) -> Sandbox:
        from pytest_mlebench.sandbox.local.sandbox import LocalSandbox

        settings = self._settings
        return LocalSandbox(gpu_ids=settings.gpu_ids, network=settings.network, reporter=self._reporter, **self._shares)

    def _container(self, engine: str) -> Sandbox:
        from pytest_mlebench.sandbox.docker.sandbox import DockerSandbox

        if engine not in self._containers:
            settings = self._settings
            self._containers[engine] = DockerSandbox(
                engine=engine,
                **container_options(settings),
                gpus=settings.gpus,
                gpu_ids=settings.gpu_ids,
                reporter=self._reporter,
                **self._shares,
            )
        return self._containers[engine]
