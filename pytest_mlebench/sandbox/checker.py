"""The submission checker: tells an agent whether its file is well formed, but never its score.

It runs outside the sandbox, on a local port or a Unix socket. Its answers are compatible with MLE-bench:
``GET /health`` returns ``{"status": "running"}``; ``POST /validate``, a multipart form with the field ``file``, returns
``{"result": "…"}``.
"""

from __future__ import annotations

import errno
import json
import logging
import math
import re
import selectors
import socket
import socketserver
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from pathlib import Path
from typing import IO, Any

from pytest_mlebench.defaults import MAX_SUBMISSION_BYTES
from pytest_mlebench.io.processes import owned_prefix
from pytest_mlebench.sandbox.contract import UPLOADS, Task

logger = logging.getLogger(__name__)

PORT = 5000
_BLOCK = 1 << 16
_MAX_PART_HEADER = 1 << 14
_MAX_CONNECTIONS = 32
_KEPT_VERDICTS = 1000
_KEPT_TEXT = 1000
_CLOSE_SECONDS = 10.0
_LINGER_SECONDS = 5.0
_OVER = (503, "The run is over.")
_NOT_FOUND = (404, "Not found; POST a file to /validate.")


class SubmissionChecker:
    """An HTTP server in its own thread. Use it as a context manager; its threads end with the block.

    ``validate(path)`` returns the text for the agent; ``stop`` makes a running call of it return. Files are checked one
    at a time, at most ``requests_per_minute``. A verdict is returned after a whole number of ``step`` seconds, so that
    its timing reveals little about the check. ``history`` keeps the latest verdicts as (seconds since the start,
    verdict).
    """

    def __init__(
        self,
        validate: Callable[[Path], str],
        *,
        unix_socket: Path | None = None,
        port: int = PORT,
        max_bytes: int = MAX_SUBMISSION_BYTES,
        requests_per_minute: int = 30,
        step: float = 1.0,
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        self.history: deque[tuple[float, str]] = deque(maxlen=_KEPT_VERDICTS)
        self._validate = validate
        self._stop = stop
        self._step = step
        self._closing = threading.Event()
        self.max_bytes = max_bytes
        self._per_minute = requests_per_minute
        self._recent: deque[float] = deque()
        self._one_at_a_time = threading.Lock()
        self._started = time.monotonic()
        self._uploads = tempfile.TemporaryDirectory(prefix=owned_prefix(UPLOADS))
        handler = type("Handler", (_Handler,), {"checker": self})
        if unix_socket is not None:
            self._server: _Server = _UnixServer(str(unix_socket), handler)
            # The sandbox runs as another user; the private folder around the socket keeps others out.
            unix_socket.chmod(0o666)
            self.url = f"http://localhost:{PORT}"
        else:
            self._server = _tcp_server(port, handler)
            self.url = f"http://localhost:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve, daemon=True)

    @classmethod
    def of(cls, task: Task, *, unix_socket: Path | None = None) -> SubmissionChecker:
        max_bytes = task.max_submission_bytes
        return cls(task.validate, stop=task.stop_validation, max_bytes=max_bytes, unix_socket=unix_socket)

    def __enter__(self) -> SubmissionChecker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.stop()
        self._thread.join()
        self._stop()
        self._server.close()
        self._uploads.cleanup()

    def check(self, read: Callable[[IO[bytes]], str | None]) -> tuple[int, str]:
        """Return HTTP status and text for a file. ``read`` writes it to a stream, and returns an error or None."""
        with self._one_at_a_time:
            if self._closing.is_set():
                return _OVER
            if not self._admit():
                return 429, f"Too many requests: at most {self._per_minute} a minute. Try again later."
            path = Path(self._uploads.name) / "submission.csv"
            try:
                with path.open("wb") as file:
                    if error := read(file):
                        return 400, error
                began = time.monotonic()
                verdict = self._validate(path)
            except ConnectionError:
                raise
            except Exception:
                logger.warning("the submission checker failed", exc_info=True)
                return 500, "The checker failed; try again later."
            finally:
                path.unlink(missing_ok=True)
            took = time.monotonic() - began
            if self._closing.wait(math.ceil(took / self._step) * self._step - took):
                return _OVER  # a stopped validation gives no verdict
            self.history.append((time.monotonic() - self._started, verdict[:_KEPT_TEXT]))
        return 200, verdict

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
    timeout = 60  # a stalled client does not hold its thread forever
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/health":
            self._answer(200, "running", field="status")
        else:
            self._answer(*_NOT_FOUND)

    def do_POST(self) -> None:
        self.close_connection = True
        answer = self._refusal()
        if answer is None:
            length, boundary = int(self.headers["Content-Length"]), _boundary(self.headers["Content-Type"])
            assert boundary is not None
            answer = self.checker.check(lambda file: _copy_part(self.rfile, length, boundary, file))
        self._answer(*answer)
        self._drain()

    def handle_expect_100(self) -> bool:
        """Answer at once a client that asks before it sends a large file."""
        if self.command == "POST" and (refusal := self._refusal()):
            self.close_connection = True
            self._answer(*refusal)
            return False
        return super().handle_expect_100()

    def _refusal(self) -> tuple[int, str] | None:
        """Return the answer to a request that is refused without reading its body; None if it is accepted."""
        length, max_bytes = self.headers.get("Content-Length", ""), self.checker.max_bytes
        if self.path.rstrip("/") != "/validate":
            return _NOT_FOUND
        if _boundary(self.headers.get("Content-Type", "")) is None:
            return 400, "Send the file as multipart/form-data in the field 'file'."
        if not re.fullmatch("[0-9]+", length):
            return 411, "The request has no Content-Length."
        if len(length) > 18 or int(length) > max_bytes + 2 * _MAX_PART_HEADER:
            return 413, f"The file is too large: at most {max_bytes:,} bytes."
        return None

    def _drain(self) -> None:
        """Let the client finish sending: it may read the answer only then, and a reset would lose it."""
        deadline = time.monotonic() + _LINGER_SECONDS
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            while (left := deadline - time.monotonic()) > 0:
                self.connection.settimeout(left)
                if not self.connection.recv(_BLOCK):
                    break

    def _answer(self, status: int, text: str, *, field: str = "result") -> None:
        content = json.dumps({field: text}).encode()
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


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Serves a bounded number of connections, each in a thread."""

    daemon_threads = True
    allow_reuse_address = True
    timeout = 0.0  # the selector has already seen the request

    def __init__(self, *arguments: Any) -> None:
        self._connections: dict[socket.socket, threading.Thread] = {}
        super().__init__(*arguments)
        self._stopped, self._stopping = socket.socketpair()

    def serve(self) -> None:
        """Serve until ``stop`` is called. ``serve_forever`` would only notice that at intervals."""
        with selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            selector.register(self._stopped, selectors.EVENT_READ)
            while all(key.fileobj is self for key, _ in selector.select()):
                self.handle_request()

    def stop(self) -> None:
        self._stopping.close()

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self._connections) >= _MAX_CONNECTIONS:
            return self.shutdown_request(request)
        thread = threading.Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        self._connections[request] = thread
        thread.start()
        return None

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self._connections.pop(request, None)

    def close(self) -> None:
        """Close all connections, and wait for their threads to end."""
        self.server_close()
        self._stopped.close()
        for connection, thread in list(self._connections.items()):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            thread.join(_CLOSE_SECONDS)

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("submission checker: connection broke", exc_info=True)


class _UnixServer(_Server):
    address_family = socket.AF_UNIX


def _tcp_server(port: int, handler: type[BaseHTTPRequestHandler]) -> _Server:
    """Listen on the usual port, or on a free one if it is taken (by another worker, or by anyone else)."""
    try:
        with socket.socket() as probe:  # allow_reuse_address must not let two servers share the port
            probe.settimeout(1.0)  # its owner may hang
            if probe.connect_ex(("127.0.0.1", port)) != errno.ECONNREFUSED:
                raise OSError("taken")
        return _Server(("127.0.0.1", port), handler)
    except OSError:
        return _Server(("127.0.0.1", 0), handler)


def _boundary(content_type: str) -> bytes | None:
    kind, *parameters = (part.strip() for part in content_type.split(";"))
    if kind.lower() != "multipart/form-data":
        return None
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.lower() == "boundary" and 0 < len(value.strip('"')) <= 200:
            return b"--" + value.strip('"').encode("latin-1", "replace")
    return None


def _copy_part(source: BufferedIOBase, length: int, boundary: bytes, target: IO[bytes]) -> str | None:
    """Copy the form field ``file`` of a multipart body to a file. Returns an error, or None.

    The body is read in blocks, so that a large upload needs little memory.
    """
    left = length

    def read() -> bytes:
        nonlocal left
        block = source.read(min(_BLOCK, left))
        left -= len(block)
        return block

    buffer = b""
    while True:  # one part after another, until the field is found
        while b"\r\n\r\n" not in buffer:
            block = read()
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
            block = read()
            if not block:
                return "The upload ended before the form did."
            buffer += block
        if wanted:
            target.write(buffer[:position])
            return None
        buffer = buffer[position + len(end) :]
