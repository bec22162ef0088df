"""The contract of a sandbox: what it is given, what it leaves, and every way in which it may end.

A sandbox runs one agent on one competition, from start to end, in a home that has the same layout everywhere:

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
the task's run directory: ``run.log`` (what the agent printed, written while it runs), ``submission/submission.csv``,
and ``files.zip`` with all else that it left. All are regular files.
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
    """What drives an agent from outside, command by command: the agent connects to a socket of it."""

    is_over: threading.Event
    """Set, it ends the run as its time limit does, whatever the agent's processes do."""

    def open(self, unix_socket: Path | None = None) -> AbstractContextManager[str]:
        """Listen, on a Unix socket of its own where none is named, until the run has ended; gives the socket's path."""


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
    stop_validation: Callable[[], None] = lambda: None
    max_submission_bytes: int = defaults.MAX_SUBMISSION_BYTES
    limits: Limits = field(default_factory=Limits)
    grace_seconds: float | None = None
    """Between SIGTERM and SIGKILL, when the time is over. None: the usual part of the time limit."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What identifies this run, for names and labels: run group, run id, worker."""
    gateway: RunGateway | None = None
    """How the agent reaches language models; opened, it gives the ``launch`` that counts. None: it needs none."""
    snapshots: Snapshots | None = None
    """What takes snapshots of the submission while the agent runs. None: nothing does."""
    steps: Steps | None = None
    """What drives the agent, which finds it at the address in ``STEPS_ADDRESS``. None: the agent drives itself."""
    anonymous: bool = False
    """Nothing that the agent can read of its sandbox may name the run, whose name has the competition's in it."""
    keep: bool = False
    """Keep the container or folder of the run for inspection; ``SandboxAccount.kept`` says where."""

    @property
    def grace(self) -> float:
        """Seconds between SIGTERM and SIGKILL."""
        return self.limits.grace if self.grace_seconds is None else self.grace_seconds

    @property
    def is_stopped(self) -> bool:
        """Whether the run is to end now."""
        return self.steps is not None and self.steps.is_over.is_set()


def with_steps(task: Task, address: str) -> Task:
    """The task, whose agent finds what drives it at this address: ``HOST:PORT``, or the path of a Unix socket."""
    environment = {**task.launch.environment, "STEPS_ADDRESS": address}
    return replace(task, launch=replace(task.launch, environment=environment))


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
        """Whether this agent could run here; raises SandboxError that says what is missing and how to fix it."""

    def prepare(self, agent: Agent) -> None:
        """Do once, before the first run, what takes long (such as building an image); raises SandboxError."""

    def run(self, task: Task) -> Execution:
        """Run a task to its end, whatever the agent does.

        Raises SandboxError only where the harness itself failed. On KeyboardInterrupt, or any other exception that
        comes from outside, it stops the agent, collects what is there, cleans up, and lets the exception through.
        """


def choose(
    kind: str,
    agent: Agent,
    permissions: Permissions,
    *,
    local: Callable[[], Sandbox],
    container: Callable[[str], Sandbox],
) -> Sandbox:
    """The sandbox for ``auto``, ``docker``, ``podman`` or ``local``; raises SandboxError where there is none.

    ``auto`` is Docker where an engine answers, else local for agents that are trusted: by the user, or because they
    are bundled and made for it. ``local`` runs other bundled agents as well, but no agent of somebody else.
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
    """The images of a sandbox, by their tags. What builds raises SandboxError."""

    def environment(self, base_image: str | None = None) -> str:
        """The tag of ``mlebench-env``, built if it is not there."""

    def agent(self, agent: Agent) -> str:
        """The tag of the agent's image, built if it is not there."""

    def built(self, agent: Agent) -> int | None:
        """The size in bytes of the agent's image; None if it is not built, as its folder is now. Builds nothing."""


class ContainerSandbox(Sandbox, Protocol):
    """A sandbox with images."""

    @property
    def images(self) -> ImageStore: ...

    def test_image(self, image: str) -> None:
        """Train each of its libraries once, on GPUs as well if runs get some; raises SandboxError for what fails."""


