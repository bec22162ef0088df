"""The application: its pages behind their guard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Lifespan

from pytest_mlebench.errors import MLEBenchError
from pytest_mlebench.extras.viewer.folder import Refused
from pytest_mlebench.extras.viewer.guard import Guard
from pytest_mlebench.extras.viewer.index import Index
from pytest_mlebench.extras.viewer.pages.compare import ComparePages
from pytest_mlebench.extras.viewer.pages.competitions import CompetitionPages
from pytest_mlebench.extras.viewer.pages.files import FilePages
from pytest_mlebench.extras.viewer.pages.groups import GroupPages
from pytest_mlebench.extras.viewer.pages.log import LogPages
from pytest_mlebench.extras.viewer.pages.runs import RunPages
from pytest_mlebench.extras.viewer.pages.runs_list import RunListPages
from pytest_mlebench.extras.viewer.pages.trajectory import TrajectoryPages
from pytest_mlebench.extras.viewer.site import Missing, Site

_PAGES = (GroupPages, RunListPages, ComparePages, CompetitionPages, RunPages, TrajectoryPages, LogPages, FilePages)


def application(
    index: Index, *, address: str, token: str | None = None, lifespan: Lifespan[Any] | None = None
) -> ASGIApp:
    """The application, behind its guard; with a token, whoever asks must bring it."""
    site = Site(index)
    routes = [route for pages in _PAGES for route in pages(site).routes()]
    routes += [Route("/-/view.css", site.stylesheet), Route("/-/{script}.js", site.script)]
    handlers: Mapping[Any, Any] = {
        404: site.not_found,
        Missing: site.problem,
        Refused: site.problem,
        MLEBenchError: site.problem,
    }
    return Guard(Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan), address=address, token=token)
