"""A run: its overview and its record."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pytest_mlebench.extras.viewer.answers import timestamp
from pytest_mlebench.extras.viewer.folder import Refused, read
from pytest_mlebench.extras.viewer.formats import seg
from pytest_mlebench.extras.viewer.index import Group, Run
from pytest_mlebench.extras.viewer.live import log_end, log_state, running
from pytest_mlebench.extras.viewer.pictures import run_timeline
from pytest_mlebench.extras.viewer.site import RUN_PATH, Site
from pytest_mlebench.extras.viewer.text import code
from pytest_mlebench.records.record import RECORD, RunRecord
from pytest_mlebench.reports.run_details import ending_as_sentence, run_details
from pytest_mlebench.results.findings import findings

_RECORD_SHOWN = 2 << 20


class RunPages:
    """The pages of a run as a whole."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def routes(self) -> list[Route]:
        return [
            Route(RUN_PATH, self.run),
            Route(f"{RUN_PATH}/record", self.record),
        ]

    def run(self, request: Request) -> Response:
        group, run_id, folder = self.site.place(request)
        state = log_state(folder, run_id)
        record = self.site.record(folder, run_id)
        calls = self.site.calls.of(folder, run_id)
        if record is not None:
            started = timestamp(record.started_at)
            calls = [replace(call, seconds=call.seconds - started) for call in calls] if started else []
        base = f"/run/{seg(group.name)}/{seg(run_id)}"
        active, stopped = running(folder, self.site.calls)
        now = [own for own in (*active, *stopped) if own.id == run_id]
        siblings = [] if record is None else self._siblings(group, record)
        context = self.site.run_context(request, group, run_id, record, "overview")
        return self.site.page(
            request,
            "run.html",
            **context,
            details=_details(record) if record is not None else [],
            timeline=run_timeline(record, calls, f"{base}/trajectory?at=")
            if record is not None and (record.timeline or calls)
            else None,
            state=state,
            findings=findings(folder / run_id)[:100],
            running=now[0] if now else None,
            log=log_end(folder, run_id, 12, 16384),
            siblings=siblings,
            ladder=_ladder(record),
            failed=record is not None and not record.outcome.passed,
            ended=ending_as_sentence(record) if record is not None else "",
        )

    def record(self, request: Request) -> Response:
        group, run_id, folder = self.site.place(request)
        record = self.site.record(folder, run_id)
        text, size = "", 0
        with suppress(Refused):
            content, size = read(folder, run_id, RECORD, size=_RECORD_SHOWN)
            text = content.decode("utf-8", "replace")
        return self.site.page(
            request,
            "record.html",
            **self.site.run_context(request, group, run_id, record, "record"),
            details=run_details(record) if record is not None else [],
            connections=record.sandbox.connections[:500] if record is not None else (),
            models=record.usage.models if record is not None else {},
            confinement=record.confinement if record is not None else {},
            text=code(text),
            left_out=max(0, size - _RECORD_SHOWN),
        )

    def _siblings(self, group: Group, record: RunRecord) -> list[Run]:
        """The other runs on the same competition, those of the same group first."""
        runs = self.site.index.runs(competition=record.competition_id)
        others = [run for run in runs if (run.group_name, run.run_id) != (group.name, record.run_id)]
        order = sorted(
            others, key=lambda run: (run.group_name != group.name, run.agent != record.agent, run.result.rank)
        )
        return order[:12]


def _details(record: RunRecord) -> list[tuple[str, str]]:
    """What the overview of a run tells in words."""
    hidden = {"run", "outcome", "score", "started", "limits", "versions", "connections"}
    return [(term, text) for term, text in run_details(record) if term not in hidden]


def _ladder(record: RunRecord | None) -> list[tuple[str, float, bool]]:
    """The thresholds, the best first, and whether the score meets each."""
    if record is None:
        return []
    score, lower = record.score, record.report.is_lower_better
    return [
        (name, value, score is not None and (score < value if lower else score > value) if name == "median"
         else score is not None and (score <= value if lower else score >= value))
        for name, value in record.thresholds.items()
    ]  # fmt: skip
