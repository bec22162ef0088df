"""Exports a run group to MLflow: an experiment for the group, and a run for each record.

The tag ``mlebench.run_id`` identifies a run. A run that was sent completely has the tag ``mlebench.sent`` with a digest
of the data; it is updated only if the digest differs. The times of metrics are derived from the record, and metrics
that the server has are not sent again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_mlebench.data.preparing import shown_url
from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.interop import facts
from pytest_mlebench.extras.interop.contract import ExportOption, Request, set_by_default, third_party
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.sandbox.redaction import Redactor

logger = logging.getLogger("pytest_mlebench")

SUMMARY = "an experiment in MLflow with a run for each record"
OPTIONS = (
    ExportOption("--tracking-uri", "URI", "the MLflow server (default: $MLFLOW_TRACKING_URI)"),
    ExportOption("--no-artifacts", "", "send no files (submission, trajectory, report and log)"),
)
_SENT, _RUN_ID = "mlebench.sent", "mlebench.run_id"
_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "4",  # the default retries for many minutes
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_PARAMETER, _TAG, _KEY = 6000, 5000, 250
_PARAMETERS_AT_ONCE, _METRICS_AT_ONCE = 100, 800


def export(group: RunGroup, request: Request) -> Iterator[str]:
    """Send or update each run; raises UsageError if the server refuses."""
    with set_by_default(_ENVIRONMENT):
        client_module = third_party("mlflow.tracking", "mlflow")
        uri = request.options.get("--tracking-uri") or os.environ.get("MLFLOW_TRACKING_URI")
        if not uri:
            raise UsageError("--to=mlflow needs --tracking-uri=URI, or the variable MLFLOW_TRACKING_URI")
        problem = third_party("mlflow.exceptions", "mlflow").MlflowException
        try:
            tracker = _Tracker(client_module.MlflowClient(uri), group, files="--no-artifacts" not in request.options)
            done = [tracker.send(record) for record in group.records]
            tracker.remove_duplicates()
        except (problem, OSError) as error:
            shown = shown_url(uri)
            why = " ".join(str(error).replace(uri.rstrip("/"), shown).split())[:300]
            raise UsageError(
                f"{shown}: {why}; the same command continues where this one stopped, and sends nothing twice"
            ) from error
    sent = sum(done)
    more = f", {len(done) - sent} were there already" if sent < len(done) else ""
    yield f"{shown_url(uri)}: experiment {group.name}, {pluralize(sent, 'run')} sent{more}"


@dataclass(frozen=True)
class _Values:
    """The data of a run. The keys of ``metrics`` are name, time in milliseconds since 1970, and step."""

    parameters: Mapping[str, str]
    tags: Mapping[str, str]
    metrics: Mapping[tuple[str, int, int], float]


class _Tracker:
    def __init__(self, client: Any, group: RunGroup, *, files: bool) -> None:
        self._client, self._group, self._files = client, group, files
        self._entities = third_party("mlflow.entities", "mlflow")
        self._redactor = facts.cleaner()
        found = client.get_experiment_by_name(group.name)
        if found is not None and found.lifecycle_stage != "active":
            raise UsageError(f"MLflow's experiment {group.name} was deleted: restore it, or delete it permanently")
        self._experiment = client.create_experiment(group.name) if found is None else found.experiment_id
        self._known = self._runs()
        self._created = False

    def _runs(self) -> dict[str, Any]:
        """The experiment's runs by our ids. Of duplicates, keeps one that was sent completely, or else the oldest, and
        deletes the others: if a response is lost, MLflow's client creates another run."""
        runs, token = list[Any](), None
        while True:
            page = self._client.search_runs(
                [self._experiment], f"tags.`{_RUN_ID}` LIKE '%'", max_results=500, page_token=token
            )
            runs += page
            if not (token := page.token):
                break
        found = dict[str, Any]()
        for run in sorted(runs, key=lambda run: (_SENT not in run.data.tags, run.info.start_time, run.info.run_id)):
            if found.setdefault(run.data.tags[_RUN_ID], run) is not run:
                self._client.delete_run(run.info.run_id)
        return found

    def remove_duplicates(self) -> None:
        """Delete duplicates that lost responses caused in this export."""
        if self._created:
            self._runs()

    def send(self, record: RunRecord) -> bool:
        """Send a run; returns False if the server already has all of it."""
        values = _values(self._group, record, self._redactor)
        with tempfile.TemporaryDirectory(prefix="mlebench-mlflow-") as folder:
            files = facts.artifacts(self._group, record, Path(folder), self._redactor) if self._files else []
            digest = _digest(values, files)
            known = self._known.get(values.tags[_RUN_ID])
            if known is not None and known.data.tags.get(_SENT) == digest:
                return False
            if known is None:
                self._created = True
                start = facts.milliseconds(record.started_at)
                name = values.tags[_RUN_ID]
                known = self._client.create_run(self._experiment, start, dict(values.tags), run_name=name)
            else:
                tags = [self._entities.RunTag(*tag) for tag in values.tags.items()]
                self._client.log_batch(known.info.run_id, tags=tags)
            self._log(known, values)
            for path in files:
                self._client.log_artifact(known.info.run_id, str(path))
            status = "FINISHED" if record.outcome.passed else "FAILED"
            self._client.set_terminated(known.info.run_id, status=status, end_time=facts.milliseconds(record.ended_at))
            self._client.set_tag(known.info.run_id, _SENT, digest)
        return True

    def _log(self, run: Any, values: _Values) -> None:
        """Log parameters and metrics that the run lacks."""
        run_id = run.info.run_id
        changed = [name for name, value in run.data.params.items() if values.parameters.get(name, value) != value]
        if changed:
            logger.warning("warning: MLflow keeps the first values of parameters: %s of %s", ", ".join(changed), run_id)
        missing = [pair for pair in values.parameters.items() if pair[0] not in run.data.params]
        parameters = [self._entities.Param(*pair) for pair in missing]
        new = self._missing_metrics(run, values).items()
        metrics = [self._entities.Metric(name, value, time, step) for (name, time, step), value in new]
        while parameters or metrics:
            self._client.log_batch(run_id, metrics[:_METRICS_AT_ONCE], parameters[:_PARAMETERS_AT_ONCE])
            del metrics[:_METRICS_AT_ONCE], parameters[:_PARAMETERS_AT_ONCE]

    def _missing_metrics(self, run: Any, values: _Values) -> Mapping[tuple[str, int, int], float]:
        """The metrics that the run lacks. MLflow shows the last value of a step, so a changed value gets a time that is
        one millisecond later."""
        existing = {
            (name, metric.timestamp, metric.step): metric.value
            for name in run.data.metrics
            for metric in self._client.get_metric_history(run.info.run_id, name)
        }
        found = {}
        for (name, time, step), value in values.metrics.items():
            last = None
            while (name, time, step) in existing:
                last = existing[name, time, step]
                time += 1
            if last != value:
                found[name, time, step] = value
        return found


