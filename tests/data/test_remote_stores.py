"""Prepared data on a real S3 server and on a web server, with broken connections, killed processes, and concurrent
pulls."""

from __future__ import annotations

import functools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.data.remote_servers import Proxy, running_proxy, running_s3, s3_environment

pytestmark = pytest.mark.full

TOYS = Path(__file__).parents[1] / "toys/competitions"
LARGE, SMALL = 20_000_000, 30
URL = "s3://data/of/mine"
PULL = """
import sys
from pathlib import Path
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.download.transfers import RetryPolicy
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import MLEBenchError
from pytest_mlebench.io.progress import event_text

root, source, toys, stall = sys.argv[1:]
policy = RetryPolicy(delay=0.05, stall=float(stall), attempts=2)
store, toy = DataStore(Path(root), source=source, policy=policy), Competition.load(Path(toys, "toy-parity"))
try:
    store.prepare(toy, reporter=lambda event: print(event_text(event), flush=True))
except MLEBenchError as error:
    sys.exit(str(error))
"""


def mlebench(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_mlebench.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert "Traceback" not in done.stderr, done.stderr
    return done


class Puller:
    """Processes that pull the toy's data from a URL into a folder, like ``mlebench prepare``."""

    def __init__(self, folder: Path, url: str, stall: float = 60) -> None:
        self.folder, self.url, self.stall = folder, url, stall

    def start(self) -> subprocess.Popen[str]:
        arguments = (self.folder, self.url, TOYS, self.stall)
        return subprocess.Popen(
            [sys.executable, "-c", PULL, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self) -> tuple[int, str]:
        with self.start() as process:
            output, _ = process.communicate(timeout=240)
        assert "Traceback" not in output, output
        return process.returncode, output

    def succeed(self) -> str:
        status, output = self.run()
        assert status == 0, output
        return output


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the toy's data, a large file, and many small ones."""
    root = tmp_path_factory.mktemp("here")
    done = mlebench("prepare", "-c", "toy-parity", "--data-dir", root, "--competitions-dir", TOYS)
    assert done.returncode == 0, done.stderr
    rng = random.Random(5)
    public = root / "toy-parity/prepared/public"
    (public / "big.bin").write_bytes(rng.randbytes(LARGE))
    for number in range(SMALL):
        (public / f"{number}.bin").write_bytes(rng.randbytes(2000))
    (root / "toy-parity/files.jsonl.gz").unlink()
    return root


@pytest.fixture(scope="module")
def s3_server(tmp_path_factory: pytest.TempPathFactory, here: Path) -> Iterator[tuple[str, int]]:
    """An S3 server to which the toy's data was pushed, by ``mlebench``."""
    with running_s3(tmp_path_factory.mktemp("s3")) as address, pytest.MonkeyPatch.context() as patched:
        for name, value in s3_environment(address[1]).items():
            patched.setenv(name, value)
        bucket("fs.mkdir('data')")
        done = mlebench("push", URL, "-c", "toy-parity", "--data-dir", here, "--competitions-dir", TOYS)
        assert done.returncode == 0 and f"pushed to {URL} ({SMALL + 6} files written)" in done.stderr, done.stderr
        yield address


@pytest.fixture
def s3(s3_server: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy to the S3 server."""
    with running_proxy(s3_server) as proxy:
        for name, value in s3_environment(proxy.port).items():
            monkeypatch.setenv(name, value)
        yield proxy


def bucket(do: str) -> None:
    """Run code on the bucket, in a separate process because its client leaves connections open."""
    program = f"import s3fs\nfs = s3fs.S3FileSystem(use_listings_cache=False, skip_instance_cache=True)\n{do}"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def assert_same(root: Path, here: Path) -> None:
    own, other = (folder / "toy-parity/prepared" for folder in (root, here))
    names = {path.relative_to(other) for path in other.rglob("*") if path.is_file()}
    assert {path.relative_to(own) for path in own.rglob("*") if path.is_file()} == names
    assert all((own / name).read_bytes() == (other / name).read_bytes() for name in names)
    assert {path.name for path in own.parent.iterdir()} == {".lock", "prepared", "state.json", "files.jsonl.gz"}


def objects(here: Path) -> set[str]:
    prepared = here / "toy-parity/prepared"
    return {path.relative_to(prepared).as_posix() for path in prepared.rglob("*") if path.is_file()}


def test_data_is_pulled_from_s3_and_nothing_is_pushed_twice(
    s3: Proxy, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLEBENCH_DATA_SOURCE", URL)
    done = mlebench("prepare", "-c", "toy-parity", "--data-dir", tmp_path, "--competitions-dir", TOYS)
    assert done.returncode == 0 and f"from {URL}" in done.stderr, done.stderr
    assert_same(tmp_path, here)
    assert json.loads((tmp_path / "toy-parity/state.json").read_text())["source"] == URL
    again = mlebench("push", URL, "-c", "toy-parity", "--data-dir", tmp_path, "--competitions-dir", TOYS)
    assert "already complete" in again.stderr, again.stderr


def test_a_connection_that_breaks_in_mid_object_repeats_at_most_a_block(s3: Proxy, here: Path, tmp_path: Path) -> None:
    s3.cuts.update({"/big.bin": 3, "/7.bin": 1})
    s3.cut_after = 1000
    Puller(tmp_path, URL).succeed()
    assert_same(tmp_path, here)
    assert not +s3.cuts, "nothing was cut"
    assert s3.gets("/big.bin") == 3 + 3  # blocks of 8 MB, and one more for each cut
    assert s3.gets("/7.bin") == 2 and s3.gets("/8.bin") == 1


def test_a_request_to_a_silent_store_is_retried(s3: Proxy, here: Path, tmp_path: Path) -> None:
    s3.silent.add("/big.bin")
    Puller(tmp_path, URL, stall=2).succeed()
    assert_same(tmp_path, here)
    assert not s3.silent and s3.gets("/big.bin") > 3


def test_slow_responses_do_not_time_out(s3: Proxy, here: Path, tmp_path: Path) -> None:
    s3.bytes_per_second = 8_000_000
    Puller(tmp_path, URL, stall=2).succeed()
    assert_same(tmp_path, here)
    assert s3.gets("/big.bin") == 3


def test_a_failed_pull_keeps_received_data(s3: Proxy, here: Path, tmp_path: Path) -> None:
    s3.cuts["/big.bin"] = 1000
    s3.cut_after = 1000
    status, output = Puller(tmp_path, URL).run()
    last = output.splitlines()[-1]
    assert status == 1 and f"{URL}/toy-parity/prepared/public/big.bin: gave up after 2 attempts" in last, output
    assert not (tmp_path / "toy-parity/prepared").exists()
    s3.cuts.clear()
    before = s3.gets(".bin")
    Puller(tmp_path, URL).succeed()
    assert_same(tmp_path, here)
    assert s3.gets(".bin") - before < SMALL + 3, "received data was pulled again"


def test_missing_and_damaged_objects_are_named_and_repaired_by_another_push(
    s3: Proxy, here: Path, tmp_path: Path
) -> None:
    for harm, said in (
        ("fs.rm(path)", "it is missing, and the index lists it"),
        ("fs.pipe_file(path, b'short')", "has 5 bytes instead of 2000"),
        ("fs.pipe_file(path, bytes(2000))", "its SHA-256 differs from the index"),
    ):
        bucket(f"path = 'data/of/mine/toy-parity/prepared/public/3.bin'\n{harm}")
        status, output = Puller(tmp_path, URL).run()
        last = output.splitlines()[-1]
        assert status == 1 and last.startswith("toy-parity: ") and said in last and "3.bin" in last, output
        assert f"mlebench push -c toy-parity {URL} --replace --competitions-dir {TOYS}" in last
        assert not (tmp_path / "toy-parity/prepared").exists()
    options = ("--data-dir", here, "--competitions-dir", TOYS, "--replace")
    assert mlebench("push", URL, "-c", "toy-parity", *options).returncode == 0
    Puller(tmp_path, URL).succeed()
    assert_same(tmp_path, here)


def test_a_killed_pull_is_resumed(s3: Proxy, here: Path, tmp_path: Path) -> None:
    s3.bytes_per_second = 8_000_000
    puller = Puller(tmp_path, URL)
    parts = tmp_path / "toy-parity/.pulling/parts"
    for _ in range(2):
        before = largest(parts)
        with puller.start() as process:
            deadline = time.monotonic() + 120
            while largest(parts) <= before and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
        assert not (tmp_path / "toy-parity/prepared").exists()
    s3.bytes_per_second = None
    kept = largest(parts)
    if kept:  # a block had arrived before the last kill
        s3.requests.clear()
    puller.succeed()
    assert_same(tmp_path, here)
    assert not kept or s3.gets("/big.bin") < 3


def largest(folder: Path) -> int:
    try:
        return max((path.stat().st_size for path in folder.iterdir()), default=0)
    except FileNotFoundError:
        return 0


def test_concurrent_processes_pull_each_object_once(s3: Proxy, here: Path, tmp_path: Path) -> None:
    puller = Puller(tmp_path, URL)
    processes = [puller.start() for _ in range(4)]
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, outputs
    assert_same(tmp_path, here)
    for name in objects(here):
        assert s3.gets(f"/prepared/{name}") == (3 if name.endswith("big.bin") else 1), name
    assert sum("pulling" in output for output in outputs) == 1 and sum("waiting" in output for output in outputs) >= 1


def test_a_killed_push_is_resumed_without_existing_objects(s3: Proxy, here: Path, tmp_path: Path) -> None:
    url = "s3://data/other"
    s3.bytes_per_second = 2000  # slows the response to each upload
    command = ["push", url, "-c", "toy-parity", "--data-dir", str(here), "--competitions-dir", str(TOYS)]
    with subprocess.Popen([sys.executable, "-m", "pytest_mlebench.cli", *command], stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 120
        # With 16 concurrent uploads, some have been answered.
        while sum(method == "PUT" and "/prepared/" in path for method, path in list(s3.requests)) < 20:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.02)
        process.kill()
    s3.bytes_per_second = None
    status, output = Puller(tmp_path, url).run()
    assert status == 0 and "pulling" not in output, "an incomplete push was accepted as complete"
    done = mlebench(*command)
    found = re.search(r"\((\d+) files written\)", done.stderr)
    assert found is not None and 0 < int(found[1]) < SMALL + 6, done.stderr
    shutil.rmtree(tmp_path / "toy-parity")
    Puller(tmp_path, url).succeed()
    assert_same(tmp_path, here)


def test_a_missing_bucket_and_missing_keys_are_one_line_errors(
    s3: Proxy, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--data-dir", here, "--competitions-dir", TOYS)
    done = mlebench("push", "s3://nowhere/x", "-c", "toy-parity", *options)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 2, done.stderr
    assert "s3://nowhere/x/toy-parity/prepared.pushing.json cannot be written: does the bucket exist?" in done.stderr
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    done = mlebench("push", URL, "-c", "toy-parity", *options)
    assert done.returncode == 1 and "credentials" in done.stderr.splitlines()[-1], done.stderr


class Ranges(SimpleHTTPRequestHandler):
    """A web server for a folder, with support for ranges."""

    ranges = True

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        content, wanted = path.read_bytes(), self.headers.get("Range", "")
        begin = int(wanted.removeprefix("bytes=").partition("-")[0]) if wanted and self.ranges else 0
        self.send_response(206 if wanted and self.ranges else 200)
        self.send_header("Content-Length", str(len(content) - begin))
        if wanted and self.ranges:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        if path.suffix == ".gz":  # like some web servers
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(content[begin:])

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


class WithoutRanges(Ranges):
    ranges = False


class Quiet(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A connection was broken on purpose."""


@pytest.fixture(scope="module")
def pushed(here: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to which the toy's data was pushed."""
    folder = tmp_path_factory.mktemp("web")
    options = ("--data-dir", here, "--competitions-dir", TOYS)
    assert mlebench("push", f"file://{folder}", "-c", "toy-parity", *options).returncode == 0
    return folder


@pytest.mark.parametrize("handler", [Ranges, WithoutRanges])
def test_a_web_server_serves_what_was_pushed(handler: type[Ranges], pushed: Path, here: Path, tmp_path: Path) -> None:
    with Quiet(("127.0.0.1", 0), functools.partial(handler, directory=str(pushed))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with running_proxy(("127.0.0.1", server.server_port)) as proxy:
                proxy.cuts["/big.bin"] = 1
                proxy.cut_after = 12_000_000
                Puller(tmp_path, f"http://ada:s3cr3t@127.0.0.1:{proxy.port}").succeed()
                assert_same(tmp_path, here)
                assert proxy.gets("/big.bin") == 2
                state = (tmp_path / "toy-parity/state.json").read_text()
                assert f"http://***@127.0.0.1:{proxy.port}" in state and "s3cr3t" not in state
        finally:
            server.shutdown()
            thread.join()


def test_fsspec_is_not_imported_before_it_is_needed() -> None:
    program = (
        "import sys\n"
        "from pytest_mlebench import bench, options\n"
        "from pytest_mlebench.data import store, jobs\n"
        "from pytest_mlebench.cli import main\n"
        "sys.exit(bool({'fsspec', 's3fs', 'aiobotocore', 'aiohttp'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, env=dict(os.environ)).returncode == 0
