"""The contract of a sandbox: its inputs, its outputs, and every way in which a run may end.

A sandbox runs one agent on one competition, from start to end. The agent's home has the same layout everywhere:

==================  =============================================================
``DATA_DIR``        the public data, read-only (``/home/data`` in a container)
``SUBMISSION_DIR``  where the agent writes ``submission.csv``
``LOGS_DIR``        the agent's logs
``CODE_DIR``        the code that produced the submission
``AGENT_DIR``       a copy of the agent's folder, with its start script
``INSTRUCTIONS``    the task description, next to ``validate_submission.sh``
``HOME``            an empty folder for the agent, next to the others
==================  =============================================================

``COMPETITION_ID``, ``TIME_LIMIT_SECS`` and ``VALIDATION_URL`` are set as well. The sandbox runs
``bash start.sh ARGUMENTS``.

When ``run`` returns or raises, no process of the agent is left. Nothing of the sandbox remains except regular files in
the task's run directory: ``run.log`` (the agent's output, written during the run), ``submission/submission.csv``, and
``files.zip`` (all other files that it left).
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pytest_mlebench import defaults
from pytest_mlebench.agents import Permissions
from pytest_mlebench.agents.registry import Agent, Launch, check_folder
from pytest_mlebench.errors import AgentError, SandboxError
from pytest_mlebench.io.files import bundled, remove_tree
from pytest_mlebench.io.processes import dead_folders
from pytest_mlebench.io.progress import Note, Reporter, silent
from pytest_mlebench.io.units import format_size, pluralize
from pytest_mlebench.records.outcome import Ending, Limits, SandboxAccount

if TYPE_CHECKING:
    from pytest_mlebench.llm.gateway import RunGateway
    from pytest_mlebench.sandbox.collection import Snapshots


class Steps(Protocol):
    """Drives an agent from outside, command by command. The agent connects to its socket."""

    is_over: threading.Event
    """If set, the run ends as it does at its time limit, whatever the agent's processes do."""

    def open(self, unix_socket: Path | None = None) -> AbstractContextManager[str]:
        """Listen on a Unix socket (None: a new one) until the run has ended; yields the socket's path."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run of an agent: all inputs of a sandbox.

    ``validate`` returns the submission checker's verdict on a file on the host: a text for the agent, never a score.
    ``stop_validation`` makes a call of it that is running in another thread return soon, and later calls at once.
    """

    competition_id: str
    agent: Agent
    launch: Launch
    public: Path
    run_dir: Path
    validate: Callable[[Path], str]
    stop_validation: Callable[[], None] = lambda: None
    max_submission_bytes: int = defaults.MAX_SUBMISSION_BYTES
    limits: Limits = field(default_factory=Limits)
    grace_seconds: float | None = None
    """Between SIGTERM and SIGKILL, when the time is over. None: the usual share of the time limit."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Identify this run in names and labels: run group, run id, worker."""
    gateway: RunGateway | None = None
    """How the agent reaches language models. Opening it returns the ``launch`` to use. None: not needed."""
    snapshots: Snapshots | None = None
    """Takes snapshots of the submission while the agent runs. None: no snapshots."""
    steps: Steps | None = None
    """Drives the agent, which finds its address in ``STEPS_ADDRESS``. None: the agent drives itself."""
    anonymous: bool = False
    """Hide the run's name, which contains the competition's, from everything that the agent can read in its sandbox."""
    keep: bool = False
    """Keep the container or folder of the run for inspection. ``SandboxAccount.kept`` names it."""

    @property
    def grace(self) -> float:
        """Seconds between SIGTERM and SIGKILL."""
        return self.limits.grace if self.grace_seconds is None else self.grace_seconds

    @property
    def is_stopped(self) -> bool:
        """Whether the run should end now."""
        return self.steps is not None and self.steps.is_over.is_set()


