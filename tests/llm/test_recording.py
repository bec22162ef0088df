"""The ledger, replay, retries, prices, and providers' files."""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import socketserver
import threading
import time
import tracemalloc
from contextlib import closing, nullcontext, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from genai_prices import Usage as Detail
from google import genai
from google.genai import types as genai_types

from pytest_mlebench.agents.registry import Agent
from pytest_mlebench.errors import AgentError, UsageError
from pytest_mlebench.extras.audit.asking import named_model
from pytest_mlebench.io.compression import ZstdFile
from pytest_mlebench.llm import ledger as ledger_module
from pytest_mlebench.llm.accounting import Accounting, GatewaySettings
from pytest_mlebench.llm.gateway import Gateway, check_secrets, keyless, providers_of
from pytest_mlebench.llm.ledger import (
    BODIES,
    CALLS,
    Call,
    JsonText,
    Ledger,
    Recording,
    canonical,
    common_length,
    read_bodies,
    read_calls,
    without_volatile,
)
from pytest_mlebench.llm.prices import Prices, Tokens
from pytest_mlebench.llm.providers import load_providers
from pytest_mlebench.llm.requests import Refusal
from pytest_mlebench.llm.server import Service
from pytest_mlebench.records.record import Usage
from tests.llm.conftest import Start
from tests.llm.talking import QUESTION, ask, full_disk
from tests.llm.upstreams import REPLY, Failure, Upstream


def call(number: int = 1, **values: Any) -> Call:
    return Call(number=number, kind="generate", status=200, model="m", provider="openai", **values)


# The ledger.


