"""The contract of a sandbox: what it is given, what it leaves, and every way in which it may end.

A sandbox runs one agent on one competition, from start to end, in a home of its own that looks alike everywhere:

==================  =============================================================
``DATA_DIR``        the public data, read-only (``/home/data`` in a container)
``SUBMISSION_DIR``  where the agent leaves ``submission.csv``
``LOGS_DIR``        the agent's own logs
``CODE_DIR``        the code that made the submission
``AGENT_DIR``       a copy of the agent's folder, with its start script
``INSTRUCTIONS``    the file with the task; beside it ``validate_submission.sh``
``HOME``            an empty folder of the agent's own, beside these
==================  =============================================================

``COMPETITION_ID``, ``TIME_LIMIT_SECS`` and
``VALIDATION_URL`` are set as well. ``bash start.sh ARGUMENTS`` is what runs.

When ``run`` returns, or raises, nothing of the agent runs any more and nothing of the sandbox is left but what is in
the task's run directory: ``run.log`` (what the agent printed, written while it runs), ``submission/``, ``logs/`` and
``code/``, of regular files and folders only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_mlebench import defaults
from pytest_mlebench.agents.config import check_folder
from pytest_mlebench.agents.definition import Agent, Launch
from pytest_mlebench.errors import AgentError, SandboxError

if TYPE_CHECKING:
    from pytest_mlebench.llm.run_gateway import RunGateway
    from pytest_mlebench.sandbox.snapshots import Snapshots
from pytest_mlebench.json_values import parse

SUBMISSION = "submission/submission.csv"
"""Where a run directory holds the agent's result."""
RUN_LOG = "run.log"
COLLECTED = ("submission", "logs", "code")


class Ending(StrEnum):
    """How an agent's run ended.

    >>> Ending("timed out") is Ending.TIMED_OUT
    True
    """

    FINISHED = "finished"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    CRASHED = "crashed"
    BUDGET_ENDED = "budget ended"
    """It ended by itself after calls of its model had been refused for a budget."""
    NOT_STARTED = "not started"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a run may use. Sizes in bytes, the time limit in seconds; None is unlimited.

    >>> Limits(time_limit=3600.0, cpus=4, memory=16 << 30).gpus
    0
    """

    time_limit: float = defaults.TIME_LIMIT
    cpus: float | None = None
    memory: int | None = None
    gpus: int = 0
    disk: int | None = None
    """All that the agent writes, in total where the sandbox can measure it, else for each file."""
    processes: int = defaults.PROCESSES
    log_bytes: int = defaults.LOG_BYTES
    """Of the agent's output this much is kept, its head and its tail."""
    collect_bytes: int = defaults.COLLECT_BYTES
    """At most this much is collected from each of ``submission``, ``logs`` and ``code``."""
    collect_files: int = defaults.COLLECT_FILES

    def __post_init__(self) -> None:
        # A sandbox compares them with the machine (see ``fair_share``).
        for name, value in asdict(self).items():
            if not (isinstance(value, Real) or (value is None and name in ("cpus", "memory", "disk"))):
                raise TypeError(f"{name} must be a number, not {value!r}")


def _nothing() -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run of an agent: everything that a sandbox is given.

    ``validate`` is the submission checker's verdict on a file on the host: a text for the agent, never a score.
    ``stop_validation`` makes a call of it that is running in another thread return soon, and later ones at once.
    """

    competition_id: str
    agent: Agent
    launch: Launch
    public: Path
    run_dir: Path
    validate: Callable[[Path], str]
    stop_validation: Callable[[], None] = _nothing
    max_submission_bytes: int = defaults.MAX_SUBMISSION_BYTES
    limits: Limits = field(default_factory=Limits)
    labels: Mapping[str, str] = field(default_factory=dict)
    """What identifies this run, for names and labels: run group, run id, worker."""
    gateway: RunGateway | None = None
    """How the agent reaches language models; opened, it gives the ``launch`` that counts. None: it needs none."""
    snapshots: Snapshots | None = None
    """What takes snapshots of the submission while the agent runs. None: nothing does."""
    anonymous: bool = False
    """Nothing that the agent can read of its sandbox may name the run, whose name has the competition's in it."""
    keep: bool = False
    """Keep what the sandbox ran in, for a look afterwards; ``SandboxAccount.kept`` says where."""