def with_steps(task: Task, address: str) -> Task:
    """Return the task with ``STEPS_ADDRESS`` set to an address: ``HOST:PORT``, or the path of a Unix socket."""
    environment = {**task.launch.environment, "STEPS_ADDRESS": address}
    return replace(task, launch=replace(task.launch, environment=environment))


@dataclass(frozen=True, kw_only=True)
class Execution:
    """The result of a task. ``detail`` adds to ``ending``, for example an exit code, a signal or a full disk.

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
    """Raises SandboxError if a link in the agent's folder would bring files from outside it into the sandbox."""
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
        """Check that this agent can run here. Raises SandboxError with what is missing and how to fix it."""

    def prepare(self, agent: Agent) -> None:
        """Do slow one-time work before the first run, such as building an image. Raises SandboxError."""

    def run(self, task: Task) -> Execution:
        """Run a task to its end, whatever the agent does.

        Raises SandboxError only if the harness itself failed. On KeyboardInterrupt, or any other exception from
        outside, it stops the agent, collects its files, cleans up, and reraises the exception.
        """


def choose(
    kind: str,
    agent: Agent,
    permissions: Permissions,
    *,
    local: Callable[[], Sandbox],
    container: Callable[[str], Sandbox],
) -> Sandbox:
    """Return the sandbox for ``auto``, ``docker``, ``podman`` or ``local``. Raises SandboxError if it cannot be used.

    ``auto`` is Docker if it is available, else local for trusted agents: those that the user trusts, and bundled ones
    whose definition allows it. ``local`` runs every bundled agent, but third-party agents only if the user trusts them.
    """
    if kind == "local":
        if agent.bundled or permissions.trusts(agent):
            return local()
        raise SandboxError(
            f"agent {agent.id} would run without isolation, with your user's rights, in the local sandbox: "
            f"--trust-agent={agent.id} permits it, --sandbox=docker gives it a container"
        )
    try:
        return container("docker" if kind == "auto" else kind)
    except SandboxError as error:
        if kind != "auto":
            raise
        if permissions.trusts(agent):
            return local()
        raise SandboxError(
            f"agent {agent.id} is not trusted and needs a container: {error}; or run it without isolation, with your "
            f"user's rights: --trust-agent={agent.id}"
        ) from error


class ImageStore(Protocol):
    """The images of a sandbox, by tag. Methods that build raise SandboxError."""

    def environment(self, base_image: str | None = None) -> str:
        """Return the tag of ``mlebench-env``, and build it if it is missing."""

    def agent(self, agent: Agent) -> str:
        """Return the tag of the agent's image, and build it if it is missing."""

    def built(self, agent: Agent) -> int | None:
        """Return the size in bytes of the agent's image; None if its current folder is not built. Builds nothing."""


class ContainerSandbox(Sandbox, Protocol):
    """A sandbox with images."""

    @property
    def images(self) -> ImageStore: ...

    def test_image(self, image: str) -> None:
        """Train once with each library in the image, on GPUs too if runs use them. Raises SandboxError if one fails."""


class AddedSandbox(Sandbox, Protocol):
    """The return value of the function behind an entry point of ``mlebench.sandboxes``.

    For ``mlebench build``, it can also have the members of ``ContainerSandbox``. For ``mlebench clean``, it can have a
    method ``clean(*, kept, dry_run, reporter)`` that works like ``sandbox.docker.cleanup.clean``. docs/sandboxes.md has
    a short example, ``extras.apptainer`` is a long one. Container sandboxes share the code in ``sandbox.wiring``.
    """

    def describe(self) -> Iterable[tuple[str, str]]:
        """Report to ``mlebench doctor`` whether it can be used here: ``ok``, ``note`` or ``problem``, and why."""


INSTRUCTIONS = "instructions.txt"
VALIDATE = "validate_submission.sh"
_SCRIPTS = (VALIDATE, "prompt.sh", "ask.sh", "options.sh")


