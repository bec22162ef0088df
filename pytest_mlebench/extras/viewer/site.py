"""What the pages of the viewer share."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from pytest_mlebench._version import __version__
from pytest_mlebench.errors import MLEBenchError, UsageError
from pytest_mlebench.extras.viewer.answers import attachment
from pytest_mlebench.extras.viewer.folder import Refused, is_folder, read, size_of
from pytest_mlebench.extras.viewer.formats import FILTERS, seg
from pytest_mlebench.extras.viewer.guard import NONCE
from pytest_mlebench.extras.viewer.index import FAILED, Group, Index, Run
from pytest_mlebench.extras.viewer.live import Calls, group_state
from pytest_mlebench.extras.viewer.steps import Conversation, Trajectories, has_trajectory
from pytest_mlebench.io.units import plain
from pytest_mlebench.io.values import loads, parse
from pytest_mlebench.llm.trajectory import TRAJECTORY
from pytest_mlebench.records.group import GroupReader, RunGroup, runs_in_progress
from pytest_mlebench.records.outcome import Outcome
from pytest_mlebench.records.record import RECORD, RunRecord
from pytest_mlebench.reports.page import asset, environment, style
from pytest_mlebench.reports.plots.svg import SCHEME
from pytest_mlebench.results.summary import split_rank

RUN_PATH = "/run/{group}/{run}"
_ASSETS = Path(__file__).parent / "assets"
_SCRIPTS = ("app.js", "trajectory.js", "log.js")
_KEPT_GROUPS = 6
"""Groups whose records are kept in memory, for their results and comparisons."""


class Missing(MLEBenchError):
    """There is no such page; the text says what there is instead."""


class Site:
    """What all pages share: the index, what is kept in memory, the templates. Usable from any thread."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.trajectories = Trajectories()
        self.calls = Calls()
        self._groups: OrderedDict[str, tuple[str, GroupReader, RunGroup]] = OrderedDict()
        self._lock = Lock()
        self.environment = environment(_ASSETS)
        self.environment.filters.update(FILTERS)
        self._style = SCHEME + style("report.css") + asset("view.css", _ASSETS)
        self._scripts = {name: asset(name, _ASSETS) for name in _SCRIPTS} | {"report.js": asset("report.js")}
        self._stamp = hashlib.sha256("".join([self._style, *self._scripts.values()]).encode()).hexdigest()[:12]

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
        title = "Not found" if isinstance(error, Missing) else "This cannot be shown"
        return self.page(request, "problem.html", title, status=status, problem=text, crumbs=[])

    def not_found(self, request: Request, error: Exception) -> Response:
        return self.problem(request, Missing("there is no such page"))

    def page(self, request: Request, template: str, title: str, *, status: int = 200, **context: Any) -> Response:
        export = "export" in request.query_params
        nonce = request.scope.get(NONCE, "")
        text = self.environment.get_template(template).render(
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
            failures=FAILED,
        )
        if not export:
            return HTMLResponse(text, status)
        text = re.sub(r' (?:href|action)="/[^"]*"', "", text)  # they would lead nowhere in a file
        name = re.sub(r"[^\w.-]+", "-", plain(title)).strip("-.")[:80] or "view"
        return attachment(text, f"{name}.html")

    def group_of(self, request: Request, *, fresh: bool = False) -> Group:
        return self.group(request.path_params["group"], fresh=fresh)

    def group(self, name: str, *, fresh: bool = False) -> Group:
        found = self.index.refresh_group(name) if fresh else self.index.group(name)
        found = found or self.index.refresh_group(name)
        if found is None:
            raise Missing(f"there is no run group {name}")
        return found

    def read(self, name: str) -> RunGroup:
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

    def runs(self, group: str) -> list[Run]:
        """The runs of a group that have ended, in the order of its table."""
        found = self.index.runs(group)
        return sorted(found, key=lambda run: (split_rank(run.split), run.competition_id, run.agent, run.seed))

    def place(self, request: Request) -> tuple[Group, str, Path]:
        group = self.group_of(request)
        run_id = request.path_params["run"]
        if not is_folder(self.index.runs_dir, group.name, run_id):
            raise Missing(f"run group {group.name} has no run {run_id}")
        return group, run_id, self.index.runs_dir / group.name

    def record(self, folder: Path, run_id: str) -> RunRecord | None:
        """The record of a run; None for one that has not ended."""
        try:
            content, _ = read(folder, run_id, RECORD, size=8 << 20)
        except Refused:
            return None
        try:
            return parse(RunRecord, loads(content))
        except ValueError as error:
            raise UsageError(f"{RECORD} of {run_id} is not a run record: {error}") from error

    def conversations(self, folder: Path, run_id: str, record: RunRecord | None) -> Sequence[Conversation]:
        if not has_trajectory(folder, run_id):
            return []
        return self.trajectories.read(folder, run_id, agent=record.agent if record else "agent")

    def run_context(
        self, request: Request, group: Group, run_id: str, record: RunRecord | None, tab: str
    ) -> dict[str, Any]:
        runs = [run.run_id for run in self.runs(group.name)]
        at = runs.index(run_id) if run_id in runs else None
        base = f"/run/{seg(group.name)}/"
        suffix = "" if tab == "overview" else f"/{tab}"
        in_group = self.index.run(group.name, run_id)
        unfinished = None
        if record is None:
            started = runs_in_progress(self.index.runs_dir / group.name)
            unfinished = next((own for own in started if own.run_dir.name == run_id), None)
        about = record or unfinished
        name = f"{about.competition_id}, {about.agent}, seed {about.seed}" if about is not None else run_id
        return {
            "title": name if tab == "overview" else f"{tab.capitalize()} of {name}",
            "name": name,
            "crumb": name if tab == "overview" else tab.capitalize(),
            "crumbs": [
                ("Run groups", "/"),
                (group.name, f"/group/{seg(group.name)}"),
                *([(name, base + seg(run_id))] if tab != "overview" else []),
            ],
            "group": group,
            "run_id": run_id,
            "base": base + seg(run_id),
            "record": record,
            "unfinished": unfinished,
            "row": in_group,
            "tab": tab,
            "previous": f"{base}{seg(runs[at - 1])}{suffix}" if at else None,
            "following": f"{base}{seg(runs[at + 1])}{suffix}" if at is not None and at + 1 < len(runs) else None,
            "nth": None if at is None else (at + 1, len(runs)),
            "has_file": size_of(self.index.runs_dir / group.name, run_id, TRAJECTORY) is not None,
            "has_trajectory": has_trajectory(self.index.runs_dir / group.name, run_id),
        }
