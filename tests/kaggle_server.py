"""A local server with the part of Kaggle's API that its client uses. Tests can script faults for single requests.

``KAGGLE_API_ENVIRONMENT=TEST`` makes the client use http://localhost:7777. The server takes a free port and acts as
the proxy for that address, so that any number of tests can run at once. Calls are ``POST /api/v1/<service>/<method>``
with JSON. Downloading an archive redirects to a signed link on another host, here http://127.0.0.1 with the server's
port, which must not receive the credentials.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import sys
import threading
import time
import zipfile
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

USERNAME, KEY, TOKEN = "ada", "0123456789abcdef0123456789abcdef", "KGAT_0123456789"
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Cut:
    """The connection ends after this share of the body."""

    share: float = 0.4


@dataclass(frozen=True)
class Stall:
    """Sending stops after this share of the body, but the connection stays open."""

    share: float = 0.4
    seconds: float = 60.0


@dataclass(frozen=True)
class Status:
    """A status other than 200."""

    code: int
    message: str = "scripted"
    retry_after: str | None = None


Fault = Cut | Stall | Status


@dataclass(kw_only=True)
class Served:
    """A competition on the server. It may be changed while the server runs."""

    archive: bytes
    files: Mapping[str, int]
    """Sizes in bytes, by name."""
    rules_accepted: bool = True
    ranges: bool = True
    """Whether the server supports the Range header."""
    pages: list[dict[str, Any]] = field(default_factory=list)
    scores: Sequence[object] | None = None
    """Scores of the private leaderboard, served in pages. None if it is not public."""
    leaderboard: bytes = b""
    """Scores in the leaderboard's download."""
    has_etag: bool = True
    last_modified: str | None = None
    google_hash: str | None = None

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.archive).hexdigest()}"'


@dataclass(frozen=True, kw_only=True)
class ServedNotebook:
    """A notebook or script. An empty source means that it has no code."""

    source: str
    kind: str = "notebook"
    language: str = "python"
    is_private: bool = False


@dataclass(kw_only=True)
class Request:
    """A request that the server received."""

    endpoint: str
    """The API's method (``DownloadDataFiles``), or ``archive`` for the signed link."""
    competition: str
    """The competition, or the notebook as ``author/slug``."""
    headers: Mapping[str, str]
    status: int = 0
    sent: int = 0
    """Bytes of the body that the server sent or tried to send."""

    @property
    def range(self) -> str | None:
        return self.headers.get("Range")


class KaggleServer:
    """The server: add competitions, script faults, and read ``requests``."""

    def __init__(self) -> None:
        self.competitions: dict[str, Served] = {}
        self.notebooks: dict[str, ServedNotebook] = {}
        """By ``author/slug``."""
        self.requests: list[Request] = []
        self.bytes_per_second: float | None = None
        """How fast archives are sent; None: as fast as it goes."""
        self.tokens = {TOKEN}
        self.keys = {USERNAME: KEY}
        self.closing = threading.Event()
        self.signatures: set[str] = set()
        self.port = 0
        self._faults: defaultdict[str, deque[Fault | None]] = defaultdict(deque)
        self._lock = threading.Lock()

    def add(self, id: str, files: Mapping[str, bytes]) -> Served:
        """Add a competition whose archive contains these files."""
        served = Served(archive=zip_bytes(files), files={name: len(content) for name, content in files.items()})
        self.competitions[id] = served
        return served

    def script(self, endpoint: str, *faults: Fault | None) -> None:
        """Set the faults of the next requests to an endpoint, in order. None is a normal response."""
        with self._lock:
            self._faults[endpoint].extend(faults)

    def next_fault(self, endpoint: str) -> Fault | None:
        with self._lock:
            return self._faults[endpoint].popleft() if self._faults[endpoint] else None

    def asked(self, endpoint: str) -> list[Request]:
        """The requests to an endpoint so far."""
        return [request for request in self.requests if request.endpoint == endpoint]