def render_instructions(*, data: str, submission: str, logs: str, code: str, validate: str, limits: Limits) -> str:
    """Return the instructions, with paths as the agent sees them."""
    template = (bundled("environment") / INSTRUCTIONS).read_text(encoding="utf-8")
    return template.format(
        data=data,
        submission=submission,
        logs=logs,
        code=code,
        validate=validate,
        time_limit=format_duration(limits.time_limit),
        hardware=_hardware(limits),
    )


def clock(limits: Limits) -> dict[str, str]:
    """Return the time-limit variables of an agent that starts now. ``DEADLINE`` is in seconds since the epoch."""
    seconds = limits.time_limit
    return {"TIME_LIMIT_SECS": f"{seconds:g}", "DEADLINE": f"{time.time() + seconds:.0f}"}


def scripts() -> list[Path]:
    """Return the scripts that go into an agent's home directory, next to the instructions."""
    return [bundled("environment") / name for name in _SCRIPTS]


def _hardware(limits: Limits) -> str:
    """Describe a run's hardware, for example ``8 processors, 64 GiB of memory and 1 GPU``."""
    cpus = [] if limits.cpus is None else [f"{limits.cpus:g} processor{'' if limits.cpus == 1 else 's'}"]
    memory = [] if limits.memory is None else [f"{format_size(limits.memory)} of memory"]
    gpus = pluralize(limits.gpus, "GPU") if limits.gpus else "no GPU"
    return f"{', '.join([*cpus, *memory])} and {gpus}".removeprefix(" and ")


def format_duration(seconds: float) -> str:
    """Return a duration in words, for example ``24 hours`` or ``1 minute 30 seconds``."""
    left = round(seconds)
    parts = []
    for name, size in (("hour", 3600), ("minute", 60), ("second", 1)):
        number, left = divmod(left, size)
        if number:
            parts.append(pluralize(number, name))
    return " ".join(parts) or "0 seconds"


LOCAL_HOME = ".home-"
"""Prefix of a local agent's home, in its run directory."""
MEMORY_GROUP = "mlebench-memory-"
"""Prefix of the control groups that limit the memory of runs."""
SOCKETS, UPLOADS, PODMAN_FOLDER = "mlebench-run-", "mlebench-check-", "mlebench-podman-"
"""Prefixes of temporary folders: for a run's sockets, for the submission checker, for a Podman service."""


@dataclass(frozen=True)
class Leftover:
    """Something that a dead session left behind: its kind, its name, and its run group."""

    kind: str
    name: str
    run_group: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" (run group {self.run_group})" if self.run_group else "")


def remove_leftovers(
    found: Mapping[Leftover, Callable[[], object]], *, dry_run: bool, reporter: Reporter
) -> list[Leftover]:
    """Report leftovers, and remove each by calling its function. With ``dry_run``, nothing is removed."""
    for leftover, remove in found.items():
        reporter(Note(f"{'would remove' if dry_run else 'removing'} {leftover}"))
        if not dry_run:
            remove()
    return list(found)


def clean_folders(
    run_dirs: Iterable[Path] = (), *, dry_run: bool = False, reporter: Reporter = silent
) -> list[Leftover]:
    """Remove the temporary folders and control groups of killed sessions. Reports each, and returns them.

    ``run_dirs`` are run directories, and the run group around them, that held the homes of agents without a container.
    With ``dry_run``, nothing is removed.
    """
    temporary = {Path(tempfile.gettempdir()), Path("/tmp")}
    folders = [folder for name in (SOCKETS, UPLOADS, PODMAN_FOLDER) for folder in dead_folders(name, temporary)]
    groups = dead_folders(MEMORY_GROUP, [Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")])
    found: dict[Leftover, Callable[[], object]] = {
        Leftover("folder", str(path)): partial(remove_tree, path)
        for path in (*folders, *dead_folders(LOCAL_HOME, run_dirs))
    }
    found |= {Leftover("control group", str(group)): partial(_remove_group, group) for group in groups}
    return remove_leftovers(found, dry_run=dry_run, reporter=reporter)


def _remove_group(group: Path) -> None:
    with suppress(OSError):  # a supervisor is still ending its processes
        group.rmdir()