def test_a_truncated_ledger_is_read_up_to_the_cut(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for number in range(20):
        ledger.write(call(number))
        ledger.write_bodies(number, {"path": "/x", "request": {"n": number}, "response": {"text": "again " * 500}})
    # The ledger was not closed. Remove the last bytes as well:
    calls, bodies = (tmp_path / CALLS).read_bytes(), (tmp_path / BODIES).read_bytes()
    (tmp_path / CALLS).write_bytes(calls[:-10])
    (tmp_path / BODIES).write_bytes(bodies[:-3])
    assert [line["number"] for line in read_calls(tmp_path)] == list(range(19))
    assert [body["request"]["n"] for body in read_bodies(tmp_path)] == list(range(19))
    assert len(bodies) < 5000  # repeated messages take no space
    ledger.close()


def test_a_ledger_is_bounded(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, max_calls_bytes=5000, max_body_bytes=1000)
    for number in range(100):
        ledger.write(call(number))
        ledger.write_bodies(number, {"request": "x" * (10 if number % 2 else 2000)})
    ledger.close()
    assert (tmp_path / CALLS).stat().st_size < 6000
    bodies, calls = len(list(read_bodies(tmp_path))), len(read_calls(tmp_path))
    assert 0 < bodies < calls < 100
    assert ledger.totals.to_json()["left_out"] == Usage.of(ledger.totals.to_json()).left_out == 100 - bodies
    assert ledger.totals.calls == 100


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_calls_on_a_full_disk_are_answered_and_counted(
    stream: bool, start: Start, upstream: Upstream, run_dir: Path
) -> None:
    gateway = start()
    question = {**QUESTION, "stream": stream}
    answers = [ask(gateway, question)]
    with full_disk():
        answers += [ask(gateway, question), ask(gateway, question)]
    answers.append(ask(gateway, question))
    with full_disk():
        gateway.close()
    assert {(answer.status, answer.content) for answer in answers} == {(200, answers[0].content)}
    totals = gateway.totals.to_json()
    assert (totals["calls"], totals["left_out"], totals["write_error"]) == (4, 2, "File too large")
    assert totals["tokens"]["output"] == 4 * read_calls(run_dir)[0]["tokens"]["output"]
    assert [line["number"] for line in read_calls(run_dir, only_valid=False)] == [1, 4]
    assert [body["number"] for body in read_bodies(run_dir)] == [1, 4]


@pytest.mark.parametrize(("file", "lacking"), [(CALLS, [2]), (BODIES, [2, 3])])
def test_a_short_write_leaves_no_part_of_a_call(file: str, lacking: list[int], tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for number in (1, 2, 3):
        free = (tmp_path / file).stat().st_size + 20 if number == 2 else None
        with nullcontext() if free is None else full_disk(free=free):
            ledger.write(call(number, error="x" * (2000 if file == CALLS else 1)))
            ledger.write_bodies(number, {"request": os.urandom(2000 if file == BODIES else 1).hex()})
    ledger.close()
    complete = [number for number in (1, 2, 3) if number not in lacking]
    assert [line["number"] for line in read_calls(tmp_path)] == (complete if file == CALLS else [1, 2, 3])
    assert [body["number"] for body in read_bodies(tmp_path)] == complete
    assert (ledger.totals.calls, ledger.totals.left_out) == (3, len(lacking))


@pytest.mark.parametrize(
    "wrong",
    [
        *[{"number": value} for value in ([], [1], "1", True, None, 1.0)],
        *[{"seconds": value} for value in ("2", 1e300, float("nan"))],
        *[{"tokens": {"input": value}} for value in ("x", -1, 10**200)],
        {"tokens": [1]},
        *[{"cost": value} for value in ("free", True, float("inf"), -0.1)],
        {"request_bytes": "x"},
        {"first_token": float("inf")},
        {"started_at": 5},
    ],
    ids=str,
)
def test_lines_that_no_gateway_writes_are_skipped(wrong: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / CALLS).parent.mkdir()
    lines = [{"number": 1, "later": {}}, {"number": 2, **wrong}, {"number": 3, "cost": 1, "withheld": None}]
    (tmp_path / CALLS).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert [line["number"] for line in read_calls(tmp_path)] == [1, 3]
    assert len(read_calls(tmp_path, only_valid=False)) == 3


def bodies(run_dir: Path, *lines: bytes) -> list[Any]:
    """The numbers of the bodies that are read from a recording with these lines."""
    (run_dir / BODIES).parent.mkdir(exist_ok=True)
    with ZstdFile(run_dir / BODIES, "w") as file:
        file.write(b"\n".join(lines))
    return [body["number"] for body in read_bodies(run_dir)]


@pytest.mark.parametrize("number", ['"x"', "[1]", "1e999", "true", "null", "{}"])
def test_bodies_without_a_number_are_skipped(number: str, tmp_path: Path) -> None:
    wrong = f'{{"number": {number}, "path": "/x", "request": {{}}, "response": {{}}}}'.encode()
    assert bodies(tmp_path, b"[]", wrong, b'{"number": 2, "path": "/x", "response": {}}') == [2]
    assert Recording(tmp_path).find("/x", None) == ({"number": 2, "path": "/x", "response": {}}, False)


def test_reading_a_recording_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def line(number: int, size: int, filler: str = "x") -> bytes:
        return json.dumps({"number": number, "text": ""})[:-2].encode() + filler.encode() * size + b'"}'

    monkeypatch.setattr(ledger_module, "MAX_BODY_BYTES", 3 << 20)
    assert bodies(tmp_path, line(1, 2 << 20), line(2, 4 << 20), line(3, 0), line(4, 9 << 20), line(5, 0)) == [1, 3, 5]
    assert bodies(tmp_path, *(line(number, 0, "") for number in range(5)), b" " * (9 << 20)) == list(range(5))
    monkeypatch.setattr(ledger_module, "MAX_UNPACKED_BYTES", 5 << 20)
    assert bodies(tmp_path, *(line(number, 1 << 20) for number in range(100))) == list(range(7))
    monkeypatch.setattr(ledger_module, "_MAX_LINES", 3)
    assert bodies(tmp_path, *(line(number, 0) for number in range(9))) == [0, 1, 2]
    monkeypatch.setattr(ledger_module, "_MAX_BRACKETS", 10)
    assert bodies(tmp_path, line(1, 5, "[{"), line(2, 4, "[{")) == [2]


def test_a_line_without_an_end_takes_linear_time(tmp_path: Path) -> None:
    """256 MB in 8 kB. With copies of the line so far, it would take about 30 GB of memory traffic."""
    (tmp_path / BODIES).parent.mkdir()
    with ZstdFile(tmp_path / BODIES, "w") as file:
        for _ in range(256):
            file.write(b" " * (1 << 20))
    tracemalloc.start()
    try:
        assert list(read_bodies(tmp_path)) == []
        assert tracemalloc.get_traced_memory()[1] < 150 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("record", "files"), [("off", []), ("calls", [CALLS]), ("bodies", [BODIES, CALLS])])
def test_the_recorded_content_can_be_chosen(record: Any, files: list[str], start: Start, tmp_path: Path) -> None:
    gateway = start(record=record)
    assert ask(gateway).status == 200
    run_dir = tmp_path / "group/run"
    assert sorted(str(path.relative_to(run_dir)) for path in run_dir.rglob("*") if path.is_file()) == sorted(files)
    assert gateway.totals.calls == 1


@pytest.mark.parametrize("iterations", range(6))
def test_a_connection_that_is_accepted_last_is_closed(iterations: int, tmp_path: Path) -> None:
    settings = GatewaySettings()
    accounting = Accounting(settings, tmp_path, tmp_path, secrets=())

    async def serve() -> socket.socket:
        service = Service(settings, {}, accounting, token="t", keys={}, replay=None)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            async with service.listening(listening, 10):
                connection = socket.create_connection(listening.getsockname(), 10)
                for _ in range(iterations):
                    await asyncio.sleep(0)
                return connection

    with closing(asyncio.run(serve())) as connection, suppress(ConnectionResetError):
        assert connection.recv(1) == b""
    accounting.close()


def test_links_and_pipes_instead_of_a_recording_are_not_read(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "run")
    ledger.write(call(1))
    ledger.write_bodies(1, {"request": {}})
    ledger.close()
    for name, make in (
        ("link", lambda path: path.symlink_to(tmp_path / "run" / path.relative_to(tmp_path / "link"))),
        ("pipe", os.mkfifo),
    ):
        for file in (CALLS, BODIES):
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            make(path)
        assert read_calls(tmp_path / name) == list(read_bodies(tmp_path / name)) == []
    assert len(read_calls(tmp_path / "run")) == len(list(read_bodies(tmp_path / "run"))) == 1


def test_totals_report_unknown_amounts(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, record="off")
    ledger.write(call(1, tokens=Tokens(100, 20, 30, 0, 5), cost=Decimal("0.5"), seconds=1.5, answered_model="m-1"))
    assert ledger.totals.to_json()["cost"] == 0.5
    ledger.write(call(2, tokens=Tokens(1, 2), seconds=2.0))
    failed = call(3, seconds=0.25)
    failed.status = 429
    ledger.write(failed)
    assert ledger.totals.to_json() == {
        "calls": 2,
        "tokens": {"input": 101, "output": 22, "cached": 30, "cache_written": 0, "reasoning": 5},
        "cost": None,
        "known_cost": 0.5,
        "calls_of_unknown_cost": 1,
        "calls_of_unknown_usage": 0,
        "models": {
            "m-1": {"provider": "openai", "calls": 1, "input_tokens": 100, "output_tokens": 20, "cost": 0.5},
            "m": {"provider": "openai", "calls": 1, "input_tokens": 1, "output_tokens": 2, "cost": None},
        },
        "seconds": 3.75,
        "retries": 0,
        "replayed": 0,
        "replayed_nearly": 0,
        "replay_misses": 0,
        "left_out": 0,
        "write_error": None,
        "errors": {"429": 1},
        "withheld": {},
        "dropped": {},
        "refusals": {},
        "connections_refused": 0,
        "budget_ended": None,
    }


# Replay.


def questions(gateway: Gateway, *, stream: bool, temperature: float = 0.5) -> list[str]:
    """One question by each client, and the first one twice."""
    said = []
    with openai.OpenAI(base_url=f"{gateway.url}/openai/v1", api_key=gateway.token, max_retries=0) as client:
        for _ in range(2):
            asked: Any = {
                "model": "gpt-4o",
                "messages": [{"role": "user", "content": "one"}],
                "temperature": temperature,
            }
            if stream:
                chunks = client.chat.completions.create(**asked, stream=True)
                said.append("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices))
            else:
                said.append(client.chat.completions.create(**asked).choices[0].message.content)
        if stream:
            with client.responses.stream(model="gpt-5", input="two") as events:
                said.append(events.get_final_response().output_text)
        else:
            said.append(client.responses.create(model="gpt-5", input="two").output_text)
    with anthropic.Anthropic(base_url=f"{gateway.url}/anthropic", api_key=gateway.token, max_retries=0) as claude:
        asked = {
            "model": "claude-sonnet-4-6",
            "max_tokens": 99,
            "messages": [{"role": "user", "content": "three"}],
        }
        if stream:
            with claude.messages.stream(**asked) as pieces:
                said.append(pieces.get_final_message().content[0].text)  # type: ignore[union-attr]
        else:
            said.append(claude.messages.create(**asked).content[0].text)
    options = genai_types.HttpOptions(base_url=f"{gateway.url}/gemini")
    with closing(genai.Client(api_key=gateway.token, http_options=options)) as google:
        if stream:
            parts = google.models.generate_content_stream(model="gemini-2.5-pro", contents="four")
            said.append("".join(part.text or "" for part in parts))
        else:
            said.append(google.models.generate_content(model="gemini-2.5-pro", contents="four").text or "")
    return said


@pytest.mark.parametrize("recorded", [False, True], ids=["recorded whole", "recorded streamed"])
@pytest.mark.parametrize("replayed", [False, True], ids=["replayed whole", "replayed streamed"])
def test_a_recording_answers_the_same_questions_without_a_key(
    recorded: bool, replayed: bool, start: Start, upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def number(seen: Any) -> None:
        upstream.reply = f"{REPLY} Said as number {len(upstream.seen)}."

    upstream.on_request = number
    first = start("first")
    said = questions(first, stream=recorded)
    first.close()
    asked = len(upstream.seen)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name)
    second = start("second", replay=tmp_path / "group/first")

    assert questions(second, stream=replayed) == said
    assert len(set(said)) == 5  # the repeated question has two responses
    assert len(upstream.seen) == asked
    totals = second.totals.to_json()
    assert (totals["calls"], totals["replayed"], totals["cost"]) == (5, 5, 0)
    assert all(call["replayed"] and call["tokens"] for call in read_calls(tmp_path / "group/second"))


@pytest.mark.parametrize(
    ("recorded", "replayed"),
    [
        ("Execution time: a moment seconds", "Execution time: 2 seconds seconds"),
        ("real\t0m9.123s\nuser\t1m0.5s", "real\t0m12.001s\nuser\t0m58.25s"),
        ("It ran for 1h 3min 2.5 s.", "It ran for 2h 13min 1.25 s."),
        ("Today's date: 2026-11-22", "Today's date: 2027-01-02"),
        ("It is Sunday, November 22, 2026.", "It is Monday, January 4, 2027."),
        ("[2026-11-22T10:00:00.123+01:00] start\n10:00:01,5 end", "[2027-01-02 09:59:59Z] start\n7:00:03 end"),
        ("epoch 1:\n12/12 [00:03<00:00, 3.25it/s]", "epoch 1:\n12/12 [01:04<00:02, 11it/s]"),
        ("<object at 0x7f3a9c01d2e0>", "<object at 0x7fe0118842b0>"),
        ("session 0e4a7c9b-3f1d-4c57-9a52-4b1f0a7d6e11", "session 5b0d2b7c-91de-4f0a-8b6f-0a3c9d1e2f34"),
        ("wrote /tmp/tmpab12_x/model.pkl (pid 4711)", "wrote /tmp/tmpzz90/model.pkl (pid 12)"),
        ("checkpoint 9f86d081884c7d659a2feaa0c55ad015", "checkpoint 60303ae22b998861bce3b28f33eec1be"),
    ],
)
def test_values_that_differ_each_time_are_ignored_in_questions(
    recorded: str, replayed: str, start: Start, upstream: Upstream, tmp_path: Path
) -> None:
    def asked(text: str) -> dict[str, Any]:
        return {**QUESTION, "messages": [{"role": "user", "content": f"The output:\n{text}"}]}

    first = start("first")
    ask(first, asked(recorded))
    first.close()
    second = start("second", replay=tmp_path / "group/first")
    assert ask(second, asked(replayed)).status == 200
    assert ask(second, asked(f"{replayed} and more")).status == 400


def test_an_exact_match_is_preferred_to_a_similar_question(start: Start, upstream: Upstream, tmp_path: Path) -> None:
    def asked(seconds: int) -> dict[str, Any]:
        return {**QUESTION, "messages": [{"role": "user", "content": f"It took {seconds} s. What next?"}]}

    first = start("first")
    for seconds in (1, 2, 3):
        upstream.reply = f"after {seconds}"
        ask(first, asked(seconds))
    first.close()
    second = start("second", replay=tmp_path / "group/first")
    answers = [ask(second, asked(seconds)).json["choices"][0]["message"]["content"] for seconds in (2, 9, 9, 9)]
    assert answers == ["after 2", "after 1", "after 3", "after 3"]
    assert [call["replayed_nearly"] for call in read_calls(tmp_path / "group/second")] == [False, True, True, True]
    assert (second.totals.replayed, second.totals.to_json()["replayed_nearly"]) == (4, 3)


@pytest.mark.parametrize("text", ["1," * 6400, "1.5," * 6400], ids=["counts", "numbers"])
def test_lists_of_numbers_are_compared_in_linear_time(text: str) -> None:
    began = time.process_time()
    without_volatile(canonical({"messages": [text]}))
    assert time.process_time() - began < 1


@pytest.mark.parametrize("text", ["score 0.95 of 12 folds", "3 epochs of 128 rows", "v1.2.3 has 12 hits", "0.5"])
def test_other_numbers_are_part_of_the_question(text: str) -> None:
    question = canonical({"messages": [text]})
    assert without_volatile(question) == question


@pytest.mark.parametrize(
    "other", ["", "a", "ab", "abcdefg", "abcdefgh", "abcdefghi", "abcdXfgh", "Xbcdefgh", "abcdefgX"]
)
def test_the_common_length_is_that_of_the_common_prefix(other: str) -> None:
    common = max(length for length in range(len(other) + 1) if "abcdefgh".startswith(other[:length]))
    assert common_length("abcdefgh", other) == common_length(list(other), list("abcdefgh")) == common


ODD: list[Any] = [5, "x", None, True, [], [5], {"a": 5}, "\ud800", [{"a": "\ud800"}], {"usage": 5}, {"model": []}]
FIELDS = ("choices", "usage", "message", "content", "output", "candidates", "usageMetadata", "delta", "parts", "model")


@pytest.mark.parametrize("path", ["openai/chat/completions", "openai/responses", "anthropic/v1/messages", "gemini"])
def test_odd_recorded_answers_are_replayed_or_rejected(
    path: str, start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    odd = [*ODD, *({name: value} for name in FIELDS for value in ODD[::3])]
    odd += [{name: [{"content": value}]} for name in FIELDS[::2] for value in (5, [5])]
    question: dict[str, Any] = {"model": "m", "messages": [], "input": [], "max_tokens": 5}
    gemini = "gemini/v1beta/models/m:generateContent"
    ledger = Ledger(tmp_path / "first")
    for number, answer in enumerate(odd):
        for stream in (None, "\ud800", 5):
            content = {"path": f"/{gemini if path == 'gemini' else path}", "request": {**question, "seed": number}}
            escaped = JsonText(json.dumps(answer)), JsonText(json.dumps(stream))
            ledger.write_bodies(number, {**content, "response": escaped[0], "stream": escaped[1]})
    ledger.close()
    gateway = start(replay=tmp_path / "first")
    asked = path.replace("openai", "openai/v1")
    for number in range(len(odd)):
        body = {**question, "seed": number}
        for k in range(3):
            if path == "gemini":
                asked = gemini if k == 0 else gemini.replace("generate", "streamGenerate") + "?alt=sse" * (k == 1)
            found = ask(gateway, body if path == "gemini" else {**body, "stream": k > 0}, path=f"/{asked}")
            assert found.status == 200 or (found.status == 400 and "malformed" in found.message), found
    assert caplog.records == [] and gateway.totals.replay_misses > 0


def test_an_unrecorded_question_is_an_error_that_shows_the_nearest_one(
    start: Start, upstream: Upstream, tmp_path: Path
) -> None:
    first = start("first")
    ask(first)
    ask(first, {**QUESTION, "messages": [{"role": "user", "content": "Which features?"}], "temperature": 0.5})
    first.close()
    second = start("second", replay=tmp_path / "group/first")
    missed = ask(second, {**QUESTION, "messages": [{"role": "user", "content": "Which folds?"}], "temperature": 0.5})
    assert missed.status == 400
    assert "run first" in missed.message
    assert "call 2" in missed.message
    assert 'messages[0].content was "Which features?", is "Which folds?"' in missed.message
    assert "no call to /anthropic" in ask(second, {"model": "m"}, path="/anthropic/v1/messages").message
    assert second.totals.replay_misses == 2
    # The user, the metadata and the order of keys are not part of the question.
    assert ask(second, {**dict(reversed(QUESTION.items())), "user": "x", "metadata": {"a": 1}}).status == 200
    assert len(upstream.seen) == 2


# Retries.


def test_a_providers_errors_are_retried_on_request(start: Start, upstream: Upstream, run_dir: Path) -> None:
    busy = [Failure(status, {"error": {"message": "busy"}}, {"retry-after": "0"}) for status in (429, 529, 503)]
    upstream.failures += busy
    gateway = start(retries=3)
    assert ask(gateway).status == 200
    assert read_calls(run_dir)[0]["retries"] == 3
    upstream.failures += [*busy, *busy]
    answer = ask(gateway)
    assert (answer.status, answer.headers["retry-after"]) == (429, "0")
    upstream.failures.clear()
    upstream.failures.append(Failure(400, {"error": {"message": "wrong"}}))
    assert ask(gateway).status == 400
    assert gateway.totals.retries == 6


def test_a_providers_errors_are_forwarded_by_default(gateway: Gateway, upstream: Upstream) -> None:
    upstream.failures.append(Failure(503, {"error": {"message": "busy"}}, {"retry-after": "2"}))
    assert ask(gateway).status == 503
    assert len(upstream.seen) == 1


def test_calls_of_a_run_are_spaced(start: Start, upstream: Upstream) -> None:
    gateway = start(rpm=600)
    began = time.monotonic()
    for _ in range(4):
        assert ask(gateway).status == 200
    assert time.monotonic() - began >= 0.29  # three pauses of 0.1 s


# Prices.


def test_a_prices_file_adds_and_overrides_prices(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("gpt-4o: {input: 1, output: 2, cached: 0.5}\nopenrouter/my-*: {input: 0, output: 3}\n")
    providers, prices = load_providers(), Prices.load(file)
    usage = Detail(input_tokens=1_000_000, output_tokens=1_000_000, cache_read_tokens=500_000)
    assert prices.cost(providers["openai"], "gpt-4o", usage) == Decimal("2.75")
    assert prices.cost(providers["openrouter"], "my-model", usage) == Decimal(3)
    assert prices.cost(providers["openai"], "my-model", usage) is None
    assert Prices({}).cost(providers["openai"], "gpt-4o", usage) == Decimal("11.875")


def test_tiers_are_priced() -> None:
    gemini = load_providers()["gemini"]
    small, large = (
        Prices({}).cost(gemini, "gemini-2.5-pro", Detail(input_tokens=size, output_tokens=0))
        for size in (200_000, 400_000)
    )
    assert small is not None
    assert large is not None
    assert large > 2 * small


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "m: 5",
        "m: {inputs: 1}",
        "m: {output: 1}",
        "m: {input: 1, context_window: 9}",
        "m: {cached: 1, input: 1}",
        "m: {input: -1}",
        "m: {input: many}",
        "m: {input: .nan}",
        "m: {",
        "m: {}",
    ],
)
def test_an_invalid_prices_file_is_reported(text: str, tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"prices\.yaml") as error:
        Prices.load(file)
    assert "\n" not in str(error.value)


# Providers.


def test_a_providers_file_adds_servers(start: Start, upstream: Upstream, tmp_path: Path) -> None:
    file = tmp_path / "providers.yaml"
    file.write_text(f"""
vllm: {{flavour: openai, base_url: "{upstream.url}/deep/v1", request_headers: [X-Own]}}
azure: {{flavour: openai, base_url: "{upstream.url}/openai/v1", keys: [OPENAI_API_KEY], key_header: api-key,
  query: {{api-version: preview}}, headers: {{X-Team: research}}, parameters: [a]}}
""")
    gateway = start(providers=load_providers(file))
    assert ask(gateway, path="/vllm/v1/chat/completions", headers={"X-Own": "kept"}).status == 200
    assert ask(gateway, path="/azure/v1/chat/completions?a=b", headers={"api-key": "x"}).status == 200
    plain, azure = upstream.seen
    assert plain.path == "/deep/v1/chat/completions"
    assert "Authorization" not in plain.headers
    assert plain.headers["X-Own"] == "kept"
    assert azure.headers["api-key"].startswith("sk-upstream")
    assert azure.headers["X-Team"] == "research"
    assert azure.query == "a=b&api-version=preview"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[]", "must be a mapping"),
        ("x: {flavour: telnet, base_url: http://a}", "flavour"),
        ("x: {flavour: openai}", "base_url"),
        ("x: {flavour: openai, base_url: ftp://a}", "base_url"),
        ("x: {flavour: openai, base_url: 'http://me:pass@a'}", "base_url contains a user name or password"),
        ("x: {flavour: openai, base_url: http://a, keys: K}", "keys"),
        ("x: {flavour: openai, base_url: http://a, color: red}", "unknown keys color"),
        (
            "x: {flavour: openai, base_url: http://a, output_limit: n_predict}",
            "output_limit must be max_completion_tokens",
        ),
        ("X Y: {flavour: openai, base_url: http://a}", "name"),
        ("x: [", "cannot be read"),
    ],
)
def test_an_invalid_providers_file_is_reported(text: str, what: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"mine\.yaml") as error:
        load_providers(file)
    assert what in str(error.value)


