"""Prepared data on Google Cloud Storage, with a server for its JSON API in a separate process."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.data.remote_servers import Proxy, running_proxy, wait_for
from tests.data.test_remote_stores import SMALL, TOYS, Puller, assert_same, here, mlebench

__all__ = ["here"]

pytestmark = pytest.mark.full

URL = "gs://data/of/mine"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, here: Path) -> Iterator[tuple[str, int]]:
    """A server to which the toy's data was pushed, by ``mlebench``."""
    if find_spec("gcsfs") is None or find_spec("gcp_storage_emulator") is None:
        missing = 'no client or server for gs://: pip install -e ".[dev]"'
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    folder = tmp_path_factory.mktemp("gcs")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address: tuple[str, int] = free.getsockname()
    command = [sys.executable, "-m", "gcp_storage_emulator", "start", "--host=127.0.0.1", f"--port={address[1]}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, "--in-memory", "--default-bucket=data"], stdout=log, stderr=log)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{address[1]}")
        try:
            wait_for(address, process)
            done = mlebench("push", URL, "-c", "toy-parity", "--data-dir", here, "--competitions-dir", TOYS)
            assert done.returncode == 0 and f"pushed to {URL} ({SMALL + 6} files written)" in done.stderr, done.stderr
            yield address
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def gcs(server: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy to the server."""
    with running_proxy(server) as proxy:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{proxy.port}")
        yield proxy


def bucket(do: str) -> None:
    program = f"from gcsfs.core import GCSFileSystem\nfs = GCSFileSystem(use_listings_cache=False)\n{do}"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_data_is_pulled_and_nothing_is_pushed_twice(
    gcs: Proxy, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLEBENCH_DATA_SOURCE", URL)
    done = mlebench("prepare", "-c", "toy-parity", "--data-dir", tmp_path, "--competitions-dir", TOYS)
    assert done.returncode == 0 and f"from {URL}" in done.stderr, done.stderr
    assert "bucket type" not in done.stderr
    assert_same(tmp_path, here)
    assert json.loads((tmp_path / "toy-parity/state.json").read_text())["source"] == URL
    again = mlebench("push", URL, "-c", "toy-parity", "--data-dir", tmp_path, "--competitions-dir", TOYS)
    assert "already complete" in again.stderr, again.stderr


def test_broken_or_silent_connections_are_reopened(gcs: Proxy, here: Path, tmp_path: Path) -> None:
    gcs.cuts["%2F7.bin"] = 1
    gcs.cut_after = 1000
    gcs.silent.add("big.bin")
    Puller(tmp_path, URL, stall=4).succeed()
    assert_same(tmp_path, here)
    assert not +gcs.cuts and not gcs.silent, "nothing was cut"
    assert gcs.gets("%2F7.bin") > 1 and gcs.gets("%2Fbig.bin") > 3  # of 8 MB each


def test_missing_objects_are_named_and_repaired_by_another_push(gcs: Proxy, here: Path, tmp_path: Path) -> None:
    bucket("fs.rm('data/of/mine/toy-parity/prepared/public/3.bin')")
    status, output = Puller(tmp_path, URL).run()
    last = output.splitlines()[-1]
    assert status == 1 and "3.bin is damaged: it is missing, and the index lists it" in last, output
    assert f"mlebench push -c toy-parity {URL} --replace --competitions-dir {TOYS}" in last
    options = ("--data-dir", here, "--competitions-dir", TOYS, "--replace")
    assert mlebench("push", URL, "-c", "toy-parity", *options).returncode == 0
    Puller(tmp_path, URL).succeed()
    assert_same(tmp_path, here)


def test_a_missing_bucket_is_a_one_line_error(gcs: Proxy, here: Path) -> None:
    done = mlebench("push", "gs://nowhere/x", "-c", "toy-parity", "--data-dir", here, "--competitions-dir", TOYS)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 2, done.stderr
    assert "gs://nowhere/x/toy-parity/prepared.pushing.json cannot be written: does the bucket exist?" in done.stderr


class Forbids(BaseHTTPRequestHandler):
    """Responds like Google to an authenticated user without permission."""

    def do_GET(self) -> None:
        body = b'{"error": {"code": 403, "message": "ada does not have storage.objects.get access"}}'
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


def test_denied_access_is_not_retried(server: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Forbids) as denying:
        thread = threading.Thread(target=denying.serve_forever)
        thread.start()
        try:
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{denying.server_port}")
            status, output = Puller(tmp_path, URL).run()
        finally:
            denying.shutdown()
            thread.join()
    assert status == 1 and len(output.splitlines()) == 1, output
    assert f"{URL}/toy-parity/prepared.json: access is denied with the credentials of the environment" in output
