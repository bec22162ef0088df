"""Pages of all run groups and of one group, which shows its report."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from pytest_mlebench.extras.viewer.folder import is_folder
from pytest_mlebench.extras.viewer.live import group_state, running
from pytest_mlebench.extras.viewer.site import Missing, Site, attachment, events, seg
from pytest_mlebench.records.group import RunGroup, runs_in_progress, runs_to_resume
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.page import page as report_page
from pytest_mlebench.reports.page import parts
from pytest_mlebench.results.findings import FINDINGS
from pytest_mlebench.results.overview import Overview, overview


def groups(site: Site, request: Request) -> Response:
    site.index.refresh()
    found = site.index.groups()
    return site.page(
        request,
        "groups.html",
        "Run groups",
        crumbs=[],
        groups=found,
        runs_dir=str(site.index.runs_dir),
        live=any(group.running for group in found),
        totals={
            "runs": sum(group.finished for group in found),
            "medals": sum(group.medals for group in found),
            "cost": sum(group.cost or 0 for group in found),
            "cost_is_complete": all(group.cost_is_complete for group in found),
            "live": sum(group.running for group in found),
        },
    )


def group(site: Site, request: Request) -> Response:
    name = request.path_params["group"]
    state = group_state(site.index.runs_dir / name) if is_folder(site.index.runs_dir, name) else ""
    group = site.group(name, fresh=True)
    read = site.read(group.name)
    if "export" in request.query_params:
        return attachment(report_page(overview([read])), f"{group.name}.html")
    base = f"/run/{seg(group.name)}"

    def run_link(record: RunRecord) -> str:
        return f"{base}/{seg(record.run_id)}"

    def run_links(record: RunRecord) -> list[tuple[str, str]]:
        link = run_link(record)
        return [
            ("The last failed step", f"{link}/trajectory?from=error"),
            ("The last error in the log", f"{link}/log?at=error"),
        ]

    folder = site.index.runs_dir / group.name
    found = runs_in_progress(folder)
    return site.page(
        request,
        "group.html",
        group.title or group.name,
        crumbs=[("Run groups", "/")],
        group=group,
        state=state,
        running=running(found, folder, site.calls),
        interrupted=runs_to_resume(found, read.runs.keys()),
        run_link=None if group.is_graded_only else run_link,
        run_links=None if group.is_graded_only else run_links,
        **_parts(site, read),
    )


def _parts(site: Site, group: RunGroup) -> dict[str, Any]:
    """Return what the page shows of a group's records. It takes half a second, so it is cached until a run ends."""
    audit = site.index.runs_dir / group.name / FINDINGS
    state = group, audit.stat().st_mtime_ns if audit.exists() else 0
    if site.group_parts[0] != state:
        site.group_parts = state, parts(overview([group]))
    return site.group_parts[1]


async def group_events(site: Site, request: Request) -> Response:
    name = request.path_params["group"]
    if not is_folder(site.index.runs_dir, name):
        raise Missing("there is no such run group")
    folder = site.index.runs_dir / name
    return events(lambda: group_state(folder))


def shared_parts(view: Overview) -> dict[str, Any]:
    """Return the report's parts that other pages show too. Their numbers link to the list of all runs."""
    agents = {summary.label: (summary.group, summary.agent) for summary in view.summaries}
    groups = [group.name for group in view.groups]

    def runs_of(*, agent: str, split: str = "", outcome: str = "") -> str:
        group, name = agents.get(agent, ("", agent))
        chosen = [*(("group", group_name) for group_name in ([group] if group else groups)), ("agent", name)]
        return f"/runs?{urlencode([*chosen, *((k, v) for k, v in (('split', split), ('outcome', outcome)) if v)])}"

    return {**parts(view, log_bytes=0), "runs_of": runs_of}
