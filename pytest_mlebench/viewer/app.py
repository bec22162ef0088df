"""The application: an address for each view, and what its page shows."""

from __future__ import annotations

import hashlib
import json
import mimetypes
import os
import re
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Lifespan

from pytest_mlebench._version import __version__
from pytest_mlebench.audit.findings import Verdict, findings, read_findings
from pytest_mlebench.catalog import Catalogue, Competition, default_catalogue
from pytest_mlebench.errors import MLEBenchError, UsageError
from pytest_mlebench.json_values import loads, parse
from pytest_mlebench.reports.page import page as report_page
from pytest_mlebench.reports.page import parts
from pytest_mlebench.reports.plots.runs import share_beaten
from pytest_mlebench.reports.plots.svg import SCHEME
from pytest_mlebench.reports.run_details import run_details
from pytest_mlebench.reports.templates import asset, environment, style
from pytest_mlebench.reports.untrusted import one_line, plain
from pytest_mlebench.results.overview import overview
from pytest_mlebench.results.summary import split_rank
from pytest_mlebench.runs.group import GroupReader, RunGroup
from pytest_mlebench.runs.layout import RECORD, RUN_LOG, SUBMISSION
from pytest_mlebench.runs.outcome import FAILURES, Outcome
from pytest_mlebench.runs.record import RunRecord
from pytest_mlebench.units import (
    format_binary_size,
    format_dollars,
    format_duration,
    format_score,
    format_seconds,
    pluralize,
)
from pytest_mlebench.viewer import logs
from pytest_mlebench.viewer.folder import Refused, is_folder, listing, opened, read, size_of
from pytest_mlebench.viewer.guard import FILE_POLICY, NONCE, Guard
from pytest_mlebench.viewer.index import Group, Index, Run
from pytest_mlebench.viewer.live import Calls, changes, group_state, log_end, log_state, running
from pytest_mlebench.viewer.pictures import Placed, leaderboard, run_timeline, short
from pytest_mlebench.viewer.steps import PAGE, Conversation, Trajectories, has_trajectory
from pytest_mlebench.viewer.text import CODE_SUFFIXES, code

ASSETS = Path(__file__).parent / "assets"
_SCRIPTS = ("app.js", "trajectory.js", "log.js")
_KEPT_GROUPS = 6
"""Groups whose records are kept in memory, for their results and comparisons."""
_FILE_SHOWN = 256 << 10
_TABLE_ROWS, _TABLE_COLUMNS = 100, 60
_RECORD_SHOWN = 2 << 20
_CHUNK = 256 << 10
_MOST_COMPARED = 6
_NOTHING = "–"


class Missing(MLEBenchError):
    """There is no such page; the text says what there is instead."""


def seg(text: str) -> str:
    """A name as a part of an address."""
    return quote(text, safe="")


def moment(text: str | None) -> Markup:
    """A time, which the script shows in the reader's zone."""
    if not text:
        return Markup(_NOTHING)
    shown = plain(text[:16].replace("T", " "))
    return Markup('<time datetime="{}">{} UTC</time>').format(plain(text[:40]), shown)


