"""Exports a run group to Weights & Biases: a run for each record, and one with a table of all outcomes.

Ids are derived from the group and the run, and steps from the timeline. So a second export updates the same runs, and
adds no step twice. ``--offline`` writes files for ``wandb sync``, which replace those of an earlier export.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.interop import facts
from pytest_mlebench.extras.interop.contract import ExportOption, Request, set_by_default, third_party
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.io.values import as_number
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.record import RunRecord

SUMMARY = "runs in Weights & Biases, or files for `wandb sync`"
OPTIONS = (
    ExportOption("--project", "NAME", "the project (default: mle-bench)"),
    ExportOption("--entity", "NAME", "the user or team (default: that of your key)"),
    ExportOption("--offline", "", "write files for `wandb sync` to the folder of --output, and send nothing"),
)
_ENVIRONMENT = {"WANDB_ERROR_REPORTING": "false"}
_TAG = 64
_FINISH_SECONDS = 300
"""Timeout for sending a run's data at its end. W&B's client would wait forever."""
_EXPORTED_AT = "mlebench.exported_at"
_READ_BACK_WAITS = (0, 1, 3, 10, 30)
"""Seconds before each check for arrived data, which W&B shows with a delay."""
_MAX_NAMED = 5
_REPEATABLE = "the same command updates the runs, and adds nothing twice"


def export(group: RunGroup, request: Request) -> Iterator[str]:
    """Send or write each run; raises UsageError if the server refuses."""
    offline = "--offline" in request.options
    with set_by_default(_ENVIRONMENT), TemporaryDirectory(prefix="mlebench-wandb-") as scratch:
        wandb = third_party("wandb", "wandb")
        folder = request.folder(group) if offline else Path(scratch)
        project = request.options.get("--project", "mle-bench")
        target = _Target(wandb, group, folder, project, request.options.get("--entity"), offline=offline)
        for record in group.records:
            target.send(record)
        target.send_outcomes()
        if not offline:
            target.read_back()
    runs = pluralize(len(group.records), "run")
    yield f"{folder}: {runs} for `wandb sync`" if offline else f"W&B, project {project}: {runs} of {group.name}"


@contextmanager
def _client_errors(wandb: Any) -> Iterator[None]:
    """Context manager: turn errors of W&B's client into UsageError.

    It catches all exceptions: for an invalid answer, the client raises errors of several libraries, or a private one.
    """
    try:
        yield
    except Exception as error:
        with suppress(Exception):  # else the client shows the error with a traceback at exit
            wandb.teardown(exit_code=1)
        why = " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
        raise UsageError(f"W&B: {why}; {_REPEATABLE}") from error


class _Target:
    def __init__(
        self, wandb: Any, group: RunGroup, folder: Path, project: str, entity: str | None, *, offline: bool
    ) -> None:
        self._wandb, self._group, self._folder = wandb, group, folder
        self._clean = facts.cached(facts.cleaner())
        self._offline = offline
        self._shared = {"project": project, "entity": entity, "group": self._clean(group.name)}
        self._exported_at = datetime.now(UTC).isoformat()
        self._sent: dict[str, str] = {}
        """Names of the sent runs by their ids."""

    def send(self, record: RunRecord) -> None:
        config = {name: self._text(value) for name, value in facts.parameters(self._group, record).items()}
        labels = (record.outcome.value, record.split, f"verified: {record.data_verified}")
        tags = [self._clean(label)[:_TAG] for label in labels]
        timeline = [{"timeline.seconds": seconds, **values} for seconds, values in facts.timeline(record)]
        summary = facts.metrics(record) | {name: self._text(value) for name, value in facts.tags(record).items()}
        with _client_errors(self._wandb):
            run = self._init(record.run_id, config=config, tags=tags, job_type="run")
            for step, point in enumerate(timeline):
                run.log(point, step=step)
            run.summary.update(summary)
            self._finish(run, record.run_id, exit_code=0 if record.outcome.passed else 1)

    def send_outcomes(self) -> None:
        rows = [
            {
                "competition": record.competition_id,
                "seed": record.seed,
                "agent": record.agent,
                "outcome": record.outcome.label,
                "medal": record.report.medal or "none",
                "score": as_number(record.score),
                "percentile": record.report.percentile,
                "cost": record.cost,
                "seconds": record.seconds,
                "run": record.run_id,
            }
            for record in self._group.records
        ]
        data = [[self._text(cell) for cell in row.values()] for row in rows]
        with _client_errors(self._wandb):
            run = self._init(f"{self._group.name} outcomes", config={}, tags=[], job_type="outcomes")
            # Without a step, W&B uses the next one. It ignores steps that an earlier export sent.
            run.log({"outcomes": self._wandb.Table(columns=[*rows[0]], data=data)})
            self._finish(run, "outcomes")

    def read_back(self) -> None:
        """Raise UsageError unless all runs have arrived completely: the client does not report data that the server
        refuses permanently, such as with status 413."""
        for seconds in _READ_BACK_WAITS:
            time.sleep(seconds)
            with _client_errors(self._wandb):
                filters = {"group": self._shared["group"]}
                found = self._wandb.Api().runs(self._path, filters=filters, per_page=100, lazy=False)
                arrived = {run.id for run in found if self._is_complete(run)}
            if not (missing := [name for id, name in self._sent.items() if id not in arrived]):
                return
        names = ", ".join(missing[:_MAX_NAMED]) + (", …" if len(missing) > _MAX_NAMED else "")
        runs = pluralize(len(self._sent), "run")
        raise UsageError(
            f"W&B lacks data of {len(missing)} of {runs} ({names}): its server may limit request sizes; {_REPEATABLE}"
        )

    def _is_complete(self, run: Any) -> bool:
        """Whether the server has all of a run: its summary, which is sent last, and the files that it names."""
        values = run.summary_metrics
        if values.get(_EXPORTED_AT) != self._exported_at:
            return False
        sizes = {item["path"]: item["size"] for item in values.values() if isinstance(item, dict) and "path" in item}
        return not sizes or sizes == {file.name: file.size for file in run.files(names=[*sizes])}

    def _finish(self, run: Any, name: str, exit_code: int = 0) -> None:
        run.summary.update({_EXPORTED_AT: self._exported_at})
        run.finish(exit_code=exit_code)
        self._path = f"{run.entity}/{run.project}"
        self._sent[run.id] = self._clean(name)

    def _init(self, name: str, **more: Any) -> Any:
        id = hashlib.sha256(f"{self._group.name}\0{name}".encode()).hexdigest()[:24]
        if self._offline:
            for earlier in (self._folder / "wandb").glob(f"offline-run-*-{id}"):
                shutil.rmtree(earlier)
        settings = self._wandb.Settings(
            console="off",
            silent=True,
            save_code=False,
            disable_code=True,
            disable_git=True,
            disable_job_creation=True,
            x_disable_meta=True,
            x_save_requirements=False,
            x_disable_stats=True,
            x_disable_machine_info=True,
            init_timeout=60,
            finish_timeout=_FINISH_SECONDS,
            finish_timeout_raises=True,
        )
        return self._wandb.init(
            **self._shared,
            id=id,
            name=self._clean(name),
            dir=str(self._folder),
            mode="offline" if self._offline else "online",
            resume=None if self._offline else "allow",
            reinit="finish_previous",
            settings=settings,
            **more,
        )

    def _text(self, value: Any) -> Any:
        return self._clean(value) if isinstance(value, str) else value