@dataclass(frozen=True, kw_only=True)
class Connection:
    """One connection that an agent made or tried to make, as the proxy saw it. Times in seconds, sizes in bytes."""

    at: float = 0.0
    """Since the run's start."""
    host: str = ""
    port: int = 0
    method: str = ""
    allowed: bool = False
    reason: str = ""
    """Why it was refused, or how it failed."""
    sent: int = 0
    received: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Validation:
    """One verdict of the submission checker; ``at`` is seconds since the run's start."""

    at: float
    verdict: str


@dataclass(frozen=True, kw_only=True)
class SandboxAccount:
    """What a sandbox did for one run, for the run's record. Everything an agent can influence in it is bounded.

    >>> from pathlib import Path
    >>> from pytest_mlebench import read_group
    >>> read_group(Path("reports/first")).records[0].sandbox.name
    'local'
    """

    name: str = ""
    """``docker`` or ``local``; empty where no sandbox came up."""
    image: str = ""
    image_digest: str = ""
    container: str = ""
    network: str = ""
    """The network policy; ``not enforced`` where the sandbox cannot keep one."""
    build_network: str = ""
    """What the Dockerfile reached while the image was built."""
    runtime: str = ""
    privileged: bool = False
    gpus: tuple[str, ...] = ()
    gpu_usage: Mapping[str, Any] = field(default_factory=dict)
    """What they did, by UUID: see ``sandbox.gpu_usage``."""
    disk: str = ""
    """How the limit on disk space was enforced."""
    connections: tuple[Connection, ...] = ()
    unrecorded_connections: int = 0
    validations: tuple[Validation, ...] = ()
    left_out: tuple[str, ...] = ()
    """What was not collected, and why."""
    left_out_unnamed: int = 0
    """How many more were left out than ``left_out`` names."""
    left_behind: int = 0
    """Processes that the agent started and that still ran at its end."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """The limits that applied, by name."""
    notes: tuple[str, ...] = ()
    """What a reader should know: a limit that this sandbox does not enforce, for example."""
    kept: str = ""
    """Where to look, if what the sandbox ran in was kept."""

    def to_json(self) -> dict[str, Any]:
        """As ``run.json`` holds it: what is empty is left out; a validation is a pair of time and verdict."""
        values: dict[str, Any] = {key: value for key, value in asdict(self).items() if value not in ("", (), {}, 0)}
        for name, value in values.items():
            if isinstance(value, tuple):
                values[name] = list(value)
        if self.validations:
            values["validations"] = [[made.at, made.verdict] for made in self.validations]
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> SandboxAccount:
        """The reverse of ``to_json``; keys that a later version added are ignored, and null is not given.

        Raises ValueError for anything else.
        """
        if not isinstance(values, Mapping):
            raise ValueError(f"an account must be an object, not {type(values).__name__}")
        given = {key: value for key, value in values.items() if value is not None}
        if isinstance(pairs := given.get("validations"), list):
            given["validations"] = [
                {"at": pair[0], "verdict": pair[1]} if isinstance(pair, list) and len(pair) == 2 else pair
                for pair in pairs
            ]
        return parse(cls, given)


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How a task went. ``detail`` adds what ``ending`` leaves open (exit code, signal, disk full, …).

    >>> Execution(ending=Ending.CRASHED, seconds=12.5, exit_code=1).exit_code
    1
    """

    ending: Ending
    seconds: float
    exit_code: int | None = None
    signal: str | None = None
    detail: str = ""
    sandbox: SandboxAccount = field(default_factory=SandboxAccount)


def check_agent_folder(agent: Agent) -> None:
    """Raises SandboxError if a link in the agent's folder would take files from elsewhere into the sandbox."""
    try:
        check_folder(agent)
    except AgentError as error:
        raise SandboxError(str(error)) from error


class Sandbox(Protocol):
    """Where an agent runs.

    >>> from pytest_mlebench import LocalSandbox, default_agents
    >>> sandbox: Sandbox = LocalSandbox()
    >>> sandbox.check(default_agents()["baseline"])
    """

    name: str

    def check(self, agent: Agent) -> None:
        """Whether this agent could run here; raises SandboxError that says what is missing and how to mend it."""

    def prepare(self, agent: Agent) -> None:
        """Do once, before the first run, what takes long (such as building an image); raises SandboxError."""

    def run(self, task: Task) -> Execution:
        """Run a task to its end, whatever the agent does.

        Raises SandboxError only where the harness itself failed. On KeyboardInterrupt, or any other exception that
        comes from outside, it stops the agent, collects what is there, cleans up, and lets the exception through.
        """
