from __future__ import annotations

import socket
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.grading import grade

if TYPE_CHECKING:
    from tests.agents.conftest import Start

SAMPLE = "id,answer\n1,0.5\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "shown" / "data"
    folder.mkdir(parents=True)
    (folder / "train.csv").write_text("id,answer\n7,1\n")
    return folder


class Checker(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(b'{"status": "ok"}' if self.path == "/health" else b"?")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        sent = b'name="file"' in body and SAMPLE.encode() in body and self.path == "/validate"
        self._answer(b'{"result": "looks fine"}' if sent else b'{"result": "no file"}')

    def _answer(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def checker() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Checker) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_it_copies_the_sample_submission_and_asks_the_checker(data: Path, checker: str, start: Start) -> None:
    (data / "sampleSubmission.csv").write_text(SAMPLE)
    ran = start("dummy", data, VALIDATION_URL=checker)
    assert ran.submission.read_text() == SAMPLE
    assert '{"status": "ok"}' in ran.output
    assert "looks fine" in ran.output


def test_a_zipped_sample_submission_is_unpacked(data: Path, start: Start) -> None:
    with zipfile.ZipFile(data / "samples.zip", "w") as archive:
        archive.writestr("en_sample_submission_2.csv", SAMPLE)
    ran = start("dummy", data)
    assert ran.submission.read_text() == SAMPLE


@pytest.mark.full
@pytest.mark.parametrize("agent", ["dummy", "baseline"])
@pytest.mark.parametrize("id", ["billion-word-imputation", "statoil-iceberg-classifier-challenge"])
def test_a_sample_submission_in_an_archive_of_any_kind_is_found(
    agent: str, id: str, synthetic: Callable[[str], Dataset], start: Start
) -> None:
    dataset = synthetic(id)
    ran = start(agent, dataset.public)
    assert grade(ran.submission, dataset.competition, dataset).valid_submission, ran.output


def test_without_a_sample_submission_it_logs_that_there_is_none(data: Path, start: Start) -> None:
    (data / "broken.zip").write_text("no archive")
    ran = start("dummy", data)
    assert "there is no sample submission" in ran.output
    assert not ran.submission.exists()


def test_values_of_unknown_variables_are_not_printed(data: Path, start: Start) -> None:
    ran = start("dummy", data, OPENAI_API_KEY="sk-very-secret", HTTPS_PROXY="http://name:password@localhost:1")
    assert "OPENAI_API_KEY" in ran.output and "HTTPS_PROXY" in ran.output
    assert "sk-very-secret" not in ran.output and "password" not in ran.output
    assert "COMPETITION_ID=some-competition" in ran.output


def test_it_reports_whether_the_answers_are_accessible(tmp_path: Path, data: Path, start: Start) -> None:
    ran = start("dummy", data)
    assert str(tmp_path) not in ran.output.split("private answers: ")[1].split("\n")[0]
    store = tmp_path / "store" / "some-competition" / "prepared"
    for side in ("public", "private"):
        (store / side).mkdir(parents=True)
    link = tmp_path / "linked"
    link.symlink_to(store / "public")
    ran = start("dummy", link, HOME=str(tmp_path / "nowhere"))
    assert f"private answers: FOUND {store / 'private'}" in ran.output


def test_it_opens_connections_only_on_request(data: Path, start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        quiet = start("dummy", data)
        server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            server.accept()
        assert "route to the internet:" in quiet.output and "connection to" not in quiet.output
        ran = start("dummy", data, "--connect", f"127.0.0.1:{port}", "--lookup", "localhost")
    assert f"connection to 127.0.0.1:{port}: yes" in ran.output
    assert "lookup of localhost: 127.0.0.1" in ran.output


def test_a_missing_checker_is_reported_and_does_not_stop_it(data: Path, start: Start) -> None:
    (data / "sample_submission.csv").write_text(SAMPLE)
    ran = start("dummy", data)
    assert "/health: no (" in ran.output
    assert "(no answer)" in ran.output
    assert ran.submission.read_text() == SAMPLE
