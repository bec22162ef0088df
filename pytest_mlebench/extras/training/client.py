"""A client of ``mlebench serve-episodes``. It needs only this package.

>>> client = EpisodeClient("http://127.0.0.1:7576", "the token that the server printed")
>>> with client.episode("spaceship-titanic") as episode:  # doctest: +SKIP
...     observation = episode.reset(seed=0)
...     step = episode.step("ls $DATA_DIR")
...     report = episode.submit()
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from types import MappingProxyType
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlsplit

from pytest_mlebench.errors import CompetitionError, DataError, MLEBenchError, SandboxError, UsageError
from pytest_mlebench.extras.training.channel import EpisodeOver
from pytest_mlebench.extras.training.observation import CommandResult, Observation
from pytest_mlebench.grading.rewards import Measured
from pytest_mlebench.io.values import loads, parse
from pytest_mlebench.records.outcome import Report

_Answer = TypeVar("_Answer")
_ERRORS: Mapping[str, type[MLEBenchError]] = {
    kind.__name__: kind for kind in (CompetitionError, DataError, EpisodeOver, UsageError)
}


class EpisodeClient:
    """Creates episodes on a server. Raises the errors of ``Bench.episode``, SandboxError if the server does not
    answer, and UsageError if ``url`` is not the address of a server."""

    def __init__(self, url: str, token: str) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or 80
        except ValueError:
            host = None
        if not host or parts.scheme != "http":
            raise UsageError(f"{url!r} is not the address of a server, such as http://127.0.0.1:7576")
        self._host, self._port, self._token = host, port, token

    def health(self) -> Mapping[str, Any]:
        """``status``, ``version``, and the number of open ``episodes``."""
        return self.call("GET", "/health")

    def episode(self, competition: str, **options: Any) -> RemoteEpisode:
        """Create an episode. ``options`` are those of ``Bench.episode``; ``reward`` and ``group`` must be names."""
        answer = self.call("POST", "/episodes", competition=competition, options=options)
        return RemoteEpisode(self, str(answer.get("id")))

    def call(self, method: str, path: str, /, **body: Any) -> Mapping[str, Any]:
        """Send a request, and return the answer. Raises the error that the server names."""
        connection = HTTPConnection(self._host, self._port)
        try:
            connection.request(method, path, json.dumps(body), {"Authorization": f"Bearer {self._token}"})
            answer = loads(connection.getresponse().read())
        except (OSError, HTTPException, ValueError) as error:
            raise SandboxError(f"http://{self._host}:{self._port} did not answer: {error}") from error
        finally:
            connection.close()
        if not isinstance(answer, dict):
            raise SandboxError(f"http://{self._host}:{self._port} does not serve episodes")
        reported = answer.get("error")
        if isinstance(reported, dict) and "message" in reported:
            raise _ERRORS.get(str(reported.get("type")), SandboxError)(str(reported["message"]))
        return answer


class RemoteEpisode:
    """An ``Episode`` on a server, with the same methods."""

    def __init__(self, client: EpisodeClient, id: str) -> None:
        self._client, self._path = client, f"/episodes/{quote(id, safe='')}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(self, seed: int | None = None) -> Observation:
        return _parsed(Observation, self._call("reset", seed=seed))

    def step(self, command: str, *, timeout: float | None = None) -> CommandResult:
        step = _parsed(CommandResult, self._call("step", command=command, timeout=timeout))
        info = {**step.info, "measured": _parsed(Measured, step.info.get("measured"))}
        return replace(step, info=MappingProxyType(info))

    def read_file(self, path: str) -> bytes:
        return base64.b64decode(str(self._call("read", path=path).get("data")))

    def write_file(self, path: str, data: bytes | str) -> None:
        content = data.encode() if isinstance(data, str) else data
        self._call("write", path=path, data=base64.b64encode(content).decode())

    def submit(self) -> Report:
        return _parsed(Report, self._call("submit"))

    def close(self) -> None:
        """End the episode, and remove it from the server."""
        self._client.call("DELETE", self._path)

    def _call(self, name: str, /, **body: Any) -> Mapping[str, Any]:
        return self._client.call("POST", f"{self._path}/{name}", **body)


def _parsed(kind: type[_Answer], answer: Any) -> _Answer:
    try:
        return parse(kind, answer)
    except ValueError as error:
        raise SandboxError(f"the server's answer is an invalid {kind.__name__}: {error}") from error
