"""Sends traces to any server that accepts OTLP over HTTP: a run is a trace (see ``otlp_spans``).

Spans are sent as binary protobuf, in batches below a collector's usual limit of 4 MiB. A batch that a server refuses as
too large is resent in halves. After a transient error, spans are resent with the same ids, so none is recorded twice.
"""

from __future__ import annotations

import logging
import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes, urlsplit

import urllib3

from pytest_mlebench._version import __version__
from pytest_mlebench.data.preparing import shown_url
from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.interop.contract import ExportOption, Request, third_party
from pytest_mlebench.extras.interop.facts import cached, cleaner
from pytest_mlebench.extras.interop.otlp_spans import SCHEMA, VERSION, RunSpans
from pytest_mlebench.io.files import secret_lines
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.records.group import RunGroup

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

logger = logging.getLogger("pytest_mlebench")

SUMMARY = "traces to an OpenTelemetry collector, MLflow or another server that accepts OTLP over HTTP"
OPTIONS = (
    ExportOption("--endpoint", "URL", "the server; /v1/traces is added if the URL does not end with it"),
    ExportOption("--headers", "FILE", "file of `Name: value` lines for each request, readable only by you"),
    ExportOption("--otlp-content", "", "also send messages, and arguments and results of tools"),
)
PATH = "/v1/traces"
_SPANS, _BYTES = 512, 1 << 20
"""Maximum of spans and bytes in one request. A larger span is sent alone."""
_ATTEMPTS, _MAX_WAIT = 5, 30.0
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*[:=]\s*(.*)")
_RETRIED = (408, 429, *range(500, 600))


class SendError(Exception):
    """A server did not accept spans; the text has the reason. ``is_permanent`` means that a retry would not help."""

    def __init__(self, why: str, *, is_permanent: bool = False) -> None:
        super().__init__(why)
        self.is_permanent = is_permanent


def export(group: RunGroup, request: Request) -> Iterator[str]:
    """Send each run; raises UsageError if the server does not accept one."""
    endpoint = request.required("--endpoint")
    sender = Sender(endpoint, headers_of(Path(request.options["--headers"])) if "--headers" in request.options else {})
    spans = RunSpans(cached(cleaner()), content="--otlp-content" in request.options)
    sent, total = 0, 0
    try:
        for record in group.records:
            total += sender.send(spans.of(record, group.folder / record.run_id))
            sent += 1
    except SendError as error:
        hint = "" if error.is_permanent else "; the same command sends them again, and no span is recorded twice"
        raise UsageError(
            f"{sender.shown}: {error}; {sent} of {pluralize(len(group.records), 'run')} were sent{hint}"
        ) from error
    finally:
        sender.close()
    yield f"{sender.shown}: {pluralize(sent, 'run')} of {group.name}, {pluralize(total, 'span')}"


def headers_of(file: Path) -> dict[str, str]:
    """Read the headers in a file, which usually holds a key. Raises UsageError."""
    found = {}
    for number, line in secret_lines(file):
        if (match := _HEADER.fullmatch(line)) is None or not match[2].isascii():
            raise UsageError(f"{file}, line {number}: must be `Name: value`")
        found[match[1]] = match[2]
    return found


def _traces_url(text: str, option: str) -> str:
    """The URL that spans are sent to. Raises UsageError with the option's name."""
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
    except ValueError as error:  # its message may contain the password
        raise UsageError(f"{option}: {shown_url(text)!r} is not a URL: its host or port is invalid") from error
    if url.scheme not in ("http", "https") or not host or url.fragment:
        raise UsageError(
            f"{option}: {shown_url(text)!r} is not a URL of http:// or https://, e.g. http://localhost:4318"
        )
    path = url.path.rstrip("/")
    return url._replace(path=path if path.endswith(PATH) else path + PATH).geturl()


