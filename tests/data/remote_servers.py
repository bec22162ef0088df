"""Servers for pulling prepared data: a real S3 server, and a proxy that breaks connections in mid-object."""

from __future__ import annotations

import os
import re
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

_REQUEST = re.compile(rb"(?:^|\r\n)(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/1\.1\r\n")
KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIATEST",
    "AWS_SECRET_ACCESS_KEY": "s3cr3t-0123456789",
    "AWS_DEFAULT_REGION": "us-east-1",
}


class Proxy:
    """Forwards bytes to a server, counts requests, and injects faults.

    ``cuts`` maps the end of an object's path to the number of times that the connection breaks, each time after
    ``cut_after`` bytes of a response. ``bytes_per_second`` limits the speed. For paths in ``silent``, one response
    stops halfway.
    """

    def __init__(self, upstream: tuple[str, int]) -> None:
        self.upstream = upstream
        self.cuts: Counter[str] = Counter()
        self.silent: set[str] = set()
        self.cut_after = 300_000
        self.bytes_per_second: float | None = None
        self.requests: Counter[tuple[str, str]] = Counter()
        """Number of requests by method and path."""
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def gets(self, end: str) -> int:
        """Number of GET requests for objects whose paths end with ``end``."""
        return sum(count for (method, path), count in self.requests.items() if method == "GET" and path.endswith(end))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(20)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(self.upstream) as server:
            with self._lock:
                self._open |= {client, server}
            try:
                self._pass_on(client, server)
            finally:
                with self._lock:
                    self._open -= {client, server}

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        path, answered = "", 0
        with selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ)
            selector.register(server, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    block = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                    if not block:
                        return
                    if key.fileobj is client:
                        if found := _REQUEST.search(block):
                            method, raw = found.groups()
                            path, answered = raw.decode().partition("?")[0], 0
                            with self._lock:
                                self.requests[method.decode(), path] += 1
                        server.sendall(block)
                        continue
                    answered += len(block)
                    if self.bytes_per_second is not None:
                        time.sleep(len(block) / self.bytes_per_second)
                    if self._breaks(path, answered):
                        return
                    client.sendall(block)

    def _breaks(self, path: str, answered: int) -> bool:
        """Return whether the connection breaks now, possibly after a long silence."""
        with self._lock:
            end = next((end for end in self.cuts if path.endswith(end) and self.cuts[end] > 0), None)
            if end is not None and answered > self.cut_after:
                self.cuts[end] -= 1
                return True
            silent = next((end for end in self.silent if path.endswith(end)), None)
            if silent is None or answered <= self.cut_after:
                return False
            self.silent.discard(silent)
        time.sleep(8)
        return True


@contextmanager
def running_proxy(upstream: tuple[str, int]) -> Iterator[Proxy]:
    proxy = Proxy(upstream)
    try:
        yield proxy
    finally:
        proxy.close()


@contextmanager
def running_s3(folder: Path, host: str = "127.0.0.1") -> Iterator[tuple[str, int]]:
    """Run moto's server in a separate process. Yields its address."""
    with socket.create_server((host, 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", host, "-p", str(port)]
    environment = {**os.environ, "TMPDIR": str(folder), **KEYS}
    with (folder / "s3.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)
    try:
        wait_for((host, port), server)
        yield host, port
    finally:
        server.kill()
        server.wait()


def wait_for(address: tuple[str, int], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            socket.create_connection(address, timeout=5).close()
            return
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline, "the server did not start"
            time.sleep(0.1)


def s3_environment(port: int, host: str = "127.0.0.1") -> Mapping[str, str]:
    """Environment with which s3fs and botocore use the server on a local port."""
    return {**KEYS, "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_EC2_METADATA_DISABLED": "true"}


def make_bucket(name: str) -> None:
    """Create a bucket on the server in the environment, in a separate process because clients leave connections
    open."""
    program = "import sys, s3fs; s3fs.S3FileSystem().mkdir(sys.argv[1])"
    subprocess.run([sys.executable, "-c", program, name], check=True, timeout=120)
