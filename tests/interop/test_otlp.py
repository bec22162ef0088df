"""Traces of runs as a collector receives them, decoded with OpenTelemetry's message classes."""

from __future__ import annotations

import json
import re
import sys
from base64 import b64decode
from pathlib import Path

import pytest
from opentelemetry.semconv._incubating.attributes import error_attributes, gen_ai_attributes
from opentelemetry.semconv.schemas import Schemas

from pytest_mlebench.cli.main import main
from pytest_mlebench.data.preparing import shown_url
from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.interop.otlp import Sender, SendError
from pytest_mlebench.extras.interop.otlp_spans import SCHEMA, RunSpans
from pytest_mlebench.llm.ledger import CALLS
from pytest_mlebench.results import read_group
from tests.groups import START
from tests.interop.collector import attributes, collecting
from tests.interop.recorded import recorded_group

SECRET = "sk-of-a-test-0123456789abcdef"
SECONDS = 10**9


@pytest.fixture
def group(tmp_path: Path) -> Path:
    recorded_group(tmp_path / "runs/traced")
    return tmp_path / "runs/traced"


def test_a_run_is_a_trace_with_its_model_calls_tools_and_grades(group: Path) -> None:
    with collecting() as collector:
        assert main(["export", "--to=otlp", f"--endpoint={collector.url}", str(group)]) == 0
    gold, crashed = read_group(group).records
    traces = {span.trace_id for span in collector.spans}
    assert len(traces) == 2 and len(collector.by_id) == len(collector.spans)
    roots = {attributes(span)["mlebench.run_id"]: span for span in collector.spans if not span.parent_span_id}
    root = roots[gold.run_id]
    own = [span for span in collector.spans if span.trace_id == root.trace_id and span is not root]
    assert {span.parent_span_id for span in own} == {root.span_id}
    assert sorted(span.name for span in own) == ["chat gpt-4o"] * 4 + ["execute_tool bash"] * 2
    start = int(START.timestamp()) * SECONDS
    assert (root.name, root.start_time_unix_nano, root.end_time_unix_nano) == (
        "invoke_agent a",
        start,
        start + 60 * SECONDS,
    )
    assert attributes(root) | {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai",
        "gen_ai.agent.name": "a",
        "gen_ai.usage.input_tokens": 300,
        "mlebench.competition": gold.competition_id,
        "mlebench.seed": 0,
        "mlebench.medal": "gold",
        "mlebench.score": gold.score,
        "mlebench.cost": 0.03,
        "mlebench.outcome": "gold",
    } == attributes(root)
    snapshot, grade = root.events
    assert {event.name for event in root.events} == {"gen_ai.evaluation.result"}
    assert attributes(grade)["gen_ai.evaluation.score.value"] == gold.score
    assert attributes(grade)["gen_ai.evaluation.score.label"] == "gold"
    assert attributes(snapshot)["gen_ai.evaluation.score.label"] == "bronze"
    assert snapshot.time_unix_nano == start + 30 * SECONDS
    failed = roots[crashed.run_id]
    assert failed.status.code == 2 and attributes(failed)["error.type"] == "crashed"


def test_a_chat_span_has_models_tokens_by_kind_finish_reason_cost_and_error(group: Path) -> None:
    with collecting() as collector:
        assert main(["export", "--to=otlp", f"--endpoint={collector.url}/v1/traces", str(group)]) == 0
    chats = [attributes(span) for span in collector.spans if span.name == "chat gpt-4o"]
    assert chats[0] == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.response.model": "gpt-4o-2024-11-20",
        "gen_ai.response.finish_reasons": ["tool_calls"],
        "gen_ai.request.stream": False,
        "gen_ai.response.time_to_first_chunk": 0.25,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "mlebench.call": "1",
        "mlebench.cost": 0.01,
        "mlebench.retries": 0,
        "mlebench.refused": False,
        "mlebench.replayed": False,
    }
    assert chats[2]["gen_ai.response.finish_reasons"] == ["stop"]
    assert chats[3]["error.type"] == "429"
    first, tool, second = collector.spans[:3]
    assert tool.name == "execute_tool bash"
    assert (tool.start_time_unix_nano, tool.end_time_unix_nano) == (
        first.end_time_unix_nano,
        second.start_time_unix_nano,
    )


