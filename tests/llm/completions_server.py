"""A scripted completions server: a model of words with the probabilities that a test sets."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OUTSIDE = 0.001
"""Probability of words that start with ``zz``; twelve other words are more probable."""


@dataclass
class Scripted:
    """``knows`` maps the start of a text to the probability of each of its words.

    ``statuses`` are returned first, one per request; 200 is a normal response.
    """

    knows: Mapping[str, float] = field(default_factory=dict)
    way: str = "echo"
    statuses: list[int] = field(default_factory=list)
    said: str = "the model is loading"
    location: str = ""
    context: int = 1 << 20
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    url: str = ""

    def answer(self, body: Mapping[str, Any]) -> tuple[int, Any]:
        if self.statuses and (status := self.statuses.pop(0)) != 200:
            return status, {"error": {"message": self.said}}
        if self.way == "page":
            return 200, "<html>"
        prompt = str(body["prompt"])
        if len(prompt) > self.context:
            return 400, {"error": {"message": f"This model's maximum context length is {self.context} tokens."}}
        words = re.findall(r"\s*\S+|\s+$", prompt)
        p = next((p for start, p in self.knows.items() if prompt.startswith(start)), 0.5)
        own = [math.log(OUTSIDE if word.strip().startswith("zz") else p) for word in words]
        better = {f"better{k}": math.log(0.05) for k in range(12)}
        choice: dict[str, Any] = {"text": " more"}
        if self.way == "echo" and body.get("echo"):
            tops = [
                {**(dict(list(better.items())[:10]) if logprob < math.log(0.05) else {}), word: logprob}
                for word, logprob in zip(words, own, strict=True)
            ]
            choice["logprobs"] = {
                "tokens": [*words, " more"],
                "token_logprobs": [None, *own[1:], -0.1],
                "top_logprobs": [None, *tops[1:], {" more": -0.1}],
            }
        elif self.way == "prompt_logprobs" and body.get("prompt_logprobs"):
            choice["prompt_logprobs"] = [None] + [
                {
                    "7": {"logprob": logprob, "rank": 13 if logprob < math.log(0.05) else 1, "decoded_token": word},
                    "8": {"logprob": -3.0, "rank": 2, "decoded_token": "other"},
                }
                for word, logprob in zip(words[1:], own[1:], strict=True)
            ]
        elif self.way == "prompt_logprobs":
            return 400, {"error": {"message": "echo is not supported"}}
        return 200, {"choices": [choice]}


@contextmanager
def serving(scripted: Scripted) -> Iterator[Scripted]:
    """Context manager that serves at ``scripted.url``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            scripted.keys.append(self.headers.get("Authorization"))
            self.send_error(404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            scripted.requests.append(body)
            scripted.keys.append(self.headers.get("Authorization"))
            status, answer = (
                scripted.answer(body)
                if self.path == "/v1/completions"
                else (404, {"error": {"message": "no such path"}})
            )
            content = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            if scripted.location:
                self.send_header("Location", scripted.location)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    scripted.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield scripted
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
