"""Slurm as an engine: a job is a batch job, found by its name.

``squeue`` reports the status of jobs and, for some minutes, how they ended. Afterwards ``sacct`` does, if the site has
accounting.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pytest_mlebench.errors import ClusterError, reason
from pytest_mlebench.extras.engines.contract import Cause, Engine, Job, JobState, QueueFull, Resources, Status
from pytest_mlebench.extras.engines.plan import OUTPUT
from pytest_mlebench.extras.engines.resources import HARNESS_MEMORY
from pytest_mlebench.options import Settings
from pytest_mlebench.sandbox.redaction import tail

_ANSWER_SECONDS = 60.0
"""Timeout of Slurm's commands."""
_SUBMIT_SECONDS = 15.0
"""Timeout of ``sbatch``, which retries a full queue for minutes while other runs end."""
_FULL = re.compile(
    r"temporarily unable to accept|queue full|(QOS|Assoc)(Max|Grp)Submit|Too many jobs|"
    r"partition not available|Unable to contact slurm controller|Socket timed out|Zero Bytes were transmitted|"
    r"^(?!.*(QOS|Assoc)(Max|Min|Grp)).*Job violates accounting/QOS policy",  # old versions give no details
    re.IGNORECASE,
)
"""Errors after which ``sbatch`` may succeed later: a full queue, a drained partition, a controller that restarts."""
_HELD = re.compile(r"launch.failed.requeued.held|JobHoldMaxRequeue", re.IGNORECASE)
"""Reasons of a waiting job that Slurm could not start on its node and will not retry."""
_OURS = "array chdir error help open-mode output quiet test-only usage version wait wrap".split()
"""Options of ``sbatch`` that would hide a job's output or id from the session, or submit another number of jobs."""
_OURS_SHORT = re.compile("-[HOv]*([aDehoQVW])")
_OVERRIDDEN = {"chdir", "open-mode", "output", "D", "o"}
"""Those that have no effect in a script, since the session gives its own to ``sbatch``."""
_NO_NODES = "Requested node configuration is not available"
_RUNNING = frozenset({"RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "STAGE_OUT", "SIGNALING"})
_PENDING = frozenset(
    {"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT", "RESIZING"}
)
_CAUSES = {"OUT_OF_MEMORY": Cause.OUT_OF_MEMORY, "TIMEOUT": Cause.TIMED_OUT, "DEADLINE": Cause.TIMED_OUT}


class SlurmEngine:
    """Submits jobs with ``sbatch`` and the user's ``options``. The lines of the file ``setup`` precede the command.

    ``secrets`` names variables that must not be stored in Slurm's spool: jobs do not inherit them.
    ``$MLEBENCH_SLURM_SECONDS`` is the time between two polls of the controller (default 10).
    """

    name = "slurm"
    max_parallel: int | None = None

    def __init__(self, options: str = "", setup: Path | None = None, secrets: Sequence[str] = ()) -> None:
        self._options = _options(options, "--cluster-options")
        try:
            self._setup = "" if setup is None else setup.read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise ClusterError(f"--cluster-setup: {setup} cannot be read: {reason(error)}") from error
        head = re.match(r"(?:[ \t]*(?:#.*)?\n)*", f"{self._setup}\n")  # sbatch ignores what follows a command
        for line in re.findall(r"^#SBATCH[ \t](.*)", head[0] if head else "", re.MULTILINE):
            _options(line, f"--cluster-setup: {setup}", in_script=True)
        self.poll_seconds = self.settle_seconds = _interval()
        dropped = {*secrets, "SBATCH_ARRAY_INX", "SBATCH_ERROR", "SBATCH_WAIT"}
        self._environment = {name: value for name, value in os.environ.items() if name not in dropped}

    def check(self) -> None:
        """Check that Slurm answers and would accept a job with these options."""
        try:
            self._call("sinfo", "--noheader", "--format=%P")
        except ClusterError as error:
            raise ClusterError(f"{error}; start pytest where `sinfo` works, for example on a login node") from error
        self._has_nodes()

    def check_resources(self, resources: Resources) -> None:
        if self._has_nodes():
            self._call("sbatch", "--test-only", *requests(resources), *self._options, "--wrap=true")

    def _has_nodes(self) -> bool:
        """Whether Slurm would accept a small job now; False if its nodes are down, since jobs wait for them."""
        try:
            self._call("sbatch", "--test-only", *self._options, "--wrap=true")
        except ClusterError as error:
            if _NO_NODES not in str(error):
                raise
            return False
        return True

    def submit(self, job: Job, command: Sequence[str], resources: Resources) -> str:
        """Submit a job. ``$MLEBENCH_PYTHON``, which the setup lines may set, replaces the command's interpreter."""
        script = job.folder / f"{job.name}.sh"
        start = f'set -- {shlex.join(command)}\nexec "${{MLEBENCH_PYTHON:-$1}}" "${{@:2}}"'
        try:
            script.write_text(f"#!/bin/bash\n{self._setup}\n{start}\n", encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise ClusterError(f"the job's script cannot be written: {reason(error)}") from error
        try:
            output = self._call(
                *("sbatch", "--parsable", "--requeue", "--open-mode=append", f"--output={job.folder / OUTPUT}"),
                *(f"--chdir={job.folder}", *requests(resources), *self._options),
                f"--job-name={job.name}",  # the last name counts, and ``poll`` looks for this one
                str(script),
            )
        finally:
            script.unlink(missing_ok=True)  # Slurm has a copy
        return output.strip().partition(";")[0]

    def poll(self, jobs: Sequence[Job]) -> Mapping[str, Status]:
        names = {job.name for job in jobs}
        listed = self._call("squeue", "--me", "--states=all", "--noheader", "--format=%j|%T|%N|%i|%r")
        found = {name: status for name, _, status in _statuses(listed) if name in names}
        for job in jobs:
            status = found.get(job.name)
            if status is not None and status.state is JobState.PENDING and _HELD.search(status.reason):
                self.cancel([job])  # Slurm would hold it forever
                found[job.name] = Status(state=JobState.ENDED, reason=f"Slurm: {status.reason}")
        if forgotten := {job.id: job.name for job in jobs if job.name not in found and job.id}:
            with suppress(ClusterError):  # the site has no accounting
                listed = self._call(
                    *("sacct", "--noheader", "--parsable2", "--allocations", "--duplicates"),
                    *("--format=JobName%64,State%32,NodeList%64,JobID,Reason", f"--jobs={','.join(forgotten)}"),
                )
                # Jobs that never started have no name there.
                found |= {forgotten[id]: status for _, id, status in _statuses(listed) if id in forgotten}
        for job in jobs:  # without control groups, Slurm only reports a failure
            status = found.get(job.name)
            if status is not None and status.reason == "Slurm: failed" and _exceeded_memory(job):
                found[job.name] = replace(status, reason="Slurm: out of memory", cause=Cause.OUT_OF_MEMORY)
        return found

    def cancel(self, jobs: Sequence[Job]) -> None:
        ids = [job.id for job in jobs if job.id]
        for start in range(0, len(ids), 200):
            self._call("scancel", "--quiet", *ids[start : start + 200])
        for job in jobs:
            if not job.id:
                self._call("scancel", "--quiet", f"--name={job.name}")

    def describe(self) -> Mapping[str, str]:
        return {"engine": self.name, "version": self._call("sbatch", "--version").strip()} | (
            {"options": shlex.join(self._options)} if self._options else {}
        )

    def _call(self, *command: str) -> str:
        """The output of a Slurm command. Raises QueueFull, or ClusterError with the command's error."""
        seconds = _SUBMIT_SECONDS if command[0] == "sbatch" else _ANSWER_SECONDS
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                env=self._environment,
                stdin=subprocess.DEVNULL,
            )
        except FileNotFoundError:
            raise ClusterError(f"{command[0]} was not found: install Slurm's commands on this machine") from None
        except subprocess.TimeoutExpired as error:
            text = error.stderr.decode(errors="replace") if isinstance(error.stderr, bytes) else error.stderr or ""
            if _FULL.search(text):
                raise QueueFull(_line(text)) from None
            raise ClusterError(f"{command[0]} did not answer within {seconds:g} seconds") from None
        if done.returncode == 0:
            return done.stdout
        text = _line(done.stderr) or f"exit status {done.returncode}"
        raise (QueueFull if _FULL.search(text) else ClusterError)(f"{command[0]}: {text}")


def _options(text: str, what: str, *, in_script: bool = False) -> list[str]:
    """The words of options for ``sbatch``. Raises ClusterError for those of ``_OURS``, also if they are abbreviated."""
    allowed = _OVERRIDDEN if in_script else set()
    try:
        words = shlex.split(text, comments=in_script)
    except ValueError as error:
        raise ClusterError(f"{what}: {text!r} is invalid: {error}") from error
    for word in words:
        name = word.partition("=")[0]
        is_long = name.startswith("--") and any(option.startswith(name[2:]) for option in {*_OURS} - allowed)
        is_short = (match := _OURS_SHORT.match(word)) is not None and match[1] not in allowed
        if is_long or is_short:
            raise ClusterError(f"{what}: leave out {name}: each run is one job, whose output the session needs")
    return words


def _interval() -> float:
    text = os.environ.get("MLEBENCH_SLURM_SECONDS") or "10"
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < 3600:
        raise ClusterError(f"$MLEBENCH_SLURM_SECONDS is {text!r}, but must be a number of seconds")
    return seconds


def requests(resources: Resources) -> list[str]:
    """The resources to request from ``sbatch``, as options."""
    options = ["--nodes=1", "--ntasks=1", f"--time={math.ceil(resources.seconds / 60)}"]
    if resources.cpus is not None:
        options.append(f"--cpus-per-task={math.ceil(resources.cpus)}")
    if resources.memory is not None:
        options.append(f"--mem={math.ceil((resources.memory + HARNESS_MEMORY) / (1 << 20))}M")
    if resources.gpus:
        options.append(f"--gres=gpu:{resources.gpus}")
    return options


def _statuses(lines: str) -> list[tuple[str, str, Status]]:
    """Names, ids and statuses in the output of ``squeue`` or ``sacct``. Attempts that have not ended come last, so that
    they override earlier attempts at the same job."""
    found = []
    for line in lines.splitlines():
        name, state, node, id, why = ([part.strip() for part in line.split("|", 4)] + [""] * 5)[:5]
        state = state.partition(" ")[0]  # CANCELLED by 1000
        if state in _PENDING:
            found.append((name, id, Status(state=JobState.PENDING, reason=why)))
        elif state in _RUNNING:
            found.append((name, id, Status(state=JobState.RUNNING, node=node)))
        elif state:
            words = state.lower().replace("_", " ")
            cause = _CAUSES.get(state, Cause.LOST)
            found.append((name, id, Status(state=JobState.ENDED, reason=f"Slurm: {words}", node=node, cause=cause)))
    return sorted(found, key=lambda item: item[2].state is not JobState.ENDED)


def _exceeded_memory(job: Job) -> bool:
    """Whether a job's output ends with Slurm's message about exceeded memory."""
    message = f"StepId={job.id}.batch exceeded memory limit"
    return bool(job.id) and message in tail(job.folder / OUTPUT, lines=4096, max_bytes=4096)


def _line(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())[:500]


def create(settings: Settings | None, secret_names: tuple[str, ...]) -> Engine:
    """Return the engine for Slurm with a session's options; raises ClusterError if they are invalid."""
    if settings is None:
        return SlurmEngine()
    return SlurmEngine(settings.cluster_options or "", settings.cluster_setup, secret_names)
