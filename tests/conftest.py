from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy.fft  # noqa: F401 - can load only once per process, and pytester unloads modules that its sessions import first
import pytest

import pytest_mlebench.data.jobs
import pytest_mlebench.plugin.group  # noqa: F401 - likewise: a package keeps unloaded modules as attributes
from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.cli.main import main
from tests.kaggle_server import KaggleServer, client_environment, running_server

pytest_plugins = ["pytester"]

# A shell's background jobs ignore Ctrl-C. Without this, so would all processes that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


_LEFT_OUT = pytest.StashKey[int]()
_FULL = {"docker": "docker_engine", "browser": "browser"}
"""Marks of tests that a run without ``--full`` skips, and the fixtures that imply them."""
_UNTIL, _UNREACHED = "MLEBENCH_TEST_UNTIL", "MLEBENCH_TEST_UNREACHED"
"""CI's deadline (seconds since 1970) after which no test starts, and the file that lists tests that did not start."""

_WITHOUT_OURS = "-p no:hypothesispytest -p no:benchmark -p no:anyio -p no:timeout"
"""For sessions that tests start: importing these plugins takes longer than starting pytest."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run tests that are slow or need Docker or a browser")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist starts its workers
def pytest_configure(config: pytest.Config) -> None:
    """Make the processes that tests start share compiled modules, and load no plugins that only developers use."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        os.environ["PYTEST_ADDOPTS"] = _WITHOUT_OURS  # not for this session's own workers
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        os.environ["PYTHONPYCACHEPREFIX"] = folder = tempfile.mkdtemp(prefix="mlebench-pycache-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist and -m read the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        for mark, fixture in _FULL.items():
            if fixture in fixtures:
                item.add_marker(mark)
    if not config.getoption("full"):
        left_out = [item for item in items if any(item.get_closest_marker(mark) for mark in ("full", *_FULL))]
        config.stash[_LEFT_OUT] = len(left_out)
        items[:] = [item for item in items if item not in set(left_out)]
        config.hook.pytest_deselected(items=left_out)
    if _UNTIL in os.environ:
        cases = Counter[str]()
        items.sort(key=lambda item: _comes_late(item, cases))


def _comes_late(item: pytest.Item, cases: Counter[str]) -> bool:
    """Return whether a test runs late: three in four cases of a parametrized test do, so these are skipped first."""
    test = item.nodeid.partition("[")[0]
    cases[test] += 1
    return cases[test] % 4 != 1


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() > float(os.environ.get(_UNTIL, "inf")):
        with Path(os.environ[_UNREACHED]).open("a", encoding="utf-8") as file:
            file.write(f"{item.nodeid}\n")
        pytest.skip("not started before CI's deadline; CI lists these tests at the end")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(_LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[_LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)  # each collects all tests


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if count := config.stash.get(_LEFT_OUT, 0):
        terminalreporter.write_line(
            f"skipped {count} tests that are slow or need Docker or a browser: --full runs them"
        )


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Set the variable again, because pytest's fixture removes it."""
    monkeypatch.setenv("PYTEST_ADDOPTS", _WITHOUT_OURS)
    return pytester


@pytest.fixture(autouse=True)
def own_opener(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset urllib's global opener, which keeps the proxies of its first request, even from another test."""
    monkeypatch.setattr(urllib.request, "_opener", None)


@pytest.fixture
def kaggle_server(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[KaggleServer]:
    """A local Kaggle server. This process and its child processes use it with a user's API key."""
    for name in [name for name in os.environ if name.startswith("KAGGLE_")]:
        monkeypatch.delenv(name)
    with running_server() as server:
        for name, value in client_environment(server, tmp_path_factory.mktemp("home")).items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture(scope="session")
def new_competition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A competition from `mlebench new-competition`, which takes seconds. Tests that change it make a copy."""
    folder = tmp_path_factory.mktemp("new") / "mine"
    assert main(["new-competition", "house-prices", f"--dir={folder}"]) == 0
    return folder / "house-prices"


@pytest.fixture(scope="session")
def raw_files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, bytes]]:
    """A competition's synthetic raw data, as files by name."""

    def make(id: str) -> dict[str, bytes]:
        folder = tmp_path_factory.mktemp(id)
        default_catalogue()[id].module("synthetic").make(folder, 1)
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    return make
