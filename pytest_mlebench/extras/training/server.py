"""``mlebench serve-episodes``: episodes over HTTP on this machine, for trainers in other processes and languages.

Requests and answers are JSON (see ``docs/training.md`` and ``client``). The verbs and ``/health`` are as in OpenEnv.
Episodes have ids, since trainers in the style of verifiers play many at once.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar, cast

from pytest_mlebench import __version__
from pytest_mlebench.bench import Bench
from pytest_mlebench.errors import MLEBenchError, UsageError, reason
from pytest_mlebench.extras.training.channel import EpisodeOver
from pytest_mlebench.extras.training.episode import Episode, agent_of_episodes, bench_of_episodes
from pytest_mlebench.extras.training.options import EpisodeOptions
from pytest_mlebench.extras.training.recording import EpisodeRecording
from pytest_mlebench.extras.training.running import MAX_FILE
from pytest_mlebench.io.values import json_text, loads, parse

MAX_BODY = 2 * MAX_FILE
"""Maximum bytes of a request: a file in Base64, and the rest of the body."""
_READ_SECONDS = 60
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_Request = TypeVar("_Request")


class _Refused(UsageError):
    """A request that is answered with an error status and a text."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class _Create:
    competition: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Reset:
    seed: int | None = None

    def answer(self, episode: Episode) -> dict[str, Any]:
        return dict(vars(episode.reset(self.seed)))


@dataclass(frozen=True)
class _Command:
    command: str
    timeout: float | None = None

    def answer(self, episode: Episode) -> dict[str, Any]:
        step = vars(episode.step(self.command, timeout=self.timeout))
        return {**step, "info": {**step["info"], "measured": asdict(step["info"]["measured"])}}


@dataclass(frozen=True)
class _Read:
    path: str

    def answer(self, episode: Episode) -> dict[str, Any]:
        return {"data": base64.b64encode(episode.read_file(self.path)).decode()}


@dataclass(frozen=True)
class _Write:
    path: str
    data: str

    def answer(self, episode: Episode) -> dict[str, Any]:
        try:
            data = base64.b64decode(self.data, validate=True)
        except ValueError as error:
            raise UsageError("data: it is not Base64") from error
        episode.write_file(self.path, data)
        return {}


@dataclass(frozen=True)
class _Submit:
    def answer(self, episode: Episode) -> dict[str, Any]:
        return episode.submit().to_json()


_CALLS: Mapping[str, type[Any]] = {
    "reset": _Reset, "step": _Command, "read": _Read, "write": _Write, "submit": _Submit
}  # fmt: skip


class _Open:
    """An open episode. Requests for it are executed one after the other."""

    def __init__(self, episode: Episode) -> None:
        self.episode, self.lock, self.used = episode, threading.Lock(), time.monotonic()