class Sender:
    """Sends spans, from one thread. Raises UsageError if the URL is invalid, or the extra's package is not installed.

    ``send`` gives up after ``attempts`` attempts at a request. ``wait`` (``time.sleep``) waits between them.
    """

    def __init__(
        self,
        endpoint: str,
        headers: Mapping[str, str],
        *,
        option: str = "--endpoint",
        attempts: int = _ATTEMPTS,
        seconds: float = 30.0,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self._url = _traces_url(endpoint, option)
        self.shown = shown_url(self._url)
        self._service: Any = third_party("opentelemetry.proto.collector.trace.v1.trace_service_pb2", "otlp")
        self._trace: Any = third_party("opentelemetry.proto.trace.v1.trace_pb2", "otlp")
        login = unquote_to_bytes(urlsplit(self._url).netloc.rpartition("@")[0])
        self._headers = {
            "User-Agent": f"pytest-mlebench/{__version__}",
            **({"Authorization": f"Basic {b64encode(login).decode()}"} if login else {}),
            **headers,
            "Content-Type": "application/x-protobuf",
        }
        self._attempts, self.wait = attempts, wait or time.sleep
        timeout = urllib3.Timeout(connect=min(5.0, seconds), read=seconds)
        self._pool = urllib3.PoolManager(retries=False, timeout=timeout)
        self.rejected = 0
        """Number of spans that the server rejected although it accepted the request."""

    def send(self, spans: Iterable[Span]) -> int:
        """Send spans in batches, and return their number. Raises SendError."""
        batch: list[Span] = []
        size = total = 0
        for span in spans:
            length = span.ByteSize()
            if batch and (size + length > _BYTES or len(batch) >= _SPANS):
                total += self._batch(batch)
                batch, size = [], 0
            batch.append(span)
            size += length
        return total + (self._batch(batch) if batch else 0)

    def close(self) -> None:
        self._pool.clear()

    def _batch(self, spans: list[Span]) -> int:
        status, answer = self._post(self._packed(spans))
        if status == 413 and len(spans) > 1:
            half = len(spans) // 2
            return self._batch(spans[:half]) + self._batch(spans[half:])
        if not 200 <= status < 300:
            why = "a span is too large for it (413)" if status == 413 else f"it answered {status}"
            raise SendError(f"{why}{_excerpt(answer)}", is_permanent=True)
        self._count_rejected(answer)
        return len(spans)

    def _packed(self, spans: list[Span]) -> bytes:
        request = self._service.ExportTraceServiceRequest()
        group = request.resource_spans.add()
        for key, value in (("service.name", "mlebench"), ("service.version", __version__)):
            group.resource.attributes.add(key=key).value.string_value = value
        scope = group.scope_spans.add(schema_url=SCHEMA)
        scope.scope.name, scope.scope.version = "pytest_mlebench", __version__
        scope.scope.attributes.add(key="mlebench.gen_ai_conventions").value.string_value = VERSION
        scope.spans.extend(spans)
        content: bytes = request.SerializeToString()
        return content

    def _post(self, content: bytes) -> tuple[int, bytes]:
        """Send a request, with retries. Returns the status and body of the answer. Raises SendError."""
        why, pause = "", 0.5
        for attempt in range(self._attempts):
            if attempt:
                self.wait(pause)
                pause = min(2 * pause, _MAX_WAIT)
            try:
                answer = self._pool.request(
                    "POST", self._url, body=content, headers=self._headers, redirect=False, preload_content=False
                )
                try:
                    body = answer.read(1 << 16)
                finally:
                    answer.close()
            except (urllib3.exceptions.HTTPError, OSError) as error:
                why = f"it cannot be reached: {_short_reason(error)}"
                continue
            if answer.status not in _RETRIED:
                return answer.status, body
            why = f"it answered {answer.status}{_excerpt(body)}"
            after = answer.headers.get("Retry-After", "")
            pause = min(float(after), _MAX_WAIT) if re.fullmatch(r"\d{1,6}", after) else pause
        raise SendError(why)

    def _count_rejected(self, answer: bytes) -> None:
        found = self._service.ExportTraceServiceResponse()
        try:
            found.ParseFromString(answer)
        except Exception:  # protobuf's implementations raise different errors; servers may answer in JSON
            return
        if found.partial_success.rejected_spans > 0:
            self.rejected += found.partial_success.rejected_spans
            logger.warning(
                "warning: %s rejected %d spans%s",
                self.shown,
                found.partial_success.rejected_spans,
                _excerpt(found.partial_success.error_message.encode()),
            )


def _excerpt(answer: bytes) -> str:
    """The beginning of a server's answer, if it is text."""
    text = " ".join(answer[:300].decode("utf-8", "replace").split())
    return f": {text}" if text and text.isprintable() and not text.startswith("<") else ""


def _short_reason(error: Exception) -> str:
    """An error of urllib3 in a few words, without objects and URLs."""
    refused = isinstance(error, urllib3.exceptions.NewConnectionError)  # urllib3 derives it from TimeoutError
    if isinstance(error, urllib3.exceptions.TimeoutError) and not refused:
        return "it did not answer in time"
    text = str(error.__cause__ or error).rpartition(": ")[2]
    return text if len(text) < 200 else type(error).__name__