def test_names_follow_the_pinned_conventions(group: Path) -> None:
    known = {
        value
        for module in (gen_ai_attributes, error_attributes)
        for value in vars(module).values()
        if isinstance(value, str)
    }
    assert SCHEMA in {schema.value for schema in Schemas}
    with collecting() as collector:
        assert main(["export", "--to=otlp", f"--endpoint={collector.url}", "--otlp-content", str(group)]) == 0
    used = {own.key for span in collector.spans for part in (span, *span.events) for own in part.attributes}
    conventional = {key for key in used if not key.startswith("mlebench.")}
    assert conventional <= known and len(conventional) == 26
    assert {scoped.schema_url for scoped in collector.taken} == {SCHEMA}
    (conventions,) = {attributes(scoped.scope)["mlebench.gen_ai_conventions"] for scoped in collector.taken}
    assert SCHEMA.endswith(conventions)


def test_content_is_sent_only_on_request_and_never_with_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded_group(tmp_path / "runs/traced", said=f"key={SECRET}")  # as recorded by a version without redaction
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    command = ["export", "--to=otlp", str(tmp_path / "runs/traced")]
    with collecting() as collector:
        assert main([*command, f"--endpoint={collector.url}"]) == 0
        plain = b"".join(collector.requests)
        assert b"Step 1." not in plain and b"key=" not in plain
        assert main([*command, f"--endpoint={collector.url}", "--otlp-content"]) == 0
    spans = [span for span in collector.spans if b"messages" in span.SerializeToString()]
    said = json.loads(attributes(spans[1])["gen_ai.input.messages"])
    assert said == [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "key=*** 1"}]}]
    answer = json.loads(attributes(spans[1])["gen_ai.output.messages"])
    assert answer[0]["parts"][0] == {"type": "text", "content": "Step 2."}
    assert SECRET.encode() not in b"".join(collector.requests)


