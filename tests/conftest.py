from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings
from kaggle_server import KaggleServer, client_environment, running_server

from pytest_mlebench.catalog import default_catalogue

# A deadline for an example measures the machine, not the code.
settings.register_profile("mlebench", deadline=None)
settings.load_profile("mlebench")

# A shell's background job ignores Ctrl-C, and so would all processes that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
