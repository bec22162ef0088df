"""The application: its pages, protected by the guard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Lifespan

from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import MLEBenchError
from pytest_mlebench.extras.viewer.guard import Guard
from pytest_mlebench.extras.viewer.index import RunIndex
from pytest_mlebench.extras.viewer.pages import compare, competitions, files, groups, log, runs, trajectory
from pytest_mlebench.extras.viewer.site import Site
from pytest_mlebench.io.files import NotReadable

_PAGES: Mapping[str, Callable[..., Any]] = {
    "/": groups.groups,
    "/group/{group}": groups.group,
    "/group/{group}/events": groups.group_events,
    "/runs": runs.all_runs,
    "/runs.csv": runs.all_runs_as_csv,
    "/compare": compare.compare,
    "/side": compare.side,
    "/competitions": competitions.competitions,
    "/competition/{id}": competitions.competition,
    "/run/{group}/{run}": runs.run,
    "/run/{group}/{run}/record": runs.record,
    "/run/{group}/{run}/trajectory": trajectory.trajectory,
    "/run/{group}/{run}/steps": trajectory.steps,
    "/run/{group}/{run}/step": trajectory.step,
    "/run/{group}/{run}/step.json": trajectory.step_as_json,
    "/run/{group}/{run}/log": log.log,
    "/run/{group}/{run}/log/part": log.log_part,
    "/run/{group}/{run}/log/events": log.log_events,
    "/run/{group}/{run}/files": files.files,
    "/run/{group}/{run}/files/{path:path}": files.files,
    "/run/{group}/{run}/raw/{path:path}": files.raw,
}
"""Handlers by address: functions of the site and the request."""


def application(
    index: RunIndex,
    *,
    address: str,
    token: str | None = None,
    lifespan: Lifespan[Any] | None = None,
    store: DataStore | None = None,
) -> ASGIApp:
    """Return the application with its guard. With a ``token``, every client must present it.

    The pages of competitions show the first rows of the public data in ``store``.
    """
    site = Site(index, store)
    routes = [Route(path, partial(page, site)) for path, page in _PAGES.items()]
    routes.append(Route("/-/{name}", site.asset))
    handlers: Mapping[Any, Any] = {404: site.not_found, NotReadable: site.problem, MLEBenchError: site.problem}
    return Guard(Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan), address=address, token=token)
