"""Errors of the Docker engine are shown as one readable line."""

from __future__ import annotations

import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from unittest.mock import Mock

import pytest
from docker.errors import APIError, DockerException, ImageNotFound

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox.docker.images import Images
from pytest_mlebench.sandbox.docker.podman import open_client

ADDRESS = "http+docker://localhost/v1.43/images/mlebench-env:0123/json?x=%7B%7D"


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
        Images(client).environment()
    text = str(caught.value)
    assert text.startswith("the container engine could not look for image mlebench-env:")
    assert message in text and "http" not in text and "\n" not in text


def test_a_typo_in_a_dockerfile_is_shown_in_the_builders_words() -> None:
    refusal = APIError(f"400 Client Error for {ADDRESS}", explanation="dockerfile parse error line 2: unknown: RNU")
    client = Mock(**{"api.build.side_effect": refusal, "info.return_value": {}})
    client.images.get.side_effect = ImageNotFound("no such image")
    with pytest.raises(SandboxError) as caught:
        Images(client).environment()
    assert str(caught.value).splitlines()[1:] == ["dockerfile parse error line 2: unknown: RNU"]


@pytest.mark.parametrize("engine", ["docker", "podman"])
@pytest.mark.parametrize("status, body", [(500, '{"message": "it\\nbroke"}'), (200, "[1]"), (200, "<html>"), (200, "")])
def test_an_engine_that_answers_nonsense_gives_a_one_line_error(
    status: int, body: str, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def address_string(self) -> str:
            return ""

        def log_message(self, *_: object) -> None:
            pass

    path = tmp_path / "engine.sock"
    for name in ("DOCKER_HOST", "CONTAINER_HOST"):
        monkeypatch.setenv(name, f"unix://{path}")
    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with pytest.raises(SandboxError) as caught:
                open_client(engine).close()
        finally:
            server.shutdown()
            thread.join()
    assert "\n" not in str(caught.value)