def zip_bytes(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def leaderboard_zip(name: str, scores: Iterable[object]) -> bytes:
    """A leaderboard's download in Kaggle's format: a zip archive with one CSV file."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["Rank", "TeamId", "TeamName", "LastSubmissionDate", "Score", "SubmissionCount"])
    for rank, score in enumerate(scores, 1):
        writer.writerow([rank, 1000 + rank, f'Team "{rank}", Ltd', "2024-01-01 00:00:00", score, 3])
    return zip_bytes({name: ("\ufeff" + text.getvalue()).encode()})


@contextmanager
def running_server() -> Iterator[KaggleServer]:
    """Run the server on a free port."""
    server = KaggleServer()

    class Handler(_Handler):
        kaggle = server

    http = _Server(("127.0.0.1", 0), Handler)
    server.port = http.server_port
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        http.shutdown()
        http.server_close()
        thread.join()


def client_environment(server: KaggleServer, home: Path) -> dict[str, str]:
    """Environment with which a process uses this server as a user with an API key, without other credentials."""
    return {
        "KAGGLE_API_ENVIRONMENT": "TEST",
        "KAGGLE_USERNAME": USERNAME,
        "KAGGLE_KEY": KEY,
        "KAGGLE_CONFIG_DIR": str(home / "kaggle-config"),
        "HOME": str(home),
        "http_proxy": f"http://127.0.0.1:{server.port}",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), OSError):  # clients may disconnect
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kaggle: KaggleServer
    request_log: Request

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        endpoint = self.path.rpartition("/")[2]
        competition = body.get("competitionName") or "/".join((body.get("userName", ""), body.get("kernelSlug", "")))
        fault = self._begin(endpoint, competition)
        if isinstance(fault, Status):
            return self._refuse(fault)
        if endpoint != "GenerateAccessToken" and not self._is_authorized():
            return self._refuse(Status(401, "Unauthenticated"))
        if endpoint == "GenerateAccessToken":
            return self._json({"token": TOKEN, "expiresIn": 3600, "userName": USERNAME}, fault)
        if endpoint == "GetKernel":
            return self._notebook(competition, fault)
        served = self.kaggle.competitions.get(competition)
        if served is None:
            return self._refuse(Status(404, "Competition not found"))
        match endpoint:
            case "DownloadDataFiles":
                return self._redirect(competition, served)
            case "DownloadLeaderboard":
                return self._send(200, served.leaderboard, {"Content-Type": "application/zip"}, fault)
            case "GetLeaderboard" if served.scores is not None and not body.get("overridePublic"):
                return self._json(_teams(served.scores, body), fault)
            case "ListDataFiles":
                return self._json(_files(served, body), fault)
            case "GetCompetitionDataFilesSummary":
                return self._json(_summary(served), fault)
            case "ListCompetitionPages":
                return self._json({"pages": served.pages}, fault)
        return self._refuse(Status(404, f"unknown method {endpoint}"))

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        id = url.path.removeprefix("/archives/").removesuffix(".zip")
        fault = self._begin("archive", id)
        signature = parse_qs(url.query).get("signature", [""])[0]
        if isinstance(fault, Status):
            return self._refuse(fault)
        if signature not in self.kaggle.signatures or "Authorization" in self.headers:
            return self._refuse(Status(400, "a signed link that is unknown, or came with other credentials"))
        return self._archive(self.kaggle.competitions[id], fault)

    def _begin(self, endpoint: str, competition: str) -> Fault | None:
        self.request_log = Request(endpoint=endpoint, competition=competition, headers=dict(self.headers.items()))
        self.kaggle.requests.append(self.request_log)
        return self.kaggle.next_fault(endpoint)

    def _is_authorized(self) -> bool:
        kind, _, value = self.headers.get("Authorization", "").partition(" ")
        if kind == "Bearer":
            return value in self.kaggle.tokens
        username, _, key = base64.b64decode(value).decode().partition(":") if kind == "Basic" else ("", "", "")
        return bool(key) and self.kaggle.keys.get(username) == key

    def _notebook(self, name: str, fault: Fault | None) -> None:
        served = self.kaggle.notebooks.get(name)
        if served is None:
            return self._refuse(Status(404, "Kernel not found"))
        if served.is_private:
            return self._refuse(Status(403, "Permission 'kernels.get' was denied"))
        author, _, slug = name.partition("/")
        about = {"slug": slug, "language": served.language, "kernelType": served.kind}
        metadata = {"id": 1, "ref": name, "title": slug, "author": author, "totalVotes": 7, **about}
        return self._json({"metadata": metadata, "blob": {"source": served.source, **about}}, fault)

    def _redirect(self, id: str, served: Served) -> None:
        if not served.rules_accepted:
            return self._refuse(
                Status(403, "You must accept this competition's rules before you'll be able to download files.")
            )
        signature = f"{len(self.kaggle.signatures)}-{id}"
        self.kaggle.signatures.add(signature)
        link = f"http://127.0.0.1:{self.kaggle.port}/archives/{id}.zip?signature={signature}"
        return self._send(302, b"", {"Location": link})

    def _archive(self, served: Served, fault: Fault | None) -> None:
        headers = {
            "Content-Type": "application/zip",
            "ETag": served.etag if served.has_etag else None,
            "Last-Modified": served.last_modified,
            "x-goog-hash": served.google_hash,
        }
        size = len(served.archive)
        asked = self.headers.get("Range", "").removeprefix("bytes=")
        condition = self.headers.get("If-Range")
        changed = condition is not None and condition not in (headers["ETag"], headers["Last-Modified"])
        if not asked or changed or not served.ranges:
            return self._send(200, served.archive, headers, fault)
        first, _, last = asked.partition("-")
        start, end = int(first), min(int(last or size), size - 1)
        if start >= size:
            return self._send(416, b"", {"Content-Range": f"bytes */{size}"})
        headers["Content-Range"] = f"bytes {start}-{end}/{size}"
        return self._send(206, served.archive[start : end + 1], headers, fault)

    def _json(self, value: Any, fault: Fault | None = None) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json; charset=utf-8"}, fault)

    def _refuse(self, status: Status) -> None:
        body = json.dumps({"code": status.code, "message": status.message}).encode()
        headers: dict[str, str | None] = {"Content-Type": "application/json"}
        if status.retry_after is not None:
            headers["Retry-After"] = status.retry_after
        self._send(status.code, body, headers)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str | None], fault: Fault | None = None) -> None:
        self.request_log.status = status
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        share = fault.share if isinstance(fault, Cut | Stall) else 1.0
        self._write(body[: int(len(body) * share)])
        if isinstance(fault, Stall):
            self.kaggle.closing.wait(fault.seconds)
        if isinstance(fault, Cut | Stall):
            self.close_connection = True

    def _write(self, body: bytes) -> None:
        try:
            for start in range(0, len(body), _BLOCK):
                block = body[start : start + _BLOCK]
                self.request_log.sent += len(block)  # first: the client may continue before this thread does
                self.wfile.write(block)
                if rate := self.kaggle.bytes_per_second:
                    time.sleep(len(block) / rate)
        except OSError:  # the client has disconnected
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


def _files(served: Served, body: Mapping[str, Any]) -> dict[str, Any]:
    return _page("files", [{"name": name, "totalBytes": size} for name, size in served.files.items()], body)


def _teams(scores: Sequence[object], body: Mapping[str, Any]) -> dict[str, Any]:
    teams = [
        {"teamId": number, "teamName": f"Team {number}", "submissionDate": "2024-01-01T00:00:00Z", "score": str(score)}
        for number, score in enumerate(scores, 1)
    ]
    return _page("submissions", teams, body)


def _page(name: str, entries: Sequence[Any], body: Mapping[str, Any]) -> dict[str, Any]:
    start, size = int(body.get("pageToken") or 0), min(int(body.get("pageSize") or 20), 200)
    more = {"nextPageToken": str(start + size)} if start + size < len(entries) else {}
    return {name: entries[start : start + size], **more}


def _summary(served: Served) -> dict[str, Any]:
    kinds: defaultdict[str, list[int]] = defaultdict(list)
    for name, size in served.files.items():
        kinds[Path(name).suffix].append(size)
    types = [{"extension": kind, "fileCount": len(sizes), "totalSize": sum(sizes)} for kind, sizes in kinds.items()]
    return {"fileSummaryInfo": {"totalFileCount": len(served.files), "fileTypes": types}}