class AddedSandbox(Sandbox, Protocol):
    """What the function behind an entry point of ``mlebench.sandboxes`` returns.

    It may have the members of ``ContainerSandbox`` too, for ``mlebench build``, and for ``mlebench clean`` a method
    ``clean(*, kept, dry_run, reporter)`` that does and returns what ``sandbox.docker.cleanup.clean`` does.
    docs/sandboxes.md has a short example, ``extras.apptainer`` a long one; ``sandbox.wiring`` has what sandboxes with
    containers share.
    """

    def describe(self) -> Iterable[tuple[str, str]]:
        """Whether it can be used here, for ``mlebench doctor``: ``ok``, ``note`` or ``problem``, and why."""


INSTRUCTIONS = "instructions.txt"
VALIDATE = "validate_submission.sh"
_SCRIPTS = (VALIDATE, "prompt.sh", "ask.sh", "options.sh")


def render_instructions(*, data: str, submission: str, logs: str, code: str, validate: str, limits: Limits) -> str:
    """The instructions with the paths as the agent sees them."""
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
    """The variables that say how long an agent that starts now has; ``DEADLINE`` in seconds since the epoch."""
    seconds = limits.time_limit
    return {"TIME_LIMIT_SECS": f"{seconds:g}", "DEADLINE": f"{time.time() + seconds:.0f}"}


def scripts() -> list[Path]:
    """The scripts in an agent's home directory, next to the instructions."""
    return [bundled("environment") / name for name in _SCRIPTS]


def _hardware(limits: Limits) -> str:
    """What a run has, for example ``8 processors, 64 GiB of memory and 1 GPU``."""
    cpus = [] if limits.cpus is None else [f"{limits.cpus:g} processor{'' if limits.cpus == 1 else 's'}"]
    memory = [] if limits.memory is None else [f"{format_size(limits.memory)} of memory"]
    gpus = pluralize(limits.gpus, "GPU") if limits.gpus else "no GPU"
    return f"{', '.join([*cpus, *memory])} and {gpus}".removeprefix(" and ")


def format_duration(seconds: float) -> str:
    """A duration in words, for example ``24 hours`` or ``1 minute 30 seconds``."""
    left = round(seconds)
    parts = []
    for name, size in (("hour", 3600), ("minute", 60), ("second", 1)):
        number, left = divmod(left, size)
        if number:
            parts.append(pluralize(number, name))
    return " ".join(parts) or "0 seconds"


LOCAL_HOME = ".home-"
"""How the name of a local agent's home begins, in its run directory."""
MEMORY_GROUP = "mlebench-memory-"
"""How the names of control groups begin, which limit the memory of runs."""
SOCKETS, UPLOADS, PODMAN_FOLDER = "mlebench-run-", "mlebench-check-", "mlebench-podman-"
"""How the names of temporary folders begin: of a run's sockets, of the submission checker, of a Podman service."""


@dataclass(frozen=True)
class Leftover:
    """Something that a dead session left: what it is, its name, and the run group that it belonged to."""

    kind: str
    name: str
    run_group: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" (run group {self.run_group})" if self.run_group else "")


def remove_leftovers(
    found: Mapping[Leftover, Callable[[], object]], *, dry_run: bool, reporter: Reporter
) -> list[Leftover]:
    """Report leftovers, and remove each in the way that it has here; with ``dry_run`` nothing is removed."""
    for leftover, remove in found.items():
        reporter(Note(f"{'would remove' if dry_run else 'removing'} {leftover}"))
        if not dry_run:
            remove()
    return list(found)


def clean_folders(
    run_dirs: Iterable[Path] = (), *, dry_run: bool = False, reporter: Reporter = silent
) -> list[Leftover]:
    """Remove the temporary folders of sessions that were killed; returns what they were, and reports each.

    ``run_dirs`` are run directories, and the run group around them, in which agents that ran without a container had
    their homes. With ``dry_run`` nothing is removed.
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