def agent(**values: Any) -> Agent:
    here = Path(__file__)
    return Agent(id="a", folder=here.parent, start=here, dockerfile=here, **values)


SETTINGS = GatewaySettings()
KEYS = {"OPENAI_API_KEY": "sk-openai-1", "GEMINI_API_KEY": "gm-key-12", "OPENROUTER_API_KEY": "or-key-12"}


@pytest.mark.parametrize(
    ("definition", "names"),
    [
        ({}, []),
        ({"env_vars": {"KEY": "${{ secrets.OPENAI_API_KEY }}"}}, ["openai"]),
        ({"env_vars": {"G": "${{ secrets.GEMINI_API_KEY }}"}}, ["gemini", "gemini-openai"]),
        ({"env_vars": {"BASE": "${{ secrets.OPENROUTER_BASE_URL }}"}}, ["openrouter"]),
        ({"env_vars": {"OPENAI_BASE_URL": "https://openrouter.ai/api/v1"}}, ["openrouter"]),
        ({"env_vars": {"ANTHROPIC_API_KEY": "${{ secrets.ANTHROPIC_API_KEY }}"}}, []),  # there is no key
        ({"llm_hosts": ("api.openai.com",)}, []),  # the agent has no key either
    ],
)
def test_an_agent_gets_the_providers_whose_keys_it_requests(definition: dict[str, Any], names: list[str]) -> None:
    assert [provider.name for provider in providers_of(SETTINGS, agent(**definition), KEYS)] == names


