"""The submission checker, asked over real sockets."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

import pytest

from pytest_mlebench.sandbox.checker import SubmissionChecker
from pytest_mlebench.sandbox.instructions import validate_script

BOUNDARY = "frontier"


def size_of(path: Path) -> str:
    content = path.read_bytes()
    return f"{len(content)} bytes, {content[:20]!r}"


@pytest.fixture
def checker() -> Iterator[SubmissionChecker]:
    with SubmissionChecker(size_of, max_bytes=1_000_000, requests_per_minute=5) as running:
        yield running


def ask(checker: SubmissionChecker, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlparse(checker.url).netloc, timeout=10)
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


def validate(checker: SubmissionChecker, body: bytes) -> tuple[int, str]:
    return ask(checker, "POST", "/validate", body, Content_Type=f"multipart/form-data; boundary={BOUNDARY}")


def test_health_answers(checker: SubmissionChecker) -> None:
    assert ask(checker, "GET", "/health") == (200, {"status": "ok"})


@pytest.mark.parametrize(
    "content", [b"", b"id,x\n1,2\n", b"a\r\n--frontie\r\nb" * 20_000], ids=["empty", "small", "large"]
)
def test_the_file_arrives_as_it_was_sent(checker: SubmissionChecker, content: bytes) -> None:
    assert validate(checker, form(content)) == (200, f"{len(content)} bytes, {content[:20]!r}")


def test_curl_in_the_agents_script_works(checker: SubmissionChecker, tmp_path: Path) -> None:
    file = tmp_path / "submission.csv"
    file.write_text("id,x\n")
    done = subprocess.run(
        ["bash", validate_script(), file], env={"VALIDATION_URL": checker.url, "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {"result": "5 bytes, b'id,x\\n'"}
    missing = subprocess.run(
        ["bash", validate_script(), tmp_path / "none"], capture_output=True, text=True, check=False
    )
    assert missing.returncode == 2 and "is not a file" in missing.stderr


def test_other_fields_are_passed_over(checker: SubmissionChecker) -> None:
    first = form(b"ignored", field="note").removesuffix(f"--{BOUNDARY}--\r\n".encode())
    assert validate(checker, first + form(b"taken"))[1] == "5 bytes, b'taken'"
    assert validate(checker, form(b"x", field="other")) == (400, "The form has no field 'file'.")


def test_requests_that_are_no_upload_are_answered_with_what_to_do(checker: SubmissionChecker) -> None:
    assert ask(checker, "POST", "/validate", b"id,x\n")[0] == 400
    assert ask(checker, "GET", "/answers")[0] == 404
    assert ask(checker, "POST", "/grade", form(b"x"))[0] == 404
    status, text = validate(checker, form(b"x")[:-10])
    assert (status, text) == (400, "The upload ended before the form did.")


def test_a_large_upload_is_refused_before_it_is_read(checker: SubmissionChecker) -> None:
    netloc = urlparse(checker.url)
    with socket.create_connection((netloc.hostname, netloc.port), timeout=10) as connection:
        head = f"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
        connection.sendall(head.encode() + b"Content-Length: 5000000000\r\n\r\n")
        assert b" 413 " in connection.recv(1000)


def test_the_rate_is_limited(checker: SubmissionChecker) -> None:
    codes = [validate(checker, form(b"x"))[0] for _ in range(7)]
    assert codes == [200] * 5 + [429] * 2


def test_verdicts_are_kept_for_the_record(checker: SubmissionChecker) -> None:
    validate(checker, form(b"x"))
    ((seconds, verdict),) = checker.history
    assert seconds >= 0 and verdict == "1 bytes, b'x'"


def test_two_checkers_have_two_ports() -> None:
    with SubmissionChecker(size_of) as first, SubmissionChecker(lambda path: "second") as second:
        assert first.url != second.url
        assert validate(first, form(b"x"))[1] == "1 bytes, b'x'"
        assert validate(second, form(b"x"))[1] == "second"


def test_a_unix_socket_serves_as_well(tmp_path: Path) -> None:
    with SubmissionChecker(size_of, unix_socket=tmp_path / "checker.sock") as checker:
        done = subprocess.run(
            ["curl", "-s", "--unix-socket", tmp_path / "checker.sock", f"{checker.url}/health"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert json.loads(done.stdout) == {"status": "ok"}
