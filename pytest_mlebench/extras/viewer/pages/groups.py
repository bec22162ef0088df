"""All run groups, and one: its runs, its results, its setting."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pytest_mlebench.extras.viewer.answers import attachment, events
from pytest_mlebench.extras.viewer.folder import is_folder
from pytest_mlebench.extras.viewer.formats import seg
from pytest_mlebench.extras.viewer.live import changes, group_state, running
from pytest_mlebench.extras.viewer.site import Missing, Site
from pytest_mlebench.reports.medals import in_order
from pytest_mlebench.reports.page import page as report_page
from pytest_mlebench.reports.page import parts
from pytest_mlebench.results.findings import Verdict, read_findings
from pytest_mlebench.results.overview import Overview, overview


class GroupPages:
    """The pages of run groups."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def routes(self) -> list[Route]:
        return [
            Route("/", self.groups),
            Route("/group/{group}", self.group),
            Route("/group/{group}/results", self.results),
            Route("/group/{group}/setting", self.setting),
            Route("/group/{group}/events", self.group_events),
        ]

    def groups(self, request: Request) -> Response:
        self.site.index.refresh()
        found = self.site.index.groups()
        return self.site.page(
            request,
            "groups.html",
            "Run groups",
            crumbs=[],
            groups=found,
            runs_dir=str(self.site.index.runs_dir),
            live=any(group.is_live for group in found),
            totals={
                "runs": sum(group.finished for group in found),
                "medals": sum(group.medals for group in found),
                "cost": sum(group.cost or 0 for group in found),
                "live": sum(group.running for group in found),
            },
        )

    def group(self, request: Request) -> Response:
        name = request.path_params["group"]
        state = group_state(self.site.index.runs_dir / name) if is_folder(self.site.index.runs_dir, name) else ""
        group = self.site.group_of(request, fresh=True)
        folder = self.site.index.runs_dir / group.name
        runs = self.site.runs(group.name)
        now, interrupted = running(folder, self.site.calls)
        spent = [own.cost for own in now if own.cost is not None]
        known = [group.cost] if group.cost is not None else []
        return self.site.page(
            request,
            "group.html",
            group.title or group.name,
            crumbs=[("Run groups", "/")],
            group=group,
            tab="runs",
            state=state,
            verdicts=_verdicts(folder),
            runs=runs,
            running=now,
            interrupted=interrupted,
            spent=sum([*spent, *known]) if spent or known else None,
            costs=any(run.calls for run in runs),
            agents=sorted({run.agent for run in runs}),
            firm=(sum(run.firm == "firm" for run in runs), sum(run.firm in ("firm", "not firm") for run in runs)),
        )

    def results(self, request: Request) -> Response:
        group = self.site.group_of(request)
        view = overview([self.site.read(group.name)])
        if "export" in request.query_params:
            return attachment(report_page(view), f"{group.name}.html")
        return self.site.page(
            request,
            "results.html",
            f"Results of {group.name}",
            crumbs=[("Run groups", "/"), (group.name, f"/group/{seg(group.name)}")],
            group=group,
            tab="results",
            crumb="Results",
            links=json.dumps(
                [f"/run/{seg(group.name)}/{seg(row['record'].run_id)}" for row in _rows_of(view)],
            ),
            run_link=lambda record: f"/run/{seg(group.name)}/{seg(record.run_id)}",
            **shared_parts(view),
        )

    def setting(self, request: Request) -> Response:
        group = self.site.group_of(request)
        view = overview([self.site.read(group.name)])
        found = parts(view, log_bytes=0)
        return self.site.page(
            request,
            "group_setting.html",
            f"Setting of {group.name}",
            crumbs=[("Run groups", "/"), (group.name, f"/group/{seg(group.name)}")],
            group=group,
            tab="setting",
            crumb="Setting",
            groups=found["groups"],
            common=found["common"],
        )

    async def group_events(self, request: Request) -> Response:
        name = request.path_params["group"]
        if not is_folder(self.site.index.runs_dir, name):
            raise Missing("there is no such run group")
        folder = self.site.index.runs_dir / name
        return events(changes(lambda: group_state(folder)))


def _verdicts(folder: Path) -> Mapping[str, Verdict]:
    """What an audit says of each run of a group; none where there was no audit."""
    with suppress(OSError, ValueError):
        found = read_findings(folder)
        return {} if found is None else found.verdicts
    return {}


def _rows_of(view: Any) -> list[dict[str, Any]]:
    return [{"record": record} for record in in_order(view.records)]


def shared_parts(view: Overview) -> dict[str, Any]:
    """The report's parts that other pages show too; their numbers lead to the list of all runs."""
    agents = {summary.label: (summary.group, summary.agent) for summary in view.summaries}
    groups = [group.name for group in view.groups]

    def runs_of(*, agent: str, split: str = "", outcome: str = "") -> str:
        group, name = agents.get(agent, ("", agent))
        chosen = [*(("group", own) for own in ([group] if group else groups)), ("agent", name)]
        return f"/runs?{urlencode([*chosen, *((k, v) for k, v in (('split', split), ('outcome', outcome)) if v)])}"

    return {**parts(view, log_bytes=0), "runs_of": runs_of}
