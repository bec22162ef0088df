"""Traces for any program that takes OTLP over HTTP: a run is a trace (see ``otlp_spans``).

Spans go in binary protobuf, in batches that a collector's usual limit of 4 MiB takes. What a server refuses as too
large is sent again in halves. What it cannot take now is tried again with the same ids, so nothing is recorded twice.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import urllib3

from pytest_mlebench._version import __version__
from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.interop.contract import ExportOption, Request, third_party
from pytest_mlebench.extras.interop.facts import cached, cleaner, shown
from pytest_mlebench.extras.interop.otlp_spans import SCHEMA, VERSION, RunSpans
from pytest_mlebench.io.files import secret_lines
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.records.group import RunGroup

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

logger = logging.getLogger("pytest_mlebench")

SUMMARY = "traces to an OpenTelemetry collector, MLflow or another server that takes OTLP over HTTP"
OPTIONS = (
    ExportOption("--endpoint", "URL", "the server; /v1/traces is added where the URL does not end with it"),
    ExportOption("--headers", "FILE", "file of `Name: value` lines for each request, which only you can read"),
    ExportOption("--otlp-content", "", "send what was said, too: messages, arguments and results of tools"),
)
PATH = "/v1/traces"
_SPANS, _BYTES = 512, 1 << 20
"""The most in one request; one span that is larger goes alone."""
_ATTEMPTS, _LONGEST_WAIT = 5, 30.0
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*[:=]\s*(.*)")
_LATER = (408, 429, *range(500, 600))


class NotTaken(Exception):
    """A server did not take spans; the text says why. ``for_good``: it would not take them later either."""

    def __init__(self, why: str, *, for_good: bool = False) -> None:
        super().__init__(why)
        self.for_good = for_good


def export(group: RunGroup, request: Request) -> Iterator[str]:
    """Send each run; raises UsageError where the server does not take one."""
    endpoint = request.required("--endpoint")
    sender = Sender(endpoint, headers_of(Path(request.options["--headers"])) if "--headers" in request.options else {})
    spans = RunSpans(cached(cleaner()), content="--otlp-content" in request.options)
    sent, total = 0, 0
    try:
        for record in group.records:
            total += sender.send(spans.of(record, group.folder / record.run_id))
            sent += 1
    except NotTaken as error:
        again = "" if error.for_good else "; the same command sends them again, and no span is recorded twice"
        raise UsageError(
            f"{sender.shown}: {error}; {sent} of {pluralize(len(group.records), 'run')} were sent{again}"
        ) from error
    finally:
        sender.close()
    yield f"{sender.shown}: {pluralize(sent, 'run')} of {group.name}, {pluralize(total, 'span')}"


def headers_of(file: Path) -> dict[str, str]:
    """The headers in a file, which holds a key as a rule. Raises UsageError."""
    found = {}
    for number, line in secret_lines(file):
        if (match := _HEADER.fullmatch(line)) is None or not match[2].isascii():
            raise UsageError(f"{file}, line {number}: must be `Name: value`")
        found[match[1]] = match[2]
    return found


def _traces_url(text: str, option: str) -> str:
    """The URL that spans are sent to. Raises UsageError that names the option."""
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
    except ValueError as error:
        raise UsageError(f"{option}: {shown(text)!r} is not a URL: {error}") from error
    if url.scheme not in ("http", "https") or not host or url.fragment:
        raise UsageError(f"{option}: {shown(text)!r} is not a URL of http:// or https://, as http://localhost:4318")
    path = url.path.rstrip("/")
    return url._replace(path=path if path.endswith(PATH) else path + PATH).geturl()


class Sender:
    """Sends spans; to be used by one thread. Raises UsageError for a wrong URL, or without the package of the extra.

    ``attempts`` is how often a request is made before ``send`` gives up, ``wait`` (``time.sleep``) waits between them.
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
        self.shown = shown(self._url)
        self._service: Any = third_party("opentelemetry.proto.collector.trace.v1.trace_service_pb2", "otlp")
        self._trace: Any = third_party("opentelemetry.proto.trace.v1.trace_pb2", "otlp")
        user = urllib3.util.make_headers(basic_auth=urlsplit(self._url).netloc.rpartition("@")[0] or None)
        self._headers = {
            "User-Agent": f"pytest-mlebench/{__version__}",
            **user,
            **headers,
            "Content-Type": "application/x-protobuf",
        }
        self._attempts, self.wait = attempts, wait or time.sleep
        timeout = urllib3.Timeout(connect=min(5.0, seconds), read=seconds)
        self._pool = urllib3.PoolManager(retries=False, timeout=timeout)
        self.rejected = 0
        """Spans that the server took no part of, though it took their request."""

    def send(self, spans: Iterable[Span]) -> int:
        """Send spans in batches, and return their number. Raises NotTaken."""
        batch: list[Span] = []
        size = total = 0
        for span in spans:
            own = span.ByteSize()
            if batch and (size + own > _BYTES or len(batch) >= _SPANS):
                total += self._batch(batch)
                batch, size = [], 0
            batch.append(span)
            size += own
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
            raise NotTaken(f"{why}{_said(answer)}", for_good=True)
        self._count_rejected(answer)
        return len(spans)

    def _packed(self, spans: list[Span]) -> bytes:
        request = self._service.ExportTraceServiceRequest()
        own = request.resource_spans.add()
        for key, value in (("service.name", "mlebench"), ("service.version", __version__)):
            own.resource.attributes.add(key=key).value.string_value = value
        scoped = own.scope_spans.add(schema_url=SCHEMA)
        scoped.scope.name, scoped.scope.version = "pytest_mlebench", __version__
        scoped.scope.attributes.add(key="mlebench.gen_ai_conventions").value.string_value = VERSION
        scoped.spans.extend(spans)
        content: bytes = request.SerializeToString()
        return content

    def _post(self, content: bytes) -> tuple[int, bytes]:
        """Status and body of an answer that is no reason to try again. Raises NotTaken."""
        why, pause = "", 0.5
        for attempt in range(self._attempts):
            if attempt:
                self.wait(pause)
                pause = min(2 * pause, _LONGEST_WAIT)
            try:
                answer = self._pool.request(
                    "POST", self._url, body=content, headers=self._headers, redirect=False, preload_content=False
                )
                try:
                    body = answer.read(1 << 16)
                finally:
                    answer.close()
            except (urllib3.exceptions.HTTPError, OSError) as error:
                why = f"it cannot be reached: {_why(error)}"
                continue
            if answer.status not in _LATER:
                return answer.status, body
            why = f"it answered {answer.status}{_said(body)}"
            after = answer.headers.get("Retry-After", "")
            pause = min(float(after), _LONGEST_WAIT) if re.fullmatch(r"\d{1,6}", after) else pause
        raise NotTaken(why)

    def _count_rejected(self, answer: bytes) -> None:
        found = self._service.ExportTraceServiceResponse()
        try:
            found.ParseFromString(answer)
        except Exception:  # its error has another name in each implementation of protobuf; servers may answer in JSON
            return
        if found.partial_success.rejected_spans > 0:
            self.rejected += found.partial_success.rejected_spans
            logger.warning(
                "warning: %s rejected %d spans%s",
                self.shown,
                found.partial_success.rejected_spans,
                _said(found.partial_success.error_message.encode()),
            )


def _said(answer: bytes) -> str:
    """What a server said, if this is text: a few words of it."""
    text = " ".join(answer[:300].decode("utf-8", "replace").split())
    return f": {text}" if text and text.isprintable() and not text.startswith("<") else ""


def _why(error: Exception) -> str:
    """An error of urllib3 in a few words, without its objects and URLs."""
    refused = isinstance(error, urllib3.exceptions.NewConnectionError)  # which is a TimeoutError to urllib3
    if isinstance(error, urllib3.exceptions.TimeoutError) and not refused:
        return "it did not answer in time"
    text = str(error.__cause__ or error).rpartition(": ")[2]
    return text if len(text) < 200 else type(error).__name__