def test_keys_and_addresses_are_replaced() -> None:
    definition = agent(
        env_vars={"OPENAI_BASE_URL": "https://openrouter.ai/api/v1/", "KEY": "${{ secrets.OPENROUTER_API_KEY }}"}
    )
    found = providers_of(SETTINGS, definition, KEYS)
    launch = keyless(definition, found, "http://localhost:5001", "the-runs-token", KEYS)
    assert launch.environment["KEY"] == launch.environment["OPENROUTER_API_KEY"] == "the-runs-token"
    assert launch.environment["OPENAI_BASE_URL"] == "http://localhost:5001/openrouter/v1"
    assert launch.secrets == {"the-runs-token"}

    definition = agent(env_vars={"KEY": "${{ secrets.OPENAI_API_KEY }}", "G": "${{ secrets.GEMINI_API_KEY }}"})
    launch = keyless(definition, providers_of(SETTINGS, definition, KEYS), "http://localhost:5001", "the-token", KEYS)
    assert launch.environment["OPENAI_BASE_URL"] == "http://localhost:5001/openai/v1"
    assert launch.environment["OPENAI_API_BASE"] == "http://localhost:5001/openai/v1"
    assert launch.environment["GOOGLE_GEMINI_BASE_URL"] == "http://localhost:5001/gemini"
    assert not set(KEYS.values()) & set(launch.environment.values())


