"""One run: an agent on a competition in a sandbox, graded and recorded."""

from __future__ import annotations

import platform
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_mlebench import __version__
from pytest_mlebench.agents import Agent
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.verification import fingerprint
from pytest_mlebench.errors import InvalidSubmission, SandboxError
from pytest_mlebench.results.record import RunRecord
from pytest_mlebench.results.running import shown_as_running
from pytest_mlebench.sandbox import Ending, Execution, Limits, Sandbox, Task
from pytest_mlebench.sandbox.base import SUBMISSION

if TYPE_CHECKING:
    from pytest_mlebench.grading.grader import Grader

VALID = "The submission is valid."


@dataclass(frozen=True, kw_only=True)
class RunGroup:
    """The runs of one invocation, and where they leave their directories."""

    name: str
    folder: Path
    limits: Limits = field(default_factory=Limits)
    max_submission_bytes: int = 1 << 30
    keep_sandbox: bool = False
    worker: str = ""

    def new_run_id(self, competition: Competition, agent: Agent, seed: int) -> str:
        """``<competition id>_<unique>``, where the latter tells agent and seed to a reader."""
        readable = re.sub(r"[^A-Za-z0-9.]+", "-", agent.id)
        return f"{competition.id}_{readable}-{seed}-{secrets.token_hex(4)}"


def run_agent(
    agent: Agent, competition: Competition, dataset: Dataset, sandbox: Sandbox, group: RunGroup, *, seed: int = 0
) -> RunRecord:
    """Run an agent to its end, grade what it left, and write ``run.json`` into its run directory.

    Whatever the agent does is an outcome in the record. So is trouble of the harness (``error``), which is not raised:
    other runs go on. An interruption lets the record go and is raised. Raises SandboxError where not even a record can
    be written.
    """
    from pytest_mlebench.grading.grader import Grader  # pandas, which collecting must not import

    launch = agent.launch()
    launch = replace(launch, environment={"SEED": str(seed), **launch.environment})
    run_id = group.new_run_id(competition, agent, seed)
    run_dir = group.folder / run_id
    try:
        run_dir.mkdir(parents=True)
    except OSError as trouble:
        raise SandboxError(f"run directory {run_dir} cannot be made: {trouble.strerror}") from trouble
    grader = Grader(competition, dataset, max_bytes=group.max_submission_bytes)
    task = Task(
        competition_id=competition.id,
        agent=agent,
        launch=launch,
        public=dataset.public,
        run_dir=run_dir,
        validate=lambda path: verdict(grader, path),
        limits=group.limits,
        labels={"run_group": group.name, "run_id": run_id, "worker": group.worker},
        keep=group.keep_sandbox,
    )
    started = datetime.now(UTC)
    error: str | None = None
    with shown_as_running(
        run_dir,
        competition_id=competition.id,
        agent=agent.id,
        seed=seed,
        worker=group.worker,
        time_limit=group.limits.time_limit,
    ):
        try:
            execution = sandbox.run(task)
        except SandboxError as trouble:
            execution = Execution(ending=Ending.NOT_STARTED, seconds=0.0)
            error = str(trouble)
        ended = datetime.now(UTC)
        report = grader.report(run_dir / SUBMISSION)
    record = RunRecord(
        run_id=run_id,
        run_group=group.name,
        competition_id=competition.id,
        split=competition.split,
        category=competition.category,
        agent=agent.id,
        seed=seed,
        started_at=started.isoformat(),
        ended_at=ended.isoformat(),
        ending=execution.ending.value,
        seconds=round(execution.seconds, 3),
        detail=execution.detail,
        exit_code=execution.exit_code,
        signal=execution.signal,
        report=report,
        error=error,
        versions=_versions(),
        limits=asdict(group.limits),
        sandbox={**execution.sandbox, **({"kept": execution.kept} if execution.kept else {})},
        agent_definition=agent.describe(),
        data_verified=dataset.is_verified,
        data=fingerprint(dataset),
        description=dataset.description,
    )
    try:
        record.write(run_dir)
    except OSError as trouble:
        raise SandboxError(f"the run's record cannot be written to {run_dir}: {trouble.strerror}") from trouble
    return record


def verdict(grader: Grader, path: Path) -> str:
    """What the submission checker says of a file: whether it is well formed, else the reason; never a score."""
    from pytest_mlebench.grading.grader import GraderDefect

    try:
        grader.score(path)
    except GraderDefect:  # its text may tell of the answers
        return "The submission is not valid: it could not be read as the competition asks."
    except InvalidSubmission as reason:
        return f"The submission is not valid: {reason}"
    return VALID


def _versions() -> Mapping[str, str]:
    return {"pytest-mlebench": __version__, "python": platform.python_version()}
