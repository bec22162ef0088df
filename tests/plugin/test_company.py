"""Runs of agents with other plugins: those that retry tests, and those that write reports.

``COMPANY`` imitates how pytest-rerunfailures, pytest-reportlog, allure-pytest and pytest-timeout treat an item.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

COMPANY = """
import json
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

LOG = Path(__file__).with_name("log.jsonl")


def note(**values):
    with LOG.open("a") as file:
        file.write(json.dumps(values) + "\\n")


class Listener:
    def add_parameter(self, name, value, excluded, mode):
        note(allure=name, value=value, excluded=excluded)


def pytest_configure(config):
    config.pluginmanager.register(Listener(), "allure_listener")
    if not config.pluginmanager.hasplugin("timeout"):
        config.addinivalue_line("markers", "timeout(seconds): imitates pytest-timeout's")
        config.pluginmanager.register(object(), "timeout")


def pytest_itemcollected(item):
    note(collected=item.name, timeout=[mark.args[0] for mark in item.iter_markers("timeout")])


def pytest_runtest_protocol(item, nextitem):
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed for report in reports):
        for report in reports:
            report.outcome = "rerun" if report.failed else report.outcome
            item.ihook.pytest_runtest_logreport(report=report)
        item._initrequest()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_report_teststatus(report):
    return ("rerun", "R", "RERUN") if report.outcome == "rerun" else None


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    if report.when == "call":
        note(outcome=report.outcome, properties=report.user_properties)
"""


@pytest.fixture
def company(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugins of ``COMPANY`` in the project."""
    monkeypatch.delenv("PYTEST_ADDOPTS")  # it blocks any plugin named `timeout`
    project.makeconftest(COMPANY)


@pytest.mark.full
@pytest.mark.usefixtures("company")
def test_a_retried_attempt_counts_once_and_reports_get_scores_and_thresholds(
    project: pytest.Pytester,
    run_toys: Callable[..., pytest.RunResult],
    records: Callable[[], dict[str, dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path / "summary.md"))
    result = run_toys("gold", "crashes")
    result.stdout.fnmatch_lines(["*= 1 gold, 1 rerun, 1 crashed in *"])
    assert result.stdout.str().count("about to crash") == 1
    assert "toy/crashes" in (project.path / "summary.md").read_text()
    assert set(records()) == {"gold", "crashes"}
    log = [json.loads(line) for line in (project.path / "log.jsonl").read_text().splitlines()]
    assert [entry["timeout"] for entry in log if "collected" in entry] == [[0], [0]]
    gold, *attempts = (dict(entry["properties"]) for entry in log if "properties" in entry)
    assert (gold["score"], gold["medal"], gold["gold_threshold"], gold["median_threshold"]) == (1.0, "gold", 0.9, 0.6)
    assert len({attempt["run_id"] for attempt in attempts}) == len(attempts) == 2
    lengths = [len(entry["properties"]) for entry in log if "properties" in entry]
    # Runs without a score or medal lack these properties; those of earlier attempts are replaced.
    assert lengths == [len(gold), len(gold) - 2, len(gold) - 2]
    parameters = {entry["allure"]: entry["value"] for entry in log if "allure" in entry and entry["excluded"]}
    assert parameters.items() >= {"outcome": "crashed", "silver_threshold": 0.8}.items()


@pytest.mark.full
def test_an_unwritable_step_summary_is_reported(
    project: pytest.Pytester, run_toys: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path / "none/summary.md"))
    result = run_toys("gold")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*$GITHUB_STEP_SUMMARY: */none/summary.md cannot be written: No such file or directory"]
    )
    result.stdout.no_fnmatch_line("*the run group's reports*")


@pytest.mark.full
@pytest.mark.usefixtures("company")
def test_integrations_with_other_plugins_can_be_disabled(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path / "summary.md"))
    parts = ("timeout", "allure", "heartbeat", "step-summary", "html")
    with (project.path / "tox.ini").open("a") as ini:
        ini.write("\naddopts = " + " ".join(f"-p no:mlebench-{part}" for part in parts))
    options = ("--agent=toy/gold", "--heartbeat=0.01s", "--html=own.html", "-n1", "competitions/toy-parity")
    result = project.runpytest_subprocess(*options)
    assert result.ret == 0
    assert "mlebench watch" not in result.stdout.str()
    assert not (project.path / "summary.md").exists()
    assert "MLE-bench" not in (project.path / "own.html").read_text()
    log = [json.loads(line) for line in (project.path / "log.jsonl").read_text().splitlines()]
    assert [entry["timeout"] for entry in log if "collected" in entry] == [[]]
    assert not any("allure" in entry for entry in log)
