"""The hooks of sessions that run agents, and of those with workers: registered where there are any."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pytest_mlebench.plugin import collection, group, reporting
from pytest_mlebench.plugin import session as own
from pytest_mlebench.plugin.html import MedalReport


def start(config: pytest.Config) -> None:
    """Read the run group, the agents and what to collect; raises pytest.UsageError."""
    group.start(config)
    own.check_options(config)
    if own.hands_over(config):
        with own.usage_errors():
            own.engines().check(config)
    collection.start(config)
    register(config)
    if own.wants_html(config):
        config.pluginmanager.register(MedalReport(config), "mlebench-html")
    if own.writes_group(config):
        reporting.follow(config)


def register(config: pytest.Config) -> None:
    """Have pytest call the hooks of this module."""
    this = sys.modules[__name__]
    if not config.pluginmanager.is_registered(this):
        config.pluginmanager.register(this, "mlebench-running")


@pytest.hookimpl(tryfirst=True)  # before xdist starts its workers
def pytest_sessionstart(session: pytest.Session) -> None:
    group.open_group(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    group.configure_worker(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    group.worker_collection_finished(node)


@pytest.hookimpl(tryfirst=True)  # before pytest's own
def pytest_runtestloop(session: pytest.Session) -> object | None:
    return None if own.session_of(session.config).settings.cluster is None else own.engines().loop(session)


def pytest_report_header(config: pytest.Config) -> list[str]:
    return reporting.header(config) if own.settings_of(config).has_runs else []


def pytest_sessionfinish(session: pytest.Session) -> None:
    group.close_group(session.config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reporting.summarise(terminalreporter, config)
