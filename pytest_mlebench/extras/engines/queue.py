"""Submits a session's runs to an engine, tracks their jobs, and returns each result once."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_mlebench.errors import ClusterError, MLEBenchError, UsageError
from pytest_mlebench.extras.engines import plan as plans
from pytest_mlebench.extras.engines.contract import Cause, Engine, Job, JobState, QueueFull, Resources, Status
from pytest_mlebench.extras.engines.plan import JobEnd, JobPlan
from pytest_mlebench.io.progress import Note, Reporter, WarningNote
from pytest_mlebench.records.group import GroupReader
from pytest_mlebench.records.record import RunKey, RunRecord

_ATTEMPTS = 3
"""Number of attempts at a submission that the engine refuses or does not answer."""


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The result of a run: its record, or why there is none."""

    key: RunKey
    record: RunRecord | None = None
    error: str = ""


@dataclass
class _Live:
    """A submitted job. ``ended_since`` is when the engine first reported its end (monotonic seconds)."""

    plan: JobPlan
    job: Job
    ended_since: float | None = None


class RunQueue:
    """The runs that a session submits to an engine. For use by one thread.

    ``command`` returns the command that executes a plan; ``record_lost`` writes the record of a run whose job left
    none. ``reader`` reads the run group. A full queue is retried after ``full_seconds``. Jobs of other engines must
    have ended.
    """

    def __init__(
        self,
        group: Path,
        engine: Engine,
        *,
        reader: GroupReader,
        resources: Callable[[JobPlan], Resources],
        command: Callable[[Path, str], Sequence[str]],
        record_lost: Callable[[JobPlan, Cause, str], RunRecord],
        reporter: Reporter,
        max_parallel: int | None = None,
        full_seconds: float = 10.0,
    ) -> None:
        self._group, self._engine, self._reader = group, engine, reader
        self._resources, self._command, self._record_lost = resources, command, record_lost
        self._reporter, self._full_seconds = reporter, full_seconds
        self._max_parallel = max_parallel or engine.max_parallel
        self._waiting: deque[JobPlan] = deque()
        self._live: dict[str, _Live] = {}
        self._refused = Counter[RunKey]()
        self._final: set[str] = set()
        self._failed: list[RunResult] = []
        self._polled = self._full_until = float("-inf")
        self._reported_full = ""
        self._is_unreachable = False
        self._earlier = {plan.key: (plan, job) for plan, job in plans.open_plans(group) if plan.engine == engine.name}

    @property
    def is_empty(self) -> bool:
        return not self._waiting and not self._live

    def add(self, plan: JobPlan) -> None:
        """Adopt this engine's job of an earlier session that still does this run, or queue the run."""
        earlier = self._earlier.pop(plan.key, None)
        if earlier is None:
            self._waiting.append(plan)
            return
        known, job = earlier
        kept = {name: getattr(known, name) for name in ("name", "engine", "attempt", "earlier", "submitted")}
        self._live[known.name] = _Live(replace(plan, **kept), job)

    def step(self) -> list[RunResult]:
        """Submit as many runs as allowed; returns the runs that have ended since the last call, in order of ending."""
        self._submit()
        found = self._ended()
        if self._live and time.monotonic() - self._polled >= self._engine.poll_seconds:
            found += self._poll()
            self._polled = time.monotonic()
        return found

    def cancel(self) -> int:
        """End all jobs; returns the number of those that had not ended. Raises ClusterError."""
        jobs = [live.job for live in self._live.values()]
        self._waiting.clear()
        if jobs:
            self._engine.cancel(jobs)
        count = _report_cancelled(self._group, self._live.keys())
        self._live.clear()
        return count

    @property
    def waiting(self) -> int:
        """Number of runs that are not submitted yet."""
        return len(self._waiting)

    @property
    def live(self) -> int:
        """Number of jobs that wait or run at the engine."""
        return len(self._live)

    def _submit(self) -> None:
        while self._waiting and time.monotonic() >= self._full_until:
            if self._max_parallel is not None and len(self._live) >= self._max_parallel:
                return
            earlier = self._waiting[0]
            plan = replace(earlier, name=plans.new_name(earlier.key), engine=self._engine.name, submitted=time.time())
            folder = plans.job_folder(self._group, plan.key)
            try:
                job = plans.write_plan(folder, plan)
                plans.remove_end(self._group, earlier.name)  # the new plan suffices to stop a job of that name
                self._waiting[0] = plan
                self._live[plan.name] = _Live(plan, job)  # already now: Ctrl-C may interrupt the submission
                id = self._engine.submit(job, self._command(folder / plans.PLAN, plan.name), self._resources(plan))
            except ClusterError as error:
                # The engine may have received the job despite the error.
                self._live.pop(plan.name, None)
                _report_end(self._group, plan.name, JobEnd())
                self._refuse(plan.key, error)
                return
            self._waiting.popleft()
            self._reported_full = ""
            self._live[plan.name] = _Live(plan, plans.note_id(job, id))

    def _refuse(self, key: RunKey, error: ClusterError) -> None:
        """Wait before the first run is submitted again, or give it up."""
        if isinstance(error, QueueFull):
            self._full_until = time.monotonic() + self._full_seconds
            if not self._live and self._reported_full != str(error):  # with live jobs, a place becomes free
                self._reported_full = str(error)
                self._reporter(Note(f"{self._engine.name} accepts no more jobs for now: {error}"))
            return
        self._refused[key] += 1
        if self._refused[key] < _ATTEMPTS and str(error) not in self._final:
            self._full_until = time.monotonic() + self._engine.poll_seconds
            return
        self._final.add(str(error))  # other runs will be refused for the same reason
        self._waiting.popleft()
        self._failed.append(RunResult(key=key, error=str(error)))

    def _ended(self) -> list[RunResult]:
        """The runs whose jobs have reported their end, and those that the engine refused."""
        found, self._failed = self._failed, []
        for name in plans.ended_names(self._group) & self._live.keys():
            plan = self._live.pop(name).plan
            found.append(self._result(plan, plans.read_end(self._group, name)))
        return sorted(found, key=lambda result: result.record.ended_at if result.record else "")

    def _result(self, plan: JobPlan, end: JobEnd) -> RunResult:
        if not end.run_id:
            return RunResult(key=plan.key, error=end.error or "the job was cancelled")
        try:
            return RunResult(key=plan.key, record=self._reader.record(end.run_id))
        except UsageError as error:
            return RunResult(key=plan.key, error=str(error))

    def _poll(self) -> list[RunResult]:
        """Poll the engine, and handle jobs that ended without a report."""
        try:
            known = self._engine.poll([live.job for live in self._live.values()])
        except ClusterError as error:
            if not self._is_unreachable:
                self._reporter(WarningNote(f"{self._engine.name} does not answer; its jobs continue: {error}"))
            self._is_unreachable = True
            return []
        self._is_unreachable = False
        found, now = self._ended(), time.monotonic()  # jobs report before they end
        unknown = Status(state=JobState.ENDED, reason=f"{self._engine.name} does not know it any more")
        for name, live in list(self._live.items()):
            status = known.get(name, unknown)
            if status.state is not JobState.ENDED:
                live.ended_since = None
                continue
            if live.ended_since is None:
                live.ended_since = now
            if now - live.ended_since >= self._engine.settle_seconds:
                del self._live[name]
                found += self._handle_lost(live.plan, status)
        return found

    def _handle_lost(self, plan: JobPlan, status: Status) -> list[RunResult]:
        """Handle a job that ended without a report: read its record, submit the run again, or record the loss."""
        if (record := plans.record_by(self._group, plan.key, {plan.name, *plan.earlier})) is not None:
            return [RunResult(key=plan.key, record=record)]
        alive = plans.read_alive(plans.job_folder(self._group, plan.key), plan.name)
        plan = replace(plan, attempt=plan.attempt + (alive.restarts if alive else 0))
        run = f"{plan.agent} on {plan.competition_id}, seed {plan.seed}"
        if status.cause is Cause.LOST and plan.attempt < plan.max_requeues:
            self._reporter(WarningNote(f"{run}: its job was lost ({status.reason}); it is submitted again"))
            self._waiting.appendleft(replace(plan, attempt=plan.attempt + 1, earlier=(*plan.earlier, plan.name)))
            return []
        try:
            record = self._record_lost(plan, status.cause, status.reason)
        except MLEBenchError as error:
            return [RunResult(key=plan.key, error=f"its job was lost ({status.reason}): {error}")]
        _report_end(self._group, plan.name, JobEnd(run_id=record.run_id))
        return [RunResult(key=plan.key, record=record)]


def _report_cancelled(group: Path, names: Set[str]) -> int:
    """Report those jobs as cancelled that have not reported their own end; returns their number."""
    cancelled = names - plans.ended_names(group)
    for name in cancelled:
        _report_end(group, name, JobEnd())
    return len(cancelled)


def _report_end(group: Path, name: str, end: JobEnd) -> None:
    """Report a job's end if possible. Without the report, a later session polls the job, and finds its record."""
    with suppress(OSError):
        plans.report_end(group, name, end)


def stop(group: Path, engines: Mapping[str, Callable[[], Engine]]) -> int:
    """End the waiting and running jobs of all sessions of a group; returns the number of those that had not ended.

    Raises ClusterError if an engine is not installed, does not answer, or cannot end a job.
    """
    found, count = plans.open_plans(group), 0
    for name in {plan.engine for plan, _ in found}:
        if name not in engines:
            raise ClusterError(f"{group} has jobs of the engine {name}, which is not installed")
        jobs = [job for plan, job in found if plan.engine == name]
        engines[name]().cancel(jobs)
        count += _report_cancelled(group, {job.name for job in jobs})
    return count