def _when(seconds: float) -> Markup:
    return moment(datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")) if seconds else Markup(_NOTHING)


def _optional(shown: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: _NOTHING if value is None else shown(value)


_FILTERS: dict[str, Callable[..., Any]] = {
    "seg": seg,
    "moment": moment,
    "when": _when,
    "dollars": _optional(format_dollars),
    "duration": _optional(format_duration),
    "clock": _optional(format_seconds),
    "score": _optional(format_score),
    "size": _optional(format_binary_size),
    "count": _optional(lambda value: f"{value:,}"),
    "outcome": lambda name: Outcome[name],
    "label": lambda name: Outcome[name].label,
    "plural": pluralize,
    "short": _optional(short),
    "hours": _optional(lambda value: f"{value / 3600:,.0f} h" if value >= 36_000 else format_duration(value)),
}


class Viewer:
    """The pages over the groups of an index. Its methods are endpoints, which run in threads."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.trajectories = Trajectories()
        self.calls = Calls()
        self._groups: OrderedDict[str, tuple[str, GroupReader, RunGroup]] = OrderedDict()
        self._lock = Lock()
        self._environment = environment(ASSETS)
        self._environment.filters.update(_FILTERS)
        self._style = SCHEME + style("report.css") + asset("view.css", ASSETS)
        self._scripts = {name: asset(name, ASSETS) for name in _SCRIPTS}
        self._stamp = hashlib.sha256("".join([self._style, *self._scripts.values()]).encode()).hexdigest()[:12]

    # The parts of the application

    def routes(self) -> list[Route]:
        run = "/run/{group}/{run}"
        return [
            Route("/", self.groups),
            Route("/compare", self.compare),
            Route("/side", self.side),
            Route("/competitions", self.competitions),
            Route("/competition/{id}", self.competition),
            Route("/group/{group}", self.group),
            Route("/group/{group}/results", self.results),
            Route("/group/{group}/setting", self.setting),
            Route("/group/{group}/events", self.group_events),
            Route(run, self.run),
            Route(f"{run}/trajectory", self.trajectory),
            Route(f"{run}/steps", self.steps),
            Route(f"{run}/log", self.log),
            Route(f"{run}/log/part", self.log_part),
            Route(f"{run}/log/events", self.log_events),
            Route(f"{run}/files", self.files),
            Route(f"{run}/files/{{path:path}}", self.files),
            Route(f"{run}/raw/{{path:path}}", self.raw),
            Route(f"{run}/record", self.record),
            Route("/-/view.css", self.stylesheet),
            Route("/-/{script}.js", self.script),
        ]

    def stylesheet(self, request: Request) -> Response:
        return Response(self._style, media_type="text/css", headers={"Cache-Control": "max-age=3600"})

    def script(self, request: Request) -> Response:
        name = f"{request.path_params['script']}.js"
        if name not in self._scripts:
            raise Missing("there is no such script")
        headers = {"Cache-Control": "max-age=3600"}
        return Response(self._scripts[name], media_type="text/javascript", headers=headers)

    def problem(self, request: Request, error: Exception) -> Response:
        """A page for what is not there, or cannot be shown."""
        status = 404 if isinstance(error, Missing | Refused) else 400
        text = str(error) or "this cannot be shown"
        return self._page(request, "problem.html", "Not here", status=status, problem=text, crumbs=[])

    def not_found(self, request: Request, error: Exception) -> Response:
        return self.problem(request, Missing("there is no such page"))

    def _page(self, request: Request, template: str, title: str, *, status: int = 200, **context: Any) -> Response:
        export = "export" in request.query_params
        nonce = request.scope.get(NONCE, "")
        text = self._environment.get_template(template).render(
            context,
            title=title,
            version=__version__,
            nonce=nonce,
            export=export,
            style=self._style,
            stamp=self._stamp,
            here=request.url.path,
            query=request.url.query,
            groups_left=self.index.left,
            now=datetime.now(UTC).isoformat(timespec="seconds"),
            outcomes=Outcome,
        )
        if not export:
            return HTMLResponse(text, status)
        text = re.sub(r' (?:href|action)="/[^"]*"', "", text)  # they would lead nowhere in a file
        name = re.sub(r"[^\w.-]+", "-", plain(title)).strip("-.")[:80] or "view"
        return _attachment(text, f"{name}.html")

    # Groups

    def groups(self, request: Request) -> Response:
        self.index.refresh()
        found = self.index.groups()
        return self._page(
            request,
            "groups.html",
            "Run groups",
            crumbs=[],
            groups=found,
            runs_dir=str(self.index.runs_dir),
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
        state = group_state(self.index.runs_dir / name) if is_folder(self.index.runs_dir, name) else ""
        group = self._group(request, fresh=True)
        folder = self.index.runs_dir / group.name
        runs = sorted(
            self.index.runs(group.name),
            key=lambda run: (split_rank(run.split), run.competition_id, run.agent, run.seed),
        )
        now, interrupted = running(folder, self.calls)
        spent = [own.cost for own in now if own.cost is not None]
        known = [group.cost] if group.cost is not None else []
        latest = sorted(runs, key=lambda run: run.ended_at, reverse=True)[:5]
        return self._page(
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
            latest=latest,
            failures={str(outcome) for outcome in FAILURES},
        )

    def results(self, request: Request) -> Response:
        group = self._group(request)
        view = overview([self._read(group.name)])
        if "export" in request.query_params:
            return _attachment(report_page(view), f"{group.name}.html")
        return self._page(
            request,
            "results.html",
            f"Results of {group.name}",
            crumbs=[("Run groups", "/"), (group.name, f"/group/{seg(group.name)}")],
            group=group,
            tab="results",
            links=json.dumps(
                [f"/run/{seg(group.name)}/{seg(row['record'].run_id)}" for row in _rows_of(view)],
            ),
            **_without_rows(parts(view, log_bytes=0)),
        )

    def setting(self, request: Request) -> Response:
        group = self._group(request)
        view = overview([self._read(group.name)])
        found = parts(view, log_bytes=0)
        return self._page(
            request,
            "group_setting.html",
            f"Setting of {group.name}",
            crumbs=[("Run groups", "/"), (group.name, f"/group/{seg(group.name)}")],
            group=group,
            tab="setting",
            groups=found["groups"],
            common=found["common"],
        )

    async def group_events(self, request: Request) -> Response:
        name = request.path_params["group"]
        if not is_folder(self.index.runs_dir, name):
            raise Missing("there is no such run group")
        folder = self.index.runs_dir / name
        return _events(changes(lambda: group_state(folder)))

    def compare(self, request: Request) -> Response:
        names = list(dict.fromkeys(request.query_params.getlist("g")))
        if not 2 <= len(names) <= _MOST_COMPARED:
            raise UsageError(f"two to {_MOST_COMPARED} run groups can be compared: choose them in the list of groups")
        groups = [self._known_group(name) for name in names]
        view = overview([self._read(name) for name in names])
        found = _without_rows(parts(view, log_bytes=0))
        return self._page(
            request,
            "compare.html",
            " vs ".join(names),
            crumbs=[("Run groups", "/")],
            chosen=groups,
            versions=sorted({group.version for group in groups}),
            matrix=_matrix(names, self.index.runs(*names)),
            **found,
        )

    def side(self, request: Request) -> Response:
        """Two runs beside each other, each with the outline of its trajectory."""
        names = [name.partition("/")[::2] for name in request.query_params.getlist("r")]
        if len(names) != 2:
            raise UsageError("two runs can stand side by side: ?r=GROUP/RUN&r=GROUP/RUN")
        runs: list[dict[str, Any]] = []
        for name, run_id in names:
            group = self._known_group(name)
            folder = self.index.runs_dir / name
            if not is_folder(folder, run_id):
                raise Missing(f"run group {name} has no run {run_id}")
            record = self._record(folder, run_id)
            found = self._conversations(folder, run_id, record)
            base = f"/run/{seg(name)}/{seg(run_id)}"
            runs.append(
                {
                    "group": group,
                    "run_id": run_id,
                    "base": base,
                    "record": record,
                    "own": found[0] if found else None,
                    "outline": Markup(found[0].outline[0].replace('href="?', f'href="{base}/trajectory?'))
                    if found
                    else None,
                    "timeline": run_timeline(record, [], f"{base}/trajectory?at=", name=f"timeline-{len(runs)}")
                    if record is not None and record.timeline
                    else None,
                }
            )
        return self._page(request, "side.html", "Side by side", crumbs=[("Run groups", "/")], runs=runs)

    # Competitions

    def competitions(self, request: Request) -> Response:
        self.index.refresh()
        catalogue = default_catalogue()
        rows = [
            (id, _known(catalogue, id), runs, medals, groups) for id, runs, medals, groups in self.index.competitions()
        ]
        return self._page(request, "competitions.html", "Competitions", crumbs=[("Run groups", "/")], rows=rows)

    def competition(self, request: Request) -> Response:
        id = request.path_params["id"]
        self.index.refresh()
        runs = self.index.runs(competition=id)
        catalogue = default_catalogue()
        known = _known(catalogue, id)
        if not runs and known is None:
            raise Missing(f"no run is of a competition {id}")
        lower = bool(runs[0].lower_is_better) if runs else False
        sign = 1 if lower else -1
        order = sorted(runs, key=lambda run: (run.score is None, sign * (run.score or 0.0), run.group_name))
        board = known.leaderboard if known is not None else None
        places = {}
        for run in order:
            share = share_beaten(board, run.score) if board is not None else None
            if board is not None and share is not None:
                places[run.group_name, run.run_id] = max(1, round(board.teams * (100 - share) / 100))
        placed = [
            Placed(
                f"{run.agent} · {run.group_name}",
                run.score,
                f"{run.agent}, seed {run.seed} in {run.group_name}: {format_score(run.score)}, {run.result.label}",
                f"/run/{seg(run.group_name)}/{seg(run.run_id)}",
            )
            for run in order
            if run.score is not None
        ]
        return self._page(
            request,
            "competition.html",
            id,
            crumbs=[("Run groups", "/"), ("Competitions", "/competitions")],
            id=id,
            known=known,
            board=board,
            runs=order,
            places=places,
            lower=lower,
            picture=leaderboard(board, placed) if board is not None and placed else None,
            costs=any(run.calls for run in runs),
        )

    # A run

    def run(self, request: Request) -> Response:
        group, run_id, folder = self._place(request)
        state = log_state(folder, run_id)
        record = self._record(folder, run_id)
        calls = self.calls.of(folder, run_id)
        if record is not None:
            started = _timestamp(record.started_at)
            calls = [replace(call, seconds=call.seconds - started) for call in calls] if started else []
        base = f"/run/{seg(group.name)}/{seg(run_id)}"
        active, stopped = running(folder, self.calls)
        now = [own for own in (*active, *stopped) if own.id == run_id]
        siblings = [] if record is None else self._siblings(group, record)
        context = self._run_context(request, group, run_id, record, "overview")
        return self._page(
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
        )

    def trajectory(self, request: Request) -> Response:
        group, run_id, folder = self._place(request)
        record = self._record(folder, run_id)
        found = self._conversations(folder, run_id, record)
        query = request.query_params
        number = _number(query.get("conversation"), 0, len(found) - 1)
        own = found[number] if found else None
        start, hits, words = 1, None, query.get("q", "")[:200]
        if own is not None:
            start = _number(query.get("from"), 1, max(1, len(own)))
            if "at" in query and record is not None and (began := _timestamp(record.started_at)):
                with suppress(ValueError, OverflowError):
                    at = datetime.fromtimestamp(began, UTC) + timedelta(seconds=float(query["at"]))
                    start = own.at(at)
            if query.get("from") == "error" and own.errors:
                start = own.errors[-1]
            if words:
                hits = own.find(words)
        export = "export" in query
        first = 1 if export else max(1, start - (5 if start > 1 else 0))
        count = 400 if export else PAGE
        context = self._run_context(request, group, run_id, record, "trajectory")
        return self._page(
            request,
            "trajectory.html",
            **context,
            conversations=found,
            conversation=number,
            own=own,
            start=start,
            first=first,
            last=min(len(own), first + count - 1) if own is not None else 0,
            page=PAGE,
            hits=hits,
            words=words,
            peak=max((step.tokens for step in own.steps), default=0) if own is not None else 0,
        )

    def steps(self, request: Request) -> Response:
        """Some steps as HTML, which the script puts into the page."""
        _, run_id, folder = self._place(request)
        found = self._conversations(folder, run_id, self._record(folder, run_id))
        query = request.query_params
        if not found:
            raise Missing("this run has no trajectory")
        own = found[_number(query.get("conversation"), 0, len(found) - 1)]
        first = _number(query.get("from"), 1, max(1, len(own)))
        last = min(len(own), first + PAGE - 1)
        text = self._environment.get_template("steps.html").render(own=own, first=first, last=last)
        return HTMLResponse(text)

    def log(self, request: Request) -> Response:
        group, run_id, folder = self._place(request)
        record = self._record(folder, run_id)
        query = request.query_params
        words = query.get("q", "")[:200]
        found, hits, more, part = size_of(folder, run_id, RUN_LOG), None, False, None
        if found:
            place = _number(query.get("at"), -1, found)
            if "errors" in query or query.get("at") == "error":
                hits, more = logs.find(folder, run_id, None)
                if query.get("at") == "error" and hits:
                    place = hits[-1].number
            elif words:
                hits, more = logs.find(folder, run_id, words)
            part = logs.part(folder, run_id) if place < 0 else logs.around(folder, run_id, place)
        else:
            place = -1
        return self._page(
            request,
            "log.html",
            **self._run_context(request, group, run_id, record, "log"),
            part=part,
            place=place,
            hits=hits,
            more=more,
            words=words,
            errors="errors" in query,
            live=record is None,
        )

    def log_part(self, request: Request) -> Response:
        _, run_id, folder = self._place(request)
        query = request.query_params
        start = _number(query["start"], 0, 1 << 62) if "start" in query else None
        end = _number(query["end"], 0, 1 << 62) if "end" in query else None
        part = logs.part(folder, run_id, start=start, end=end)
        return HTMLResponse(self._environment.get_template("log_part.html").render(part=part, place=-1))

    async def log_events(self, request: Request) -> Response:
        _, run_id, folder = self._place(request)
        return _events(changes(lambda: log_state(folder, run_id)))

    def files(self, request: Request) -> Response:
        group, run_id, folder = self._place(request)
        record = self._record(folder, run_id)
        path = request.path_params.get("path", "")
        entries, more = listing(folder / run_id)
        if not path:
            names = [entry.path for entry in entries]
            path = next((name for name in (SUBMISSION, RUN_LOG) if name in names), "")
        shown = self._shown(folder, run_id, path) if path else None
        return self._page(
            request,
            "files.html",
            **self._run_context(request, group, run_id, record, "files"),
            entries=entries,
            more=more,
            path=path,
            shown=shown,
            report=record.report if record is not None and path == SUBMISSION else None,
            checks=record.sandbox.validations[-20:] if record is not None and path == SUBMISSION else (),
        )

    def raw(self, request: Request) -> Response:
        _, run_id, folder = self._place(request)
        return _download(request, folder, [run_id, *request.path_params["path"].split("/")])

    def record(self, request: Request) -> Response:
        group, run_id, folder = self._place(request)
        record = self._record(folder, run_id)
        text, size = "", 0
        with suppress(Refused):
            content, size = read(folder, run_id, RECORD, size=_RECORD_SHOWN)
            text = content.decode("utf-8", "replace")
        return self._page(
            request,
            "record.html",
            **self._run_context(request, group, run_id, record, "record"),
            details=run_details(record) if record is not None else [],
            connections=record.sandbox.connections[:500] if record is not None else (),
            models=(record.llm.get("models") or {}) if record is not None else {},
            confinement=record.confinement if record is not None else {},
            text=code(text),
            left_out=max(0, size - _RECORD_SHOWN),
        )

    # What several pages need

    def _group(self, request: Request, *, fresh: bool = False) -> Group:
        return self._known_group(request.path_params["group"], fresh=fresh)

    def _known_group(self, name: str, *, fresh: bool = False) -> Group:
        found = self.index.refresh_group(name) if fresh else self.index.group(name)
        found = found or self.index.refresh_group(name)
        if found is None:
            raise Missing(f"there is no run group {name}")
        return found

    def _read(self, name: str) -> RunGroup:
        """A group with all its records, which are kept while nothing changes."""
        folder = self.index.runs_dir / name
        state = group_state(folder)
        with self._lock:
            kept = self._groups.get(name)
            if kept is not None and kept[0] == state:
                self._groups.move_to_end(name)
                return kept[2]
            reader = kept[1] if kept is not None else GroupReader(folder)
            group = reader.read()
            self._groups[name] = (state, reader, group)
            self._groups.move_to_end(name)
            while len(self._groups) > _KEPT_GROUPS:
                self._groups.popitem(last=False)
            return group

    def _place(self, request: Request) -> tuple[Group, str, Path]:
        group = self._group(request)
        run_id = request.path_params["run"]
        if not is_folder(self.index.runs_dir, group.name, run_id):
            raise Missing(f"run group {group.name} has no run {run_id}")
        return group, run_id, self.index.runs_dir / group.name

    def _record(self, folder: Path, run_id: str) -> RunRecord | None:
        """The record of a run; None for one that has not ended."""
        try:
            content, _ = read(folder, run_id, RECORD, size=8 << 20)
        except Refused:
            return None
        try:
            return parse(RunRecord, loads(content))
        except ValueError as error:
            raise UsageError(f"{RECORD} of {run_id} is no run's record: {error}") from error

    def _conversations(self, folder: Path, run_id: str, record: RunRecord | None) -> Sequence[Conversation]:
        if not has_trajectory(folder, run_id):
            return []
        return self.trajectories.read(folder, run_id, agent=record.agent if record else "agent")

    def _siblings(self, group: Group, record: RunRecord) -> list[Run]:
        """The other runs on the same competition, those of the same group first."""
        runs = self.index.runs(competition=record.competition_id)
        others = [run for run in runs if (run.group_name, run.run_id) != (group.name, record.run_id)]
        order = sorted(
            others, key=lambda run: (run.group_name != group.name, run.agent != record.agent, run.result.rank)
        )
        return order[:12]

    def _run_context(
        self, request: Request, group: Group, run_id: str, record: RunRecord | None, tab: str
    ) -> dict[str, Any]:
        runs = [run.run_id for run in sorted(
            self.index.runs(group.name),
            key=lambda run: (split_rank(run.split), run.competition_id, run.agent, run.seed),
        )]  # fmt: skip
        at = runs.index(run_id) if run_id in runs else None
        base = f"/run/{seg(group.name)}/"
        suffix = "" if tab == "overview" else f"/{tab}"
        in_group = self.index.run(group.name, run_id)
        name = f"{record.competition_id}, {record.agent}, seed {record.seed}" if record is not None else run_id
        return {
            "title": name if tab == "overview" else f"{tab.capitalize()} of {name}",
            "crumbs": [("Run groups", "/"), (group.name, f"/group/{seg(group.name)}")],
            "group": group,
            "run_id": run_id,
            "base": base + seg(run_id),
            "record": record,
            "row": in_group,
            "tab": tab,
            "previous": f"{base}{seg(runs[at - 1])}{suffix}" if at else None,
            "following": f"{base}{seg(runs[at + 1])}{suffix}" if at is not None and at + 1 < len(runs) else None,
            "nth": None if at is None else (at + 1, len(runs)),
            "has_trajectory": has_trajectory(self.index.runs_dir / group.name, run_id),
        }

    def _shown(self, folder: Path, run_id: str, path: str) -> dict[str, Any]:
        content, size = read(folder, run_id, *path.split("/"), size=_FILE_SHOWN)
        shown: dict[str, Any] = {"size": size, "left_out": max(0, size - len(content)), "kind": "text"}
        if b"\0" in content[:8192]:
            return {**shown, "kind": "binary"}
        text = content.decode("utf-8", "replace")
        if path.lower().endswith((".csv", ".tsv")):
            return {**shown, "kind": "table", **_table(text, "\t" if path.lower().endswith(".tsv") else ",")}
        is_code = path.lower().endswith(CODE_SUFFIXES)
        lines = text[:_FILE_SHOWN].split("\n")
        cut = "\n".join(line if len(line) < 5000 else f"{line[:5000]}… ({len(line) - 5000:,} more)" for line in lines)
        return {**shown, "html": code(cut) if is_code else escape(plain(cut)), "lines": len(lines)}


def application(
    index: Index, *, address: str, token: str | None = None, lifespan: Lifespan[Any] | None = None
) -> ASGIApp:
    """The application, behind its guard; with a token, whoever asks must bring it."""
    viewer = Viewer(index)
    handlers: Mapping[Any, Any] = {
        404: viewer.not_found,
        Missing: viewer.problem,
        Refused: viewer.problem,
        MLEBenchError: viewer.problem,
    }
    app = Starlette(routes=viewer.routes(), exception_handlers=handlers, lifespan=lifespan)
    return Guard(app, address=address, token=token)


def _known(catalogue: Catalogue, id: str) -> Competition | None:
    return catalogue[id] if id in catalogue else None  # noqa: SIM401 - it has no `get`


def _verdicts(folder: Path) -> Mapping[str, Verdict]:
    """What an audit says of each run of a group; none where there was no audit."""
    with suppress(OSError, ValueError):
        found = read_findings(folder)
        return {} if found is None else found.verdicts
    return {}


def _events(events: AsyncIterator[str]) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def _attachment(text: str, name: str) -> Response:
    ascii_name = name.encode("ascii", "replace").decode().replace('"', "'").replace("?", "-")
    return HTMLResponse(
        text,
        headers={"Content-Disposition": f'attachment; filename="{ascii_name}"', "Content-Security-Policy": FILE_POLICY},
    )


_RANGE = re.compile(r"bytes=(\d{1,18})?-(\d{1,18})?")


def _download(request: Request, folder: Path, names: Sequence[str]) -> Response:
    """A file as it is, or a range of it; whatever it is, a browser only saves it. Raises Refused."""
    with opened(folder, *names) as descriptor:
        size = os.fstat(descriptor).st_size
    start, end, status = 0, size, 200
    asked = request.headers.get("range")
    headers = {"Accept-Ranges": "bytes", "Content-Security-Policy": FILE_POLICY}
    if asked is not None and (match := _RANGE.fullmatch(asked.strip())) and (match[1] or match[2]):
        if match[1]:
            start, end = int(match[1]), min(size, int(match[2]) + 1 if match[2] else size)
        else:
            start = max(0, size - int(match[2]))
        if start >= end:
            return PlainTextResponse("no such range\n", 416, {"Content-Range": f"bytes */{size}"})
        status = 206
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    name = re.sub(r"[^\w. ()-]", "_", plain(names[-1]), flags=re.ASCII) or "file"
    headers["Content-Disposition"] = f'attachment; filename="{name}"'
    headers["Content-Length"] = str(end - start)
    kind = "text/plain; charset=utf-8" if mimetypes.guess_type(name)[0] is not None else "application/octet-stream"
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type=kind)

    def content() -> Iterator[bytes]:
        with opened(folder, *names) as descriptor:
            place = start
            while place < end and (block := os.pread(descriptor, min(_CHUNK, end - place), place)):
                yield block
                place += len(block)

    return StreamingResponse(content(), status, headers, kind)


def _number(text: str | None, least: int, most: int) -> int:
    """A whole number of an address, within bounds; the least where it is none."""
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 18:
        return least
    return max(least, min(most, int(text)))


def _timestamp(text: str) -> float | None:
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(text).timestamp()
    return None


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


def _rows_of(view: Any) -> list[dict[str, Any]]:
    from pytest_mlebench.reports.medals import in_order

    return [{"record": record} for record in in_order(view.records)]


def _without_rows(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in ("rows", "competitions", "filters", "columns")}


def _matrix(names: Sequence[str], runs: Sequence[Run]) -> dict[str, Any]:
    """Competitions by groups: each cell's runs, best first, and which group has the best mean rank of outcomes."""
    cells: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        cells.setdefault((run.competition_id, run.group_name), []).append(run)
    ids = sorted({run.competition_id for run in runs}, key=lambda id: id)
    wins: Counter[str] = Counter()
    ties = 0
    rows = []
    for id in ids:
        own = {name: sorted(cells.get((id, name), []), key=lambda run: run.result.rank) for name in names}
        scores = {name: _mean([run.score for run in found if run.score is not None]) for name, found in own.items()}
        lower = any(run.lower_is_better for found in own.values() for run in found)
        known = {name: score for name, score in scores.items() if score is not None}
        best: list[str] = []
        if known:
            top = min(known.values()) if lower else max(known.values())
            best = [name for name, score in known.items() if score == top]
        paired = sum(1 for found in own.values() if found) == len(names)
        if paired and len(best) == 1:
            wins[best[0]] += 1
        elif paired:
            ties += 1
        rows.append({"id": id, "cells": own, "scores": scores, "best": best if len(best) == 1 else [], "lower": lower})
    return {"rows": rows, "wins": wins, "ties": ties, "paired": sum(wins.values()) + ties}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _table(text: str, separator: str) -> dict[str, Any]:
    """The head of a table, as Python's reader of CSV takes it."""
    import csv
    import io

    rows: list[list[str]] = []
    with suppress(csv.Error):
        for row in csv.reader(io.StringIO(text), delimiter=separator):
            rows.append([one_line(cell[:200]) for cell in row[:_TABLE_COLUMNS]])
            if len(rows) > _TABLE_ROWS:
                break
    return {"heads": rows[0] if rows else [], "rows": rows[1:], "total": text.count("\n")}
