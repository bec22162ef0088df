from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings
from kaggle_server import KaggleServer, client_environment, running_server
from xdist.scheduler import LoadScopeScheduling

from pytest_mlebench.catalog import default_catalogue

# A deadline for an example measures the machine, not the code.
settings.register_profile("mlebench", deadline=None)
settings.load_profile("mlebench")

# A shell's background job ignores Ctrl-C, and so would all processes that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class _Scheduling(LoadScopeScheduling):
    """Each test goes to the next free worker, but those of one port stay with one: no other waits for its turn."""

    def _split_scope(self, nodeid: str) -> str:
        return "kaggle" if nodeid.split("::")[0] in _KAGGLE else nodeid


_KAGGLE = {
    *(f"tests/data/test_{name}.py" for name in ("disk_full", "kaggle", "kaggle_credentials", "kills", "prepare")),
    *("tests/data/test_verify_remove.py", "tests/plugin/test_prepare_option.py", "tests/test_leaderboard_command.py"),
}
"""The files whose tests use ``kaggle_server``."""


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    return _Scheduling(config, log) if config.getoption("dist") == "load" else None


@pytest.fixture
def kaggle_server(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[KaggleServer]:
    """A local Kaggle; this process, and those that it starts, talk to it with a user's API key."""
    for name in [name for name in os.environ if name.startswith("KAGGLE_")]:
        monkeypatch.delenv(name)
    for name, value in client_environment(tmp_path_factory.mktemp("home")).items():
        monkeypatch.setenv(name, value)
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def raw_files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, bytes]]:
    """A competition's synthetic raw data, as files by name."""

    def make(id: str) -> dict[str, bytes]:
        folder = tmp_path_factory.mktemp(id)
        default_catalogue()[id].module("synthetic").make(folder, 1)
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    return make