def _values(group: RunGroup, record: RunRecord, redactor: Redactor) -> _Values:
    def cut(text: object, length: int) -> str:
        return redactor.text(str(text), length)

    start, end = facts.milliseconds(record.started_at), facts.milliseconds(record.ended_at)
    metrics = {(name, end, 0): value for name, value in facts.metrics(record).items()}
    for seconds, found in facts.timeline(record):
        metrics |= {(name, start + round(1000 * seconds), round(seconds)): value for name, value in found.items()}
    return _Values(
        parameters={_key(name): cut(value, _PARAMETER) for name, value in facts.parameters(group, record).items()},
        tags={name: cut(value, _TAG) for name, value in facts.tags(record).items()}
        | {_RUN_ID: re.sub(r"[^\w.-]", "_", cut(record.run_id, _KEY))},
        metrics={(_key(name), time, step): value for (name, time, step), value in metrics.items()},
    )


def _key(name: str) -> str:
    """A name with only the characters that MLflow accepts."""
    return re.sub(r"[^\w\-. :/]", "_", name)[:_KEY]


def _digest(values: _Values, files: list[Path]) -> str:
    whole = [dict(values.parameters), dict(values.tags), sorted((*key, value) for key, value in values.metrics.items())]
    digest = hashlib.sha256(json.dumps(whole, sort_keys=True).encode())
    for path in files:
        with path.open("rb") as file:
            digest.update(f"\0{path.name}\0".encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
