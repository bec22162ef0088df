"""What the pages of the viewer share: caches, templates with their filters, and types of responses."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from pytest_mlebench._version import __version__
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import MLEBenchError, UsageError
from pytest_mlebench.extras.viewer.folder import is_folder, read_record, size_of
from pytest_mlebench.extras.viewer.guard import FILE_POLICY, NONCE
from pytest_mlebench.extras.viewer.index import Group, ListedRun, RunIndex
from pytest_mlebench.extras.viewer.live import Calls, changes, group_state
from pytest_mlebench.extras.viewer.pictures import short
from pytest_mlebench.extras.viewer.steps import Conversation, conversations, has_trajectory
from pytest_mlebench.io import units
from pytest_mlebench.io.files import NotReadable
from pytest_mlebench.llm.trajectory import TRAJECTORY
from pytest_mlebench.records.group import GroupReader, RunGroup, runs_in_progress
from pytest_mlebench.records.outcome import Outcome
from pytest_mlebench.records.record import RECORD, RunRecord
from pytest_mlebench.reports.page import asset, environment, style
from pytest_mlebench.reports.plots.svg import SCHEME
from pytest_mlebench.results import catalogued
from pytest_mlebench.results.summary import split_rank

_ASSETS = Path(__file__).parent / "assets"
_SCRIPTS = ("app.js", "trajectory.js", "log.js")
_KEPT_GROUPS = 6
"""Maximum groups whose records are kept in memory, for their results and comparisons."""


class Missing(MLEBenchError):
    """The page does not exist. The text says what is missing."""


class Site:
    """What all pages share: the index, caches and templates. Usable from any thread."""

    def __init__(self, index: RunIndex, store: DataStore | None = None) -> None:
        self.index = index
        self.store = store
        self.calls = Calls()
        self.group_parts: tuple[Any, dict[str, Any]] = (None, {})
        """A key, and the parts of the group page that was shown last. They are valid while the key is unchanged."""
        self._reader = lru_cache(_KEPT_GROUPS)(GroupReader)
        self._group = lru_cache(_KEPT_GROUPS)(lambda folder, state: catalogued(self._reader(folder).read()))
        self._lock = Lock()
        self.environment = environment(_ASSETS)
        self.environment.filters.update(FILTERS)
        self._style = SCHEME + style("report.css") + asset("view.css", _ASSETS)
        scripts = {name: asset(name, _ASSETS) for name in _SCRIPTS} | {"report.js": asset("report.js")}
        self._assets = {"view.css": (self._style, "text/css")}
        self._assets |= {name: (text, "text/javascript") for name, text in scripts.items()}
        self._stamp = hashlib.sha256("".join([self._style, *scripts.values()]).encode()).hexdigest()[:12]

    def asset(self, request: Request) -> Response:
        """Return the stylesheet or a script."""
        if (name := request.path_params["name"]) not in self._assets:
            raise Missing("there is no such page")
        text, kind = self._assets[name]
        return Response(text, media_type=kind, headers={"Cache-Control": "max-age=3600"})

    def problem(self, request: Request, error: Exception) -> Response:
        """Return a page for what does not exist or cannot be shown."""
        status = 404 if isinstance(error, Missing | NotReadable) else 400
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
        )
        if not export:
            return HTMLResponse(text, status)
        text = re.sub(r' (?:href|action)="/[^"]*"', "", text)  # they lead nowhere in a saved file
        name = re.sub(r"[^\w.-]+", "-", units.plain(title)).strip("-.")[:80] or "view"
        return attachment(text, f"{name}.html")

    def group(self, name: str, *, fresh: bool = False) -> Group:
        found = (None if fresh else self.index.group(name)) or self.index.refresh_group(name)
        if found is None:
            raise Missing(f"there is no run group {name}")
        return found

    def read(self, name: str) -> RunGroup:
        """Return a group with all its records. They are cached until something changes."""
        folder = self.index.runs_dir / name
        state = group_state(folder)
        with self._lock:
            return self._group(folder, state)

    def runs(self, group: str) -> list[ListedRun]:
        """Return the runs of a group that have ended, in the order of its table."""
        found = self.index.runs(group)
        return sorted(found, key=lambda run: (split_rank(run.split), run.competition_id, run.agent, run.seed))

    def place(self, request: Request) -> RunPlace:
        """Return the run that a URL names."""
        return self.run(request.path_params["group"], request.path_params["run"])

    def run(self, group: str, run_id: str) -> RunPlace:
        found = self.group(group)
        if not is_folder(self.index.runs_dir, found.name, run_id):
            if found.is_graded_only:
                raise Missing(f"run group {found.name} has only a grading report, so there are no files of its runs")
            raise Missing(f"run group {found.name} has no run {run_id}")
        return RunPlace(found, run_id, self.index.runs_dir / found.name)

    def conversations(self, place: RunPlace) -> Sequence[Conversation]:
        if not has_trajectory(place.folder, place.run_id):
            return []
        return conversations(place.folder, place.run_id, agent=place.record.agent if place.record else "agent")

    def run_context(self, place: RunPlace, tab: str) -> dict[str, Any]:
        """Return what all pages of a run show. ``tab`` is the open one."""
        group, run_id, record = place.group, place.run_id, place.record
        runs = [run.run_id for run in self.runs(group.name)]
        at = runs.index(run_id) if run_id in runs else None
        base = f"/run/{seg(group.name)}/"
        suffix = "" if tab == "overview" else f"/{tab}"
        unfinished = None
        if record is None:
            unfinished = next((one for one in runs_in_progress(place.folder) if one.run_dir.name == run_id), None)
        about = record or unfinished
        name = f"{about.competition_id}, {about.agent}, seed {about.seed}" if about is not None else run_id
        return {
            "title": name if tab == "overview" else f"{tab.capitalize()} of {name}",
            "name": name,
            "crumb": name if tab == "overview" else tab.capitalize(),
            "crumbs": [
                ("Run groups", "/"),
                (group.name, f"/group/{seg(group.name)}"),
                *([(name, place.base)] if tab != "overview" else []),
            ],
            "group": group,
            "run_id": run_id,
            "base": place.base,
            "record": record,
            "unfinished": unfinished,
            "tab": tab,
            "previous": f"{base}{seg(runs[at - 1])}{suffix}" if at else None,
            "following": f"{base}{seg(runs[at + 1])}{suffix}" if at is not None and at + 1 < len(runs) else None,
            "nth": None if at is None else (at + 1, len(runs)),
            "has_file": size_of(place.folder, run_id, TRAJECTORY) is not None,
            "has_trajectory": has_trajectory(place.folder, run_id),
        }


@dataclass(frozen=True)
class RunPlace:
    """A run that has a folder. ``folder`` is that of its group."""

    group: Group
    run_id: str
    folder: Path

    @property
    def base(self) -> str:
        """The URL of its pages."""
        return f"/run/{seg(self.group.name)}/{seg(self.run_id)}"

    @cached_property
    def record(self) -> RunRecord | None:
        """Its record; None if it has not ended. Raises UsageError."""
        try:
            return read_record(self.folder, self.run_id)
        except NotReadable:
            return None
        except ValueError as error:
            raise UsageError(f"{RECORD} of {self.run_id} is not a run record: {error}") from error


def events(state: Callable[[], str]) -> StreamingResponse:
    """Return server-sent events with each new state."""
    return StreamingResponse(changes(state), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def attachment(text: str, name: str) -> Response:
    """Return a page that a browser saves."""
    ascii_name = name.encode("ascii", "replace").decode().replace('"', "'").replace("?", "-")
    disposition = f'attachment; filename="{ascii_name}"'
    return HTMLResponse(text, headers={"Content-Disposition": disposition, "Content-Security-Policy": FILE_POLICY})


def whole_number(text: str | None, least: int, most: int) -> int:
    """Parse a whole number in a URL, within bounds; ``least`` if it is not one."""
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 18:
        return least
    return max(least, min(most, int(text)))


NOTHING = "–"


def seg(text: str) -> str:
    """Quote a name as a segment of a URL."""
    return quote(text, safe="")


def moment(text: str | None) -> Markup:
    """Return a time as HTML. The script shows it in the reader's time zone."""
    if not text:
        return Markup(NOTHING)
    shown = units.plain(text[:16].replace("T", " "))
    return Markup('<time datetime="{}">{} UTC</time>').format(units.plain(text[:40]), shown)


