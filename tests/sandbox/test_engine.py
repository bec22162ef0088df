"""Errors of the Docker engine are shown as one readable line."""

from __future__ import annotations

import json
import os
import socketserver
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import docker
import pytest
from docker.errors import APIError, DockerException, ImageNotFound

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox.docker.client import ContainerClient, ContainerOptions
from pytest_mlebench.sandbox.docker.container import Container
from pytest_mlebench.sandbox.docker.images import Images
from pytest_mlebench.sandbox.docker.podman import open_client

ADDRESS = "http+docker://localhost/v1.43/images/mlebench-env:0123/json?x=%7B%7D"


def images(client: Any, **limits: float) -> Images:
    return Images(Mock(client=client, info={}, unenforced=()), ContainerOptions(), **limits)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (APIError(f"500 Server Error for {ADDRESS}", explanation="no space left"), "no space left"),
        (DockerException("the engine is starting"), "the engine is starting"),
        (OSError(104, "Connection reset by peer"), "Connection reset by peer"),
    ],
)
def test_an_engine_error_is_quoted_without_the_address(error: Exception, message: str) -> None:
    client = Mock(**{"images.get.side_effect": error})
    with pytest.raises(SandboxError) as caught:
        images(client).environment()
    text = str(caught.value)
    assert text.startswith("the container runtime could not look for image mlebench-env:")
    assert message in text and "http" not in text and "\n" not in text


def test_a_typo_in_a_dockerfile_is_shown_in_the_builders_words() -> None:
    refusal = APIError(f"400 Client Error for {ADDRESS}", explanation="dockerfile parse error line 2: unknown: RNU")
    client = Mock(**{"api.build.side_effect": refusal})
    client.images.get.side_effect = ImageNotFound("no such image")
    with pytest.raises(SandboxError) as caught:
        images(client).environment()
    assert str(caught.value).splitlines()[1:] == ["dockerfile parse error line 2: unknown: RNU"]


@pytest.mark.parametrize("kind", ["open", "link", "file"])
def test_a_folder_of_locks_that_another_user_may_have_made_is_rejected(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder, other = tmp_path / f"mlebench-build-{os.getuid()}", tmp_path / "other"
    other.mkdir(mode=0o700)
    match kind:
        case "open":
            folder.mkdir()
            folder.chmod(0o777)
        case "link":
            folder.symlink_to(other)
        case "file":
            folder.touch(mode=0o700)
    client = Mock(**{"images.get.side_effect": ImageNotFound("no such image")})
    with pytest.raises(SandboxError, match=f"{folder}: it must be a folder you own, closed to others"):
        images(client).environment()
    assert not client.api.build.called and list(other.iterdir()) == []


@pytest.mark.parametrize("engine", ["docker", "podman"])
@pytest.mark.parametrize("status, body", [(500, '{"message": "it\\nbroke"}'), (200, "[1]"), (200, "<html>"), (200, "")])
def test_an_engine_that_answers_nonsense_gives_a_one_line_error(
    status: int, body: str, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Handler(Engine):
        def do_GET(self) -> None:
            self.answer(status, body)

    with serving(tmp_path / "engine.sock", Handler) as host:
        for name in ("DOCKER_HOST", "CONTAINER_HOST"):
            monkeypatch.setenv(name, host)
        with pytest.raises(SandboxError) as caught:
            open_client(engine).close()
    assert "\n" not in str(caught.value)


class Engine(BaseHTTPRequestHandler):
    """Answers what images and containers ask, and begins answers to `build` and `events` that it never ends."""

    protocol_version = "HTTP/1.1"
    ended = threading.Event()

    def answer(self, status: int, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body.encode())

    def begin(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.print("Step 1/2 : RUN sleep 999")

    def print(self, line: str) -> None:
        text = json.dumps({"stream": f"{line}\n"}).encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))

    def do_GET(self) -> None:
        if "/events" in self.path:
            self.begin()
            self.ended.wait(30)
            self.close_connection = True
        else:
            self.answer(404 if "/images/" in self.path else 200, '{"message": "No such image: x"}')

    def do_POST(self) -> None:
        self.begin()
        self.ended.wait(30)
        self.close_connection = True

    def address_string(self) -> str:
        return ""

    def log_message(self, *_: object) -> None:
        pass


class Dying(Engine):
    """Breaks the connection during a build."""

    def do_POST(self) -> None:
        self.begin()
        self.close_connection = True


class Blank(Engine):
    """Prints blank lines during a build, for three seconds."""

    def do_POST(self) -> None:
        self.begin()
        with suppress(OSError):  # the client left
            for _ in range(60):
                self.print("")
                time.sleep(0.05)
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True


@contextmanager
def serving(path: Path, handler: type[Engine]) -> Iterator[str]:
    handler.ended.clear()
    with socketserver.ThreadingUnixStreamServer(str(path), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            handler.ended.set()
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        (Engine, "the build takes longer than 1 second"),
        (Blank, "the build takes longer than 1 second"),
        (Dying, "Connection broken"),
    ],
)
def test_a_build_whose_output_ends_early_or_never_is_an_error(
    handler: type[Engine], problem: str, tmp_path: Path
) -> None:
    start = time.monotonic()
    with (
        serving(tmp_path / "engine.sock", handler) as host,
        closing(docker.DockerClient(host, version="1.41")) as client,
        pytest.raises(SandboxError) as caught,
    ):
        images(client, build_seconds=1).environment()
    step, last = str(caught.value).splitlines()[-2:]
    assert step == "Step 1/2 : RUN sleep 999" and problem in last
    assert time.monotonic() - start < 10


def test_an_engine_that_does_not_finish_its_list_of_events_is_not_waited_for(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "engine.sock", Engine) as host,
        closing(docker.DockerClient(host, version="1.41", timeout=1)) as client,
    ):
        container = Container(ContainerClient(client, host), "x")
        container._created = time.time()
        start = time.monotonic()
        assert container.was_stopped_from_outside()
    assert time.monotonic() - start < 10
