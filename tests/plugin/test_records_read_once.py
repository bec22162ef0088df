"""A session reads each record at most once, even if several reports show it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.full

COUNTER = """
    import json, os, sys
    from pathlib import Path
    from pytest_mlebench.io import values as json_files
    from pytest_mlebench.records.record import RunRecord

    counts = {"opened": 0, "parsed": 0}
    parse = json_files._parse_fields

    def audit(event, arguments):
        # open() with an opener also calls os.open(), whose event has no mode.
        if event == "open" and arguments[1] is not None and str(arguments[0]).endswith("/run.json"):
            counts["opened"] += 1

    def counting(kind, *arguments):
        counts["parsed"] += kind is RunRecord
        return parse(kind, *arguments)

    sys.addaudithook(audit)
    json_files._parse_fields = counting

    def pytest_unconfigure(config):
        if not hasattr(config, "workerinput"):
            Path("counts.json").write_text(json.dumps(counts))
"""


@pytest.fixture
def counted(project: pytest.Pytester, run_toys: Callable[..., Any]) -> Callable[..., dict[str, int]]:
    """Run two toy agents with all reports; return what the session (with xdist: its controller) opened and parsed."""
    project.makeconftest(COUNTER)

    def run(*options: str) -> dict[str, int]:
        reports = ("--html=report/html", "--junitxml=junit.xml", "-v")
        run_toys("gold", "crashes", options=(*reports, *options))
        counts: dict[str, int] = json.loads((project.path / "counts.json").read_text())
        return counts

    return run


@pytest.mark.parametrize(
    ("options", "opened", "parsed"), [((), 0, 0), (("-n", "2"), 0, 2)], ids=["in one process", "with xdist"]
)
def test_records_of_this_session_are_passed_on_without_rereading(
    counted: Callable[..., dict[str, int]], options: tuple[str, ...], opened: int, parsed: int
) -> None:
    assert counted(*options) == {"opened": opened, "parsed": parsed}


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["in one process", "with xdist"])
def test_records_of_an_earlier_session_are_read_once(
    counted: Callable[..., dict[str, int]], options: tuple[str, ...]
) -> None:
    counted()
    assert counted(*options) == {"opened": 2, "parsed": 2}