def _when(seconds: float) -> Markup:
    return moment(datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")) if seconds else Markup(NOTHING)


def _optional(shown: Callable[[Any], str], *, missing: str = NOTHING) -> Callable[[Any], str]:
    def text(value: Any) -> str:
        try:
            return missing if value is None else shown(value)
        except (TypeError, ValueError, OverflowError):  # a record by another program
            return str(value)

    return text


def spent(cost: float, is_complete: bool) -> str:
    """Return the sum of the known costs as a lower bound if others are unknown, and ``unknown`` if all are."""
    if is_complete:
        return units.format_dollars(cost)
    return f"≥ {units.format_dollars(cost)}" if cost else "unknown"


FILTERS: dict[str, Callable[..., Any]] = {
    "seg": seg,
    "moment": moment,
    "when": _optional(_when),
    "dollars": _optional(units.format_dollars, missing="unknown"),
    "spent": spent,
    "duration": _optional(units.format_duration),
    "clock": _optional(units.format_seconds),
    "score": _optional(units.format_score),
    "size": _optional(units.format_size),
    "count": _optional(lambda value: f"{value:,}"),
    "label": lambda name: Outcome[name].label,
    "plural": units.pluralize,
    "short": _optional(short),
    "hours": _optional(lambda value: f"{value / 3600:,.0f} h" if value >= 36_000 else units.format_seconds(value)),
}
