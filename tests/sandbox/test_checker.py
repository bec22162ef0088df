"""The submission checker, called over real sockets."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from pytest_mlebench.io.files import bundled
from pytest_mlebench.sandbox.checker import SubmissionChecker
from pytest_mlebench.sandbox.contract import VALIDATE

BOUNDARY = "frontier"


def size_of(path: Path) -> str:
    content = path.read_bytes()
    return f"{len(content)} bytes, {content[:20]!r}"


@pytest.fixture
def checker() -> Iterator[SubmissionChecker]:
    with SubmissionChecker(size_of, max_bytes=1_000_000, requests_per_minute=5, step=0.01) as running:
        yield running


def ask(checker: SubmissionChecker, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Any]:
    with closing(http.client.HTTPConnection(urlparse(checker.url).netloc, timeout=10)) as connection:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        values = json.loads(answer.read())
    return answer.status, values.get("result", values)


def form(content: bytes, field: str = "file") -> bytes:
    return (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"; filename="a.csv"\r\n\r\n'.encode()
        + content
        + f"\r\n--{BOUNDARY}--\r\n".encode()
    )


def validate(checker: SubmissionChecker, body: bytes) -> tuple[int, Any]:
    return ask(checker, "POST", "/validate", body, Content_Type=f"multipart/form-data; boundary={BOUNDARY}")


def test_the_health_endpoint_answers(checker: SubmissionChecker) -> None:
    assert ask(checker, "GET", "/health") == (200, {"status": "running"})


def test_a_hanging_program_on_the_usual_port_does_not_delay_the_checker() -> None:
    with ExitStack() as sockets:
        hanging = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):  # more than its backlog
            client = sockets.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(hanging.getsockname())
        port = hanging.getsockname()[1]
        with SubmissionChecker(size_of, port=port, step=0.01) as checker:
            assert urlparse(checker.url).port != port
            assert ask(checker, "GET", "/health") == (200, {"status": "running"})


@pytest.mark.parametrize(
    "content", [b"", b"id,x\n1,2\n", b"a\r\n--frontie\r\nb" * 20_000], ids=["empty", "small", "large"]
)
def test_the_file_arrives_unchanged(checker: SubmissionChecker, content: bytes) -> None:
    assert validate(checker, form(content)) == (200, f"{len(content)} bytes, {content[:20]!r}")


def test_curl_in_the_agents_script_works(checker: SubmissionChecker, tmp_path: Path) -> None:
    file = tmp_path / "submission.csv"
    file.write_text("id,x\n")
    done = subprocess.run(
        ["bash", bundled("environment") / VALIDATE, file], env={"VALIDATION_URL": checker.url, "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {"result": "5 bytes, b'id,x\\n'"}
    missing = subprocess.run(
        ["bash", bundled("environment") / VALIDATE, tmp_path / "none"], capture_output=True, text=True, check=False
    )
    assert missing.returncode == 2 and "is not a file" in missing.stderr


def test_other_fields_are_ignored(checker: SubmissionChecker) -> None:
    first = form(b"ignored", field="note").removesuffix(f"--{BOUNDARY}--\r\n".encode())
    assert validate(checker, first + form(b"taken"))[1] == "5 bytes, b'taken'"
    assert validate(checker, form(b"x", field="other")) == (400, "The form has no field 'file'.")


def test_requests_that_are_not_uploads_get_instructions(checker: SubmissionChecker) -> None:
    assert ask(checker, "POST", "/validate", b"id,x\n")[0] == 400
    assert ask(checker, "GET", "/answers")[0] == 404
    assert ask(checker, "POST", "/grade", form(b"x"))[0] == 404
    status, text = validate(checker, form(b"x")[:-10])
    assert (status, text) == (400, "The upload ended before the form did.")


def test_a_large_upload_is_rejected_before_it_is_read(checker: SubmissionChecker) -> None:
    netloc = urlparse(checker.url)
    with socket.create_connection((netloc.hostname, netloc.port), timeout=10) as connection:
        head = f"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
        connection.sendall(head.encode() + b"Content-Length: 5000000000\r\n\r\n")
        assert b" 413 " in connection.recv(1000)


@pytest.mark.parametrize("size", [1_100_000, 30_000_000])
def test_the_reason_for_rejecting_a_large_file_arrives(checker: SubmissionChecker, tmp_path: Path, size: int) -> None:
    (tmp_path / "large.csv").write_bytes(bytes(size))
    done = subprocess.run(
        ["bash", bundled("environment") / VALIDATE, tmp_path / "large.csv"],
        env={"VALIDATION_URL": checker.url, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {"result": "The file is too large: at most 1,000,000 bytes."}


@pytest.mark.parametrize("length", ["-1", "1e3", "9" * 5000, "", "٣"])
def test_a_length_that_is_not_a_number_is_rejected(checker: SubmissionChecker, length: str) -> None:
    netloc = urlparse(checker.url)
    with socket.create_connection((netloc.hostname, netloc.port), timeout=10) as connection:
        head = f"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
        connection.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode())
        assert connection.recv(1000)[:12] in (b"HTTP/1.1 411", b"HTTP/1.1 413")


def test_the_rate_is_limited(checker: SubmissionChecker) -> None:
    codes = [validate(checker, form(b"x"))[0] for _ in range(7)]
    assert codes == [200] * 5 + [429] * 2


def test_verdicts_are_recorded(checker: SubmissionChecker) -> None:
    validate(checker, form(b"x"))
    ((seconds, verdict),) = checker.history
    assert seconds >= 0 and verdict == "1 bytes, b'x'"


@pytest.mark.full
def test_two_checkers_have_different_ports() -> None:
    with SubmissionChecker(size_of) as first, SubmissionChecker(lambda path: "second") as second:
        assert first.url != second.url
        assert validate(first, form(b"x"))[1] == "1 bytes, b'x'"
        assert validate(second, form(b"x"))[1] == "second"


def test_a_unix_socket_also_works(tmp_path: Path) -> None:
    with SubmissionChecker(size_of, unix_socket=tmp_path / "checker.sock") as checker:
        done = subprocess.run(
            ["curl", "-s", "--unix-socket", tmp_path / "checker.sock", f"{checker.url}/health"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert json.loads(done.stdout) == {"status": "running"}


def test_a_verdict_is_delayed_to_a_whole_number_of_steps() -> None:
    with SubmissionChecker(size_of, step=0.5) as checker:
        for _ in range(2):
            validate(checker, form(b"x"))
    for seconds, _ in checker.history:
        assert seconds >= 0.5
    assert checker.history[1][0] - checker.history[0][0] >= 0.5


def test_nothing_runs_after_the_checker_is_closed() -> None:
    started, stopped = threading.Event(), threading.Event()
    threads = threading.active_count()

    def check(path: Path) -> str:
        started.set()
        stopped.wait(30)
        return "stopped"

    answers: list[object] = []
    with SubmissionChecker(check, stop=stopped.set) as checker:
        asking = threading.Thread(target=lambda: answers.append(_broken_off(checker)))
        asking.start()
        started.wait(30)
    assert stopped.is_set()
    asking.join()
    assert answers[0] in ("broken off", (503, "The run is over.")) and not checker.history
    assert threading.active_count() == threads


def _broken_off(checker: SubmissionChecker) -> object:
    try:
        return validate(checker, form(b"x"))
    except (OSError, http.client.HTTPException):
        return "broken off"


@pytest.mark.full
def test_a_stalled_client_does_not_delay_the_end() -> None:
    with SubmissionChecker(size_of) as checker:
        netloc = urlparse(checker.url)
        stalled = [socket.create_connection((netloc.hostname, netloc.port), timeout=10) for _ in range(100)]
        stalled[0].sendall(b"POST /validate HTTP/1.1\r\nContent-Length: 5\r\n")
        began, threads = time.monotonic(), threading.active_count()
    assert time.monotonic() - began < 10 and threads < 60
    for connection in stalled:
        connection.close()


def test_a_failing_check_is_not_a_verdict() -> None:
    def check(path: Path) -> str:
        raise RuntimeError("broken")

    with SubmissionChecker(check, step=0.01) as checker:
        assert validate(checker, form(b"x")) == (500, "The checker failed; try again later.")
        assert ask(checker, "GET", "/health")[0] == 200
    assert not checker.history


def test_uploads_are_removed() -> None:
    seen: list[Path] = []
    with SubmissionChecker(lambda path: seen.append(path) or "seen", step=0.01) as checker:  # type: ignore[func-returns-value]
        validate(checker, form(b"x"))
        assert not seen[0].exists()
    assert not seen[0].parent.exists()