class EpisodeServer:
    """Serves episodes of one bench to clients that have ``token``. ``serve`` runs until ``stop``, or an interrupt.

    At most ``max_episodes`` are open at once; one that is not used for ``idle`` seconds is closed.
    Folders and sandbox are prepared first. Raises SandboxError, and UsageError if the port is in use or a folder cannot
    be created.
    """

    def __init__(
        self, bench: Bench, *, port: int = 0, token: str = "", max_episodes: int = 8, idle: float = 3600.0
    ) -> None:
        self.token = token or secrets.token_urlsafe(24)
        self._bench, self._max_episodes, self._idle = bench, max_episodes, idle
        self._open: dict[str, _Open] = {}
        self._recordings: dict[str, EpisodeRecording] = {}
        self._lock = threading.Lock()
        for option, folder in (("--data-dir", bench.data_dir), ("--runs-dir", bench.settings.runs_dir)):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                text = f"{option}: {folder} cannot be written: {reason(error)}; choose another folder"
                raise UsageError(text) from error
        bench_of_episodes(bench).ready_sandbox(agent_of_episodes())
        try:
            self._http = _Server(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise UsageError(f"cannot listen on 127.0.0.1:{port}: {error.strerror}; choose another --port") from error
        self._http.episodes = self
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def serve(self) -> None:
        """Answer until ``stop`` is called, then close all episodes."""
        try:
            self._http.serve_forever()
        finally:
            self._http.server_close()
            open_, self._open = self._open, {}
            for one in open_.values():  # without its lock: a step that still runs ends with its sandbox
                one.episode.close()
            for recording in self._recordings.values():
                recording.close()

    def stop(self) -> None:
        """End ``serve``, from another thread."""
        self._http.shutdown()

    def close_idle(self) -> None:
        """Close the episodes that have not been used for ``idle`` seconds."""
        now = time.monotonic()
        for id, open_ in list(self._open.items()):
            if now - open_.used > self._idle and not open_.lock.locked():  # in a thread, not to block the server
                threading.Thread(target=self._close, args=(id,), daemon=True).start()

    def answer(self, method: str, path: str, body: Any) -> dict[str, Any]:
        """Return the answer to a request. Raises _Refused, and the errors of episodes."""
        match method, path.strip("/").split("/"):
            case "GET", ["health"]:
                return {"status": "ok", "version": __version__, "episodes": len(self._open)}
            case "POST", ["episodes"]:
                return {"id": self._create(_parsed(_Create, body))}
            case "DELETE", ["episodes", id]:
                self._close(id)
                return {}
            case "POST", ["episodes", id, call] if call in _CALLS:
                request, open_ = _parsed(_CALLS[call], body), self._found(id)
                with open_.lock:
                    self._found(id)  # it may have been closed meanwhile
                    try:
                        return cast(dict[str, Any], request.answer(open_.episode))
                    finally:
                        open_.used = time.monotonic()
        raise _Refused(HTTPStatus.NOT_FOUND, f"there is no {method} {path[:100]}")

    def _create(self, request: _Create) -> str:
        known = (*EpisodeOptions.__dataclass_fields__, "group")
        if unknown := sorted(request.options.keys() - set(known)):
            raise UsageError(f"episode has no option {', '.join(unknown)} here; it has {', '.join(known)}")
        options = dict(request.options)
        recording = self._recording(options.pop("group", ""))
        episode = Episode(self._bench, request.competition, EpisodeOptions(**options), recording)
        with self._lock:
            if len(self._open) >= self._max_episodes:
                text = f"{len(self._open)} episodes are open, as many as --max-episodes allows: close one"
                raise _Refused(HTTPStatus.TOO_MANY_REQUESTS, text)
            id = secrets.token_hex(8)
            self._open[id] = _Open(episode)
        return id

    def _recording(self, group: object) -> EpisodeRecording | None:
        """The run group of this name below ``--runs-dir``, which all episodes that name it share."""
        if group == "":
            return None
        if not isinstance(group, str) or not _GROUP.fullmatch(group):
            raise UsageError(f"group: {group!r:.100} is not a name of up to 100 letters, digits, and . _ -")
        with self._lock:
            return self._recordings.setdefault(group, EpisodeRecording(self._bench.settings.runs_dir / group))

    def _found(self, id: str) -> _Open:
        try:
            return self._open[id]
        except KeyError:
            raise _Refused(HTTPStatus.NOT_FOUND, f"there is no episode {id[:40]!r}; it may have been closed") from None

    def _close(self, id: str) -> None:
        open_ = self._open.pop(id, None)
        if open_ is not None:
            with open_.lock:
                open_.episode.close()


def _parsed(kind: type[_Request], body: Any) -> _Request:
    try:
        return parse(kind, body)
    except ValueError as error:
        raise _Refused(HTTPStatus.BAD_REQUEST, f"the body: {error}") from error


class _Server(ThreadingHTTPServer):
    episodes: EpisodeServer

    def service_actions(self) -> None:  # called twice a second
        self.episodes.close_idle()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _READ_SECONDS

    def do_GET(self) -> None:
        try:
            status, answer = HTTPStatus.OK, self.server.episodes.answer(self.command, self.path, self._body())
        except Exception as error:
            status, kind = _failure(error)
            answer = {"error": {"type": kind, "message": str(error)}}
        data = json_text(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_DELETE = do_GET

    def _body(self) -> Any:
        given = self.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, f"Bearer {self.server.episodes.token}".encode()):
            raise _Refused(
                HTTPStatus.UNAUTHORIZED, "the header Authorization must be `Bearer TOKEN`, with this server's token"
            )
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdigit()):
            raise _Refused(HTTPStatus.BAD_REQUEST, "the header Content-Length is not a number")
        if len(length) > 12 or int(length) > MAX_BODY:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {MAX_BODY:,} bytes")
        try:
            return loads(self.rfile.read(int(length)) or b"{}")
        except ValueError as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}") from error

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


def _failure(error: Exception) -> tuple[HTTPStatus, str]:
    """The status of the answer, and the kind of error that the client raises."""
    if isinstance(error, UsageError):
        return getattr(error, "status", HTTPStatus.BAD_REQUEST), "UsageError"
    if isinstance(error, EpisodeOver):
        return HTTPStatus.CONFLICT, "EpisodeOver"
    if isinstance(error, MLEBenchError):
        return HTTPStatus.INTERNAL_SERVER_ERROR, type(error).__name__
    traceback.print_exception(error, file=sys.stderr)
    return HTTPStatus.INTERNAL_SERVER_ERROR, "SandboxError"
