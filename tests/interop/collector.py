"""A local trace collector that can simulate failures."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

Answer = int | str
"""A status, ``drop`` (the connection), ``lose`` (accept the spans, then drop the connection), or ``stall``."""


class Collector:
    """Records requests. Each of ``answers`` is used once, then all requests succeed; a string names a failure."""

    def __init__(self, answers: Sequence[Answer] = (), *, max_bytes: int | None = None) -> None:
        self.answers = list(answers)
        self.always: Answer | None = None
        self.max_bytes = max_bytes
        self.requests: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.taken: list[ScopeSpans] = []
        self.seen = threading.Event()
        """Set once a request was received."""
        self.released = threading.Event()
        """Ends all stalls."""
        self.url = ""

    def take(self, body: bytes, headers: dict[str, str]) -> Answer:
        self.requests.append(body)
        self.headers.append(headers)
        self.seen.set()
        answer = self.always or (self.answers.pop(0) if self.answers else 200)
        if answer == 200 and self.max_bytes is not None and len(body) > self.max_bytes:
            answer = 413
        if answer in (200, "lose"):
            request = ExportTraceServiceRequest.FromString(body)
            self.taken += [scoped for own in request.resource_spans for scoped in own.scope_spans]
        return answer

    @property
    def spans(self) -> list[Span]:
        return [span for scoped in self.taken for span in scoped.spans]

    @property
    def by_id(self) -> dict[tuple[bytes, bytes], Span]:
        """Spans as a backend that deduplicates by id stores them."""
        return {(span.trace_id, span.span_id): span for span in self.spans}

    @property
    def names(self) -> Counter[str]:
        return Counter(span.name for span in self.by_id.values())


def attributes(span: Any) -> dict[str, Any]:
    """The attributes of a span or an event as plain values."""

    def value(own: Any) -> Any:
        kind = own.WhichOneof("value")
        return [value(item) for item in own.array_value.values] if kind == "array_value" else getattr(own, kind)

    return {own.key: value(own.value) for own in span.attributes}


@contextmanager
def collecting(answers: Sequence[Answer] = (), *, max_bytes: int | None = None) -> Iterator[Collector]:
    """A collector that listens on a free port."""
    collector = Collector(answers, max_bytes=max_bytes)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = collector.take(body, {name.lower(): value for name, value in self.headers.items()})
            if answer == "stall":
                collector.released.wait(60)
            if isinstance(answer, str):
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            content = ExportTraceServiceResponse().SerializeToString() if answer == 200 else b"not now"
            self.send_response(answer)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        collector.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield collector
        finally:
            collector.released.set()
            server.shutdown()
            thread.join()
