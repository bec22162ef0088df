"""The submission checker: tells an agent whether its file is well formed, never its score.

It runs outside the sandbox, on a local port or a Unix socket. ``GET /health`` answers ``{"status": "ok"}``;
``POST /validate`` takes a multipart form with the field ``file`` and answers ``{"result": "…"}``.
"""

from __future__ import annotations

import json
import logging
import socket
import socketserver
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

from pytest_mlebench.grading.submission import MAX_BYTES

logger = logging.getLogger(__name__)

PORT = 5000
_BLOCK = 1 << 16
_MAX_PART_HEADER = 1 << 14


class SubmissionChecker:
    """An HTTP server in a thread of its own; use it as a context manager.

    ``validate(path)`` returns the text that the agent is given. At most ``requests_per_minute`` files are looked at in
    a minute, one at a time. Every verdict is kept in ``history`` as (seconds since the start, verdict).
    """

    def __init__(
        self,
        validate: Callable[[Path], str],
        *,
        unix_socket: Path | None = None,
        port: int = PORT,
        max_bytes: int = MAX_BYTES,
        requests_per_minute: int = 30,
    ) -> None:
        self.history: deque[tuple[float, str]] = deque(maxlen=1000)
        self._validate = validate
        self._max_bytes = max_bytes
        self._per_minute = requests_per_minute
        self._recent: deque[float] = deque()
        self._one_at_a_time = threading.Lock()
        self._started = time.monotonic()
        handler = type("Handler", (_Handler,), {"checker": self})
        if unix_socket is not None:
            self._server: socketserver.BaseServer = _UnixServer(str(unix_socket), handler)
            # The sandbox's user is not ours; the folder around the socket is what keeps others away.
            unix_socket.chmod(0o666)
            self.url = f"http://localhost:{PORT}"
        else:
            self._server = _tcp_server(port, handler)
            self.url = f"http://localhost:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    def __enter__(self) -> SubmissionChecker:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def check(self, read: Callable[[IO[bytes]], str | None]) -> tuple[int, str]:
        """HTTP status and text for a file that ``read`` writes to a stream; ``read`` returns an error or None."""
        with self._one_at_a_time:
            if not self._admit():
                return 429, f"Too many requests: at most {self._per_minute} a minute. Try again later."
            with tempfile.TemporaryDirectory(prefix="mlebench-check-") as folder:
                path = Path(folder) / "submission.csv"
                with path.open("wb") as file:
                    if error := read(file):
                        return 400, error
                verdict = self._validate(path)
        self.history.append((time.monotonic() - self._started, verdict))
        return 200, verdict

    @property
    def max_bytes(self) -> int:
        return self._max_bytes

    def _admit(self) -> bool:
        now = time.monotonic()
        while self._recent and now - self._recent[0] > 60:
            self._recent.popleft()
        if len(self._recent) >= self._per_minute:
            return False
        self._recent.append(now)
        return True


class _Handler(BaseHTTPRequestHandler):
    checker: SubmissionChecker
    timeout = 60  # a client that stalls does not hold its thread for ever
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/health":
            self._answer(200, {"status": "ok"})
        else:
            self._answer(404, {"result": "Not found; POST a file to /validate."})

    def do_POST(self) -> None:
        self.close_connection = True
        if self.path.rstrip("/") != "/validate":
            return self._answer(404, {"result": "Not found; POST a file to /validate."})
        length = self.headers.get("Content-Length", "")
        boundary = _boundary(self.headers.get("Content-Type", ""))
        if boundary is None:
            return self._answer(400, {"result": "Send the file as multipart/form-data in the field 'file'."})
        if not length.isdecimal():
            return self._answer(411, {"result": "The request has no Content-Length."})
        if int(length) > self.checker.max_bytes + 2 * _MAX_PART_HEADER:
            return self._answer(413, {"result": f"The file is too large: at most {self.checker.max_bytes:,} bytes."})
        status, text = self.checker.check(lambda file: _copy_part(self.rfile, int(length), boundary, file))
        return self._answer(status, {"result": text})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def address_string(self) -> str:
        return "sandbox"

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug(format, *args)


class _TcpServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("submission checker: connection broke", exc_info=True)


class _UnixServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("submission checker: connection broke", exc_info=True)


def _tcp_server(port: int, handler: type[BaseHTTPRequestHandler]) -> _TcpServer:
    """On the usual port, or on a free one where that is taken (by another worker, or by anybody)."""
    try:
        with socket.socket() as probe:  # allow_reuse_address must not let two servers share the port
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                raise OSError("taken")
        return _TcpServer(("127.0.0.1", port), handler)
    except OSError:
        return _TcpServer(("127.0.0.1", 0), handler)


def _boundary(content_type: str) -> bytes | None:
    kind, *parameters = (part.strip() for part in content_type.split(";"))
    if kind.lower() != "multipart/form-data":
        return None
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.lower() == "boundary" and 0 < len(value.strip('"')) <= 200:
            return b"--" + value.strip('"').encode("latin-1", "replace")
    return None


def _copy_part(source: _Readable, length: int, boundary: bytes, target: IO[bytes]) -> str | None:
    """Stream the form field ``file`` of a multipart body to a file; returns an error, or None.

    The body is read in blocks, so that a large upload needs no memory.
    """
    body = _Limited(source, length)
    buffer = b""
    while True:  # one part after another, until the field is found
        while b"\r\n\r\n" not in buffer:
            block = body.read(_BLOCK)
            if not block or len(buffer) > _MAX_PART_HEADER:
                return "The form has no field 'file'."
            buffer += block
        header, _, buffer = buffer.partition(b"\r\n\r\n")
        wanted = b'name="file"' in header or b"name=file" in header
        end = b"\r\n" + boundary
        while (position := buffer.find(end)) < 0:
            keep = len(end) - 1
            if wanted and len(buffer) > keep:
                target.write(buffer[:-keep])
            buffer = buffer[-keep:]
            block = body.read(_BLOCK)
            if not block:
                return "The upload ended before the form did."
            buffer += block
        if wanted:
            target.write(buffer[:position])
            return None
        buffer = buffer[position + len(end) :]


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Limited:
    def __init__(self, source: _Readable, length: int) -> None:
        self._source, self._left = source, length

    def read(self, size: int) -> bytes:
        block = self._source.read(min(size, self._left))
        self._left -= len(block)
        return block