def test_an_agents_server_replaces_the_bundled_one() -> None:
    definition = agent(
        env_vars={"OPENAI_BASE_URL": "http://models.example:8000/v1", "OPENAI_API_KEY": "${{ secrets.OPENAI_API_KEY }}"}
    )
    (provider,) = providers_of(SETTINGS, definition, KEYS)
    assert provider.base_url == "http://models.example:8000/v1"
    launch = keyless(definition, (provider,), "http://localhost:5001", "the-runs-token", KEYS)
    assert launch.environment["OPENAI_BASE_URL"] == "http://localhost:5001/openai/v1"


@pytest.mark.parametrize("key", ["sk-some-key\n", " sk-some-key", "sk-schlüssel", "Bearer sk-some-key"])
def test_an_invalid_key_is_reported_before_any_run(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    definition = agent(env_vars={"KEY": "${{ secrets.ANTHROPIC_API_KEY }}"})
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    with pytest.raises(UsageError, match=r"^\$ANTHROPIC_API_KEY contains a space, a line break or"):
        check_secrets(SETTINGS, definition)
    with pytest.raises(UsageError, match="ANTHROPIC_API_KEY contains"):
        named_model("anthropic/some-model", SETTINGS.providers)
    check_secrets(SETTINGS, definition, replayed=True)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-some-key")
    # Another provider's key does not matter.
    check_secrets(SETTINGS, agent(env_vars={"KEY": "${{ secrets.OPENAI_API_KEY }}"}))


@pytest.mark.parametrize(
    ("variables", "what"),
    [
        ({"OPENAI_API_BASE": "ftp://a"}, r"^\$OPENAI_API_BASE is 'ftp://a', but must be a URL"),
        ({"OPENAI_BASE_URL": "http://me:pass@a/v1"}, r"^\$OPENAI_BASE_URL contains a user name or password"),
        *[
            ({"OPENAI_BASE_URL": "http://models.example/v1", "http_proxy": proxy}, r"\$http_proxy .* must be a URL")
            for proxy in ("socks5://127.0.0.1:1", "http://me:pass:@a:b:c", "http://a b")
        ],
    ],
)
def test_an_address_that_no_request_can_use_is_reported_before_any_run(
    variables: dict[str, str], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = agent(env_vars={"KEY": "${{ secrets.OPENAI_API_KEY }}"})
    for name, value in {"OPENAI_API_KEY": "sk-some-key", "OPENAI_BASE_URL": "", **variables}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=what) as error:
        check_secrets(SETTINGS, definition)
    assert "pass@" not in str(error.value)


@pytest.mark.parametrize(
    "line",
    ["base_url: 'http://some host/v1'", 'headers: {X-A: "a\\nb"}', "headers: {'X A': b}", "key_header: 'X\u00e4'"],
)
def test_a_provider_that_no_request_can_reach_is_rejected(line: str, tmp_path: Path) -> None:
    others = "" if "base_url" in line else "  base_url: http://models.example/v1\n"
    (tmp_path / "providers.yaml").write_text(f"own:\n  flavour: openai\n{others}  {line}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"provider own: .* (must be a URL|is not an HTTP header)"):
        load_providers(tmp_path / "providers.yaml")


def test_a_replay_needs_no_key() -> None:
    definition = agent(env_vars={"KEY": "${{ secrets.ANTHROPIC_API_KEY }}"})
    with pytest.raises(AgentError, match="ANTHROPIC_API_KEY"):
        check_secrets(SETTINGS, definition)
    check_secrets(SETTINGS, definition, replayed=True)


def test_the_machines_proxy_is_used(start: Start, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    from yarl import URL

    from pytest_mlebench.llm.upstream import proxy_of

    monkeypatch.setenv("HTTPS_PROXY", "http://me:pass@proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "inner.example")
    proxy, login = proxy_of(URL("https://api.openai.com/v1"))
    assert str(proxy) == "http://proxy.example:3128"
    assert login == {"Proxy-Authorization": "Basic bWU6cGFzcw=="}
    assert proxy_of(URL("https://api.inner.example/v1")) == (None, {})
    assert proxy_of(URL("https://localhost:4/v1")) == (None, {})


class _Proxy(socketserver.ThreadingTCPServer):
    """A proxy that maps all host names to one local port."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Tunnel)
        self.port = port
        self.heads: list[str] = []


class _Tunnel(socketserver.StreamRequestHandler):
    server: _Proxy

    def handle(self) -> None:
        lines = iter(self.rfile.readline, b"\r\n")
        self.server.heads.append(b"".join(lines).decode())
        with socket.create_connection(("127.0.0.1", self.server.port)) as there:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            ends = [self.connection, there]
            while ready := select.select(ends, [], [], 30)[0]:
                for end in ready:
                    if not (chunk := end.recv(1 << 16)):
                        return
                    ends[1 - ends.index(end)].sendall(chunk)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_provider_is_reached_through_the_machines_proxy_with_its_certificates(
    stream: bool, start: Start, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _Proxy(upstream.port) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENAI_BASE_URL", "https://models.example/v1")  # not in DNS
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:pass@127.0.0.1:{proxy.server_address[1]}")
        gateway = start()
        answer = ask(gateway, {**QUESTION, "stream": stream})
        gateway.close()
        proxy.shutdown()
    assert answer.status == 200
    assert proxy.heads[0].startswith("CONNECT models.example:443 HTTP/1.1")
    assert "Proxy-Authorization: Basic bWU6cGFzcw==" in proxy.heads[0]
    assert upstream.seen[0].headers["Host"] == "models.example"
    assert not any("proxy" in name.lower() for name in upstream.seen[0].headers)  # only the proxy gets the login


def test_a_missing_recording_names_the_run_without_its_competition(tmp_path: Path) -> None:
    with pytest.raises(Refusal) as refusal:
        Recording(tmp_path / "spaceship-titanic_aide-dev-0-1a2b3c4d").find("/v1/responses", {})
    assert str(refusal.value) == "the recording of run aide-dev-0-1a2b3c4d has no call to /v1/responses"