def test_headers_are_read_from_a_file_that_only_its_owner_can_read(
    group: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "headers"
    file.write_text(f"# mine\nAuthorization: Bearer {SECRET}\nx-mlflow-experiment-id: 0\n")
    with collecting() as collector:
        command = ["export", "--to=otlp", f"--endpoint={collector.url}", f"--headers={file}", str(group)]
        file.chmod(0o644)
        assert main(command) == 2
        assert f"chmod 600 {file}" in capsys.readouterr().err
        file.chmod(0o600)
        assert main(command) == 0
        assert collector.headers[0]["authorization"] == f"Bearer {SECRET}"
        assert collector.headers[0]["x-mlflow-experiment-id"] == "0"
        file.write_text(SECRET)
        assert main(command) == 2
    out, err = capsys.readouterr()
    assert "headers, line 1: must be `Name: value`" in err and SECRET not in out + err


@pytest.mark.parametrize("started", ["9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+00:00", "yesterday"])
def test_times_that_a_span_cannot_have_are_replaced_by_the_nearest(started: str, group: Path) -> None:
    record = read_group(group).records[0]
    ledger = group / record.run_id / CALLS
    ledger.write_text(re.sub(r'"started_at": ?"[^"]*"', f'"started_at": "{started}"', ledger.read_text()))
    spans = list(RunSpans(str).of(record, group / record.run_id))
    assert len(spans) == 7 and all(0 < span.start_time_unix_nano <= span.end_time_unix_nano for span in spans[:-1])


@pytest.mark.parametrize("url", ["localhost:4318", "ftp://there", "http://", "http://[::1"])
def test_an_invalid_url_gives_a_one_line_error(url: str, group: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--to=otlp", f"--endpoint={url}", str(group)]) == 2
    assert "--endpoint" in (line := capsys.readouterr().err) and line.count("\n") == 1


def test_a_password_in_the_url_is_used_and_never_shown(group: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with collecting() as collector:
        url = collector.url.replace("://", f"://me:{SECRET}@%40%C3%BC@")
        assert main(["export", "--to=otlp", f"--endpoint={url}", str(group)]) == 0
        collector.always = 400
        assert main(["export", "--to=otlp", f"--endpoint={url}", str(group)]) == 2
    out, err = capsys.readouterr()
    assert b64decode(collector.headers[0]["authorization"].removeprefix("Basic ")).decode() == f"me:{SECRET}@@ü"
    assert "it answered 400: not now" in err and "***@" in err and SECRET not in out + err


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://me:secret@host:80/x?key=secret", "http://***@host:80/x"),
        ("http://me:sec@secret@host/@me", "http://***@host/@me"),
        ("http://me:sec/secret@host", "***"),
        ("http://me:sec?secret@host", "***"),
        ("http://me:secret@host:port", "***"),
        ("http://me:secret℀@host:1", "http://***@host:1"),
        ("me:secret@host", "***"),
        ("http://host:1?key=secret@more", "http://host:1"),
        ("http://[::1", "http://[::1"),
        ("localhost:4318", "localhost:4318"),
    ],
)
def test_no_part_of_a_password_is_shown(url: str, said: str, group: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown_url(url) == said
    assert main(["export", "--to=otlp", f"--endpoint={url}#refused", str(group)]) == 2
    assert "secret" not in (line := capsys.readouterr().err) and line.count("\n") == 1


@pytest.mark.parametrize("answers", [[500, 503], ["drop"], [429, "drop", 502], ["lose"]])
def test_a_server_that_fails_for_a_while_gets_each_span_once(answers: list[int | str], group: Path) -> None:
    whole = read_group(group)
    with collecting(answers) as collector:
        sender = Sender(collector.url, {}, wait=lambda seconds: None)
        spans = [span for r in whole.records for span in RunSpans(str).of(r, group / r.run_id)]
        assert sender.send(spans) == len(spans)
        sender.close()
    assert collector.by_id == {(span.trace_id, span.span_id): span for span in spans}


def test_a_stalled_server_times_out_and_gets_the_rest_later(group: Path) -> None:
    whole = read_group(group)
    spans = [span for r in whole.records for span in RunSpans(str).of(r, group / r.run_id)]
    with collecting(["stall"]) as collector:
        sender = Sender(collector.url, {}, attempts=1, seconds=0.2)
        with pytest.raises(SendError, match="did not answer in time"):
            sender.send(spans)
        sender.send(spans)
        sender.close()
    assert collector.by_id == {(span.trace_id, span.span_id): span for span in spans}


def test_a_request_that_is_too_large_is_split_in_halves(group: Path) -> None:
    whole = read_group(group)
    spans = [span for r in whole.records for span in RunSpans(str).of(r, group / r.run_id)]
    with collecting(max_bytes=3000) as collector:
        sender = Sender(collector.url, {})
        assert sender.send(spans) == len(spans)
        assert collector.spans == spans
        collector.max_bytes = 100
        with pytest.raises(SendError, match="too large"):
            sender.send(spans)
        sender.close()


def test_an_interrupted_export_is_completed_by_the_same_command(
    group: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr("pytest_mlebench.extras.interop.otlp._SPANS", 3)
    with collecting([200, 200, *[503] * 5]) as collector:
        command = ["export", "--to=otlp", f"--endpoint={collector.url}", str(group)]
        assert main(command) == 2
        assert "0 of 2 runs were sent; the same command sends them again" in capsys.readouterr().err
        before = len(collector.spans)
        assert main(command) == 0
    assert before == 6 and len(collector.by_id) == 7 + 7
    assert all(collector.by_id[span.trace_id, span.span_id] == span for span in collector.spans)


def test_an_unreachable_server_gives_a_one_line_error(group: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting() as collector:
        pass
    sender = Sender(collector.url, {}, attempts=2, wait=lambda seconds: None)
    with pytest.raises(SendError, match=r"^it cannot be reached: .*refused"):
        sender.send(RunSpans(str).of(read_group(group).records[0], group))
    sender.close()


def test_a_missing_package_error_names_the_extra(group: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.collector.trace.v1.trace_service_pb2", None)
    with pytest.raises(UsageError, match=r"pip install 'pytest-mlebench\[otlp\]'"):
        Sender("http://localhost", {})
