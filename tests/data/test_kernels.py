"""``mlebench kernels`` downloads public notebooks through Kaggle's client, here from a local server for its API."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.data.download.kaggle import KaggleDownloads
from pytest_mlebench.data.download.transfers import CredentialsError, RetryPolicy
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import CompetitionError
from pytest_mlebench.extras.audit.kernels import MAX_BYTES, Kernels, download, kernels
from tests.cli.test_cli import mlebench
from tests.kaggle_server import Cut, KaggleServer, ServedNotebook, Stall, Status

ID, SMALL = "spaceship-titanic", "mlsp-2013-birds"
QUICK = RetryPolicy(attempts=4, delay=0.01, stall=2.0)


def cells(*sources: str) -> str:
    """A notebook with these code cells."""
    made = [{"cell_type": "code", "source": source, "outputs": [], "metadata": {}} for source in sources]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def competition() -> Competition:
    return default_catalogue()[SMALL]


@pytest.fixture
def kaggle(kaggle_server: KaggleServer, competition: Competition) -> KaggleServer:
    """A server with all five notebooks."""
    for number, name in enumerate(competition.kernels):
        kaggle_server.notebooks[name] = ServedNotebook(source=cells(f"print({number})"))
    return kaggle_server


def fetch(competition: Competition, folder: Path, max_bytes: int = MAX_BYTES) -> Kernels:
    return download(DataStore(folder), competition, KaggleDownloads(QUICK), max_bytes=max_bytes)


def test_every_competition_of_the_benchmark_lists_its_notebooks() -> None:
    catalogue = default_catalogue()
    listed = {c.id: c.kernels for c in catalogue if (c.folder / "kernels.json").is_file()}
    assert len(listed) == 82 == sum(competition.source == "kaggle" for competition in catalogue)
    assert sum(map(len, listed.values())) == 3636 and max(map(len, listed.values())) == 50
    assert {id for id, names in listed.items() if not names} == {
        "multi-modal-gesture-recognition",
        "the-icml-2013-whale-challenge-right-whale-redux",
    }


@pytest.mark.parametrize("text", ['{"a": 1}', '["../../x"]', '["a/b/c"]', '["a"]', "[1]", '["a/.."]', "nonsense"])
def test_an_invalid_list_is_a_clear_error(text: str, competition: Competition, tmp_path: Path) -> None:
    folder = tmp_path / competition.id
    shutil.copytree(competition.folder, folder)
    (folder / "kernels.json").write_text(text)
    with pytest.raises(CompetitionError, match=re.escape(str(folder / "kernels.json"))):
        _ = Competition.load(folder).kernels


def test_notebooks_are_downloaded_once_to_a_folder_that_agents_do_not_see(
    kaggle: KaggleServer, competition: Competition, tmp_path: Path
) -> None:
    first, second, *_ = competition.kernels
    kaggle.notebooks[second] = ServedNotebook(source="x = 1\n", kind="script")
    dataset = DataStore(tmp_path).dataset(competition)
    (dataset.kernels / ".ipynb_checkpoints").mkdir(parents=True)
    (dataset.kernels / ".a.part").touch()
    found = fetch(competition, tmp_path)
    assert tuple(found.files) == competition.kernels and not found.gone and not found.missing
    assert not (dataset.kernels / ".a.part").exists()
    assert found.files[first] == dataset.kernels / f"{first}.ipynb"
    assert found.files[second] == dataset.kernels / f"{second}.py" and found.files[second].read_text() == "x = 1\n"
    assert dataset.prepared not in dataset.kernels.parents
    again = fetch(competition, tmp_path)
    assert again.files == found.files and len(kaggle.asked("GetKernel")) == 5


def test_deleted_and_private_notebooks_are_listed_and_retried(
    kaggle: KaggleServer, competition: Competition, tmp_path: Path
) -> None:
    gone, private, empty, sql, large = competition.kernels
    del kaggle.notebooks[gone]
    kaggle.notebooks |= {
        private: ServedNotebook(source="x", is_private=True),
        empty: ServedNotebook(source=" "),
        sql: ServedNotebook(source="select 1", kind="script", language="sqlite"),
        large: ServedNotebook(source="#" * 1001),
    }
    found = fetch(competition, tmp_path, max_bytes=1000)
    assert not found.files and not found.missing and not found.failed
    assert "404" in found.gone[gone] and "403" in found.gone[private] and "no code" in found.gone[empty]
    assert "no program" in found.gone[sql] and "more than" in found.gone[large]
    kaggle.notebooks[private] = ServedNotebook(source=cells("y = 1"))
    found = fetch(competition, tmp_path, max_bytes=1000)
    assert list(found.files) == [private] and private not in found.gone and gone in found.gone


@pytest.mark.parametrize(
    "faults",
    [
        [Cut(), Cut(0.0), Cut(0.9)],
        [Status(503), Status(429, retry_after="0"), Status(500)],
        [Stall(0.5), Status(502)],
    ],
)
def test_broken_connections_and_rate_limits_are_retried(
    faults: list[Cut | Status | Stall], kaggle: KaggleServer, competition: Competition, tmp_path: Path
) -> None:
    kaggle.script("GetKernel", *faults)
    found = fetch(competition, tmp_path)
    assert tuple(found.files) == competition.kernels and not found.failed
    for name, path in found.files.items():
        assert path.read_text() == kaggle.notebooks[name].source


def test_an_outage_ends_the_download_and_the_next_call_resumes_it(
    kaggle: KaggleServer, competition: Competition, tmp_path: Path
) -> None:
    kaggle.script("GetKernel", None, None, *[Status(503)] * 12)
    found = fetch(competition, tmp_path)
    assert found.failed and found.missing and "call again later" in next(iter(found.failed.values()))
    assert all(path.read_text() == kaggle.notebooks[name].source for name, path in found.files.items())
    while kaggle.next_fault("GetKernel"):
        pass
    before = len(kaggle.asked("GetKernel"))
    again = fetch(competition, tmp_path)
    assert tuple(again.files) == competition.kernels
    assert len(kaggle.asked("GetKernel")) - before == len(found.missing)


def test_invalid_credentials_stop_it_immediately(
    kaggle: KaggleServer, competition: Competition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAGGLE_KEY", "wrong")
    with pytest.raises(CredentialsError, match=r"KAGGLE_KEY, user ada is not accepted; get new credentials"):
        fetch(competition, tmp_path)
    assert len(kaggle.asked("GetKernel")) <= 4
    done = mlebench("kernels", "-c", SMALL, "-c", ID, "--data-dir", tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("mlebench: Kaggle answered 401") and "KAGGLE_KEY" in done.stderr


def test_without_credentials_one_line_explains_how_to_get_them(tmp_path: Path) -> None:
    done = mlebench("kernels", "-c", SMALL, "--data-dir", tmp_path / "data", home=tmp_path)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("mlebench: no Kaggle credentials: get a token")
    assert not (tmp_path / "data").exists()


def test_the_command_reports_what_it_did(kaggle: KaggleServer, competition: Competition, tmp_path: Path) -> None:
    gone = competition.kernels[2]
    del kaggle.notebooks[gone]
    none = "multi-modal-gesture-recognition"
    done = mlebench("kernels", "-c", SMALL, "-c", none, "--data-dir", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    folder = tmp_path / SMALL / "kernels"
    assert f"{SMALL}: 4 of 5 notebooks in {folder}; 1 gone or private: {gone}" in lines
    assert f"{none}: no public notebooks are known" in lines
    result = json.loads(done.stdout)
    assert len(result[SMALL]["files"]) == 4 and list(result[SMALL]["gone"]) == [gone] and result[none] == {"listed": 0}


def test_a_folder_that_cannot_be_written_is_a_one_line_error(
    kaggle: KaggleServer, competition: Competition, tmp_path: Path
) -> None:
    (tmp_path / SMALL).mkdir()
    (tmp_path / SMALL / "kernels").write_text("a file")
    done = mlebench("kernels", "-c", SMALL, "--data-dir", tmp_path)
    assert done.returncode == 1 and f"{tmp_path / SMALL / 'kernels'}" in done.stderr


@pytest.mark.full
def test_after_kills_each_notebook_is_absent_or_complete(kaggle_server: KaggleServer, tmp_path: Path) -> None:
    competition = default_catalogue()[ID]
    for number, name in enumerate(competition.kernels):
        kaggle_server.notebooks[name] = ServedNotebook(source=cells(f"x = {number}\n" * 20_000))
    command = [sys.executable, "-m", "pytest_mlebench.cli", "kernels", "-c", ID, "--data-dir", str(tmp_path)]
    seen = 0
    for _ in range(4):
        asked = len(kaggle_server.asked("GetKernel"))
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                deadline = time.monotonic() + 60
                while len(kaggle_server.asked("GetKernel")) < asked + 6 and process.poll() is None:
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
            finally:
                process.send_signal(signal.SIGKILL)
        here = kernels(DataStore(tmp_path).dataset(competition))
        assert len(here.files) >= seen
        seen = len(here.files)
        assert all(path.read_text() == kaggle_server.notebooks[name].source for name, path in here.files.items())
    done = mlebench(*command[3:])
    assert done.returncode == 0, done.stderr
    here = kernels(DataStore(tmp_path).dataset(competition))
    assert tuple(here.files) == competition.kernels
    files = [path for path in (tmp_path / ID / "kernels").rglob("*") if path.is_file()]
    assert len(files) == 51, "only the notebooks and gone.json"


@pytest.mark.full
def test_ctrl_c_does_not_wait_for_a_server_that_does_not_answer(
    kaggle: KaggleServer, competition: Competition, tmp_path: Path
) -> None:
    """It once waited for the connection to time out, two minutes, and requested the other notebooks too."""
    kaggle.script("GetKernel", *[Stall(0.1, seconds=90)] * len(competition.kernels))
    command = [sys.executable, "-m", "pytest_mlebench.cli", "kernels", "-c", SMALL, "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 60
            while len(kaggle.asked("GetKernel")) < 2:
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=45)
        finally:
            process.kill()
    assert process.returncode == 130 and said.splitlines()[-1] == "mlebench: interrupted", said
    assert not kernels(DataStore(tmp_path).dataset(competition)).files
    assert fetch(competition, tmp_path).files.keys() == set(competition.kernels)
