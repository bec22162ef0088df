"""Trajectories: conversations reconstructed from the gateway's recordings, for every API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.io.values import loads
from pytest_mlebench.llm.api import Message, ToolResult, merge_messages
from pytest_mlebench.llm.gateway import Gateway
from pytest_mlebench.llm.ledger import CALLS, Call, Ledger, read_calls
from pytest_mlebench.llm.prices import Tokens
from pytest_mlebench.llm.trajectory import Trajectory, build
from pytest_mlebench.sandbox.redaction import Redactor
from tests.llm.atif import problems
from tests.llm.talking import CHAT, ask
from tests.llm.upstreams import ARGUMENTS, REPLY, Upstream

PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}}
ASKED, SYSTEM, RESULT, MORE = "Please use the tool.", "You are an engineer.", "total 0", "And now?"
Body = dict[str, Any]


def chat(gateway: Gateway, stream: bool) -> None:
    tools = [{"type": "function", "function": {"name": "shell", "parameters": PARAMETERS}}]
    messages: list[Body] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ASKED}]

    def say(**more: Any) -> None:
        ask(gateway, {"model": "gpt-4o", "messages": messages, "stream": stream, **more})

    say(tools=tools)
    function = {"name": "shell", "arguments": json.dumps(ARGUMENTS)}
    messages += [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": RESULT},
    ]
    say()
    messages += [{"role": "assistant", "content": REPLY}, {"role": "user", "content": [{"type": "text", "text": MORE}]}]
    say()


def responses(gateway: Gateway, stream: bool) -> None:
    tools = [{"type": "function", "name": "shell", "parameters": PARAMETERS}]
    items: list[Body] = [{"role": "user", "content": ASKED}]

    def say(**more: Any) -> None:
        body = {"model": "gpt-4o", "instructions": SYSTEM, "input": items, "stream": stream, **more}
        ask(gateway, body, path="/openai/v1/responses")

    say(tools=tools)
    call = {"type": "function_call", "call_id": "call_1", "name": "shell", "arguments": json.dumps(ARGUMENTS)}
    items += [call, {"type": "function_call_output", "call_id": "call_1", "output": RESULT}]
    say()
    text = [{"type": "output_text", "text": REPLY}]
    items += [{"type": "message", "role": "assistant", "content": text}, {"role": "user", "content": MORE}]
    say()


def responses_that_refer(gateway: Gateway, stream: bool) -> None:
    tools = [{"type": "function", "name": "shell", "parameters": PARAMETERS}]

    def say(given: Any, **more: Any) -> None:
        body = {"model": "gpt-4o", "input": given, "stream": stream, **more}
        ask(gateway, body, path="/openai/v1/responses")

    say(ASKED, instructions=SYSTEM, tools=tools)
    say([{"type": "function_call_output", "call_id": "call_1", "output": RESULT}], previous_response_id="resp_1")
    say(MORE, previous_response_id="resp_1")


def anthropic(gateway: Gateway, stream: bool) -> None:
    tools = [{"name": "shell", "input_schema": PARAMETERS}]
    messages: list[Body] = [{"role": "user", "content": ASKED}]

    def say(**more: Any) -> None:
        system = [{"type": "text", "text": SYSTEM}]
        body = {"model": "claude-sonnet-4-5", "system": system, "max_tokens": 100, "messages": messages}
        ask(gateway, {**body, "stream": stream, **more}, path="/anthropic/v1/messages")

    say(tools=tools)
    call = {"type": "tool_use", "id": "toolu_call_1", "name": "shell", "input": ARGUMENTS}
    result = {"type": "tool_result", "tool_use_id": "toolu_call_1", "content": [{"type": "text", "text": RESULT}]}
    messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    say()
    cached = {"type": "text", "text": MORE, "cache_control": {"type": "ephemeral"}}
    messages += [{"role": "assistant", "content": REPLY}, {"role": "user", "content": [cached]}]
    say()


def gemini(gateway: Gateway, stream: bool) -> None:
    tools = [{"functionDeclarations": [{"name": "shell", "parameters": PARAMETERS}]}]
    contents: list[Body] = [{"role": "user", "parts": [{"text": ASKED}]}]
    what = "streamGenerateContent?alt=sse" if stream else "generateContent"

    def say(**more: Any) -> None:
        body = {"systemInstruction": {"parts": [{"text": SYSTEM}]}, "contents": contents, **more}
        ask(gateway, body, path=f"/gemini/v1beta/models/gemini-2.5-flash:{what}")

    say(tools=tools)
    contents += [
        {"role": "model", "parts": [{"functionCall": {"name": "shell", "args": ARGUMENTS}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "shell", "response": {"output": RESULT}}}]},
    ]
    say()
    contents += [{"role": "model", "parts": [{"text": REPLY}]}, {"role": "user", "parts": [{"text": MORE}]}]
    say()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("talk", [chat, responses, responses_that_refer, anthropic, gemini])
def test_each_api_gives_the_same_steps(
    talk: Callable[[Gateway, bool], None], stream: bool, gateway: Gateway, upstream: Upstream, run_dir: Path
) -> None:
    talk(gateway, stream)
    ask(gateway, {"model": "gpt-4o", "messages": [{"role": "user", "content": "A title, please."}]}, path=CHAT)
    gateway.__exit__(None, None, None)
    found = build(run_dir, agent="toy", version="1")
    assert found is not None and problems(found) == []
    steps = found["steps"]
    assert [(step["source"], step["message"]) for step in steps] == [
        ("system", SYSTEM),
        ("user", ASKED),
        ("agent", ""),
        ("agent", REPLY),
        ("user", MORE),
        ("agent", REPLY),
    ]
    (call,) = steps[2]["tool_calls"]
    assert (call["function_name"], call["arguments"]) == ("shell", ARGUMENTS)
    (result,) = steps[2]["observation"]["results"]
    assert result["source_call_id"] == call["tool_call_id"] and RESULT in result["content"]
    assert "shell" in json.dumps(found["agent"]["tool_definitions"])
    (title,) = found["subagent_trajectories"]
    assert [step["message"] for step in title["steps"]] == ["A title, please.", REPLY]
    calls = [entry for entry in read_calls(run_dir) if entry["kind"] == "generate"]
    assert len(calls) == 4
    assert found["final_metrics"]["total_prompt_tokens"] == sum(entry["tokens"]["input"] for entry in calls[:3])
    assert found["final_metrics"]["total_cost_usd"] == pytest.approx(sum(entry["cost"] for entry in calls[:3]))
    times = [step["timestamp"] for step in steps]
    assert times == sorted(times)


# Recordings written by hand, as chats because these are the shortest.


def recorded(run_dir: Path, *requests: tuple[list[Body], Any], tools: list[Body] | None = None) -> Path:
    """Record calls, given as messages and response; a number is the status of a call without a response."""
    run_dir.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(run_dir)
    for number, (messages, answer) in enumerate(requests, 1):
        failed = isinstance(answer, int)
        call = Call(number=number, provider="openai", flavour="openai", kind="generate", model="gpt-4o")
        call.status, call.tokens = (answer, None) if failed else (200, Tokens(10, 0, 0, 5, 0))
        body: Body = {"path": "/v1/chat/completions", "request": {"messages": messages, "tools": tools or []}}
        if not failed:
            message = answer if isinstance(answer, dict) else {"role": "assistant", "content": answer}
            body["response"] = {"choices": [{"message": message}]}
        ledger.write(call)
        ledger.write_bodies(call.number, body)
    ledger.close()
    return run_dir


def trajectory(run_dir: Path, *requests: tuple[list[Body], Any], **options: Any) -> Trajectory:
    found = build(recorded(run_dir, *requests), agent="toy", **options)
    assert found is not None and problems(found) == []
    return found


def user(text: str) -> Body:
    return {"role": "user", "content": text}


def agent(text: str) -> Body:
    return {"role": "assistant", "content": text}


def said(found: Trajectory) -> list[str]:
    return [step["message"] for step in found["steps"]]


def others(found: Trajectory) -> list[list[str]]:
    return [said(other) for other in found.get("subagent_trajectories", [])]


def test_a_run_without_a_recording_has_no_trajectory(tmp_path: Path) -> None:
    assert build(tmp_path, agent="toy") is None


def test_a_failed_and_retried_call_counts_once(tmp_path: Path) -> None:
    first = [user("a")]
    found = trajectory(tmp_path, (first, 429), (first, 500), (first, "b"), ([*first, agent("b"), user("c")], "d"))
    assert said(found) == ["a", "b", "c", "d"] and others(found) == []
    assert found["notes"] == "2 calls had no answer."


def test_a_later_failed_and_retried_call_counts_once(tmp_path: Path) -> None:
    longer = [user("a"), agent("b"), user("c")]
    found = trajectory(tmp_path, ([user("a")], "b"), (longer, 529), (longer, 529), (longer, "d"))
    assert said(found) == ["a", "b", "c", "d"] and others(found) == []


def test_concurrent_conversations_are_kept_apart(tmp_path: Path) -> None:
    found = trajectory(
        tmp_path,
        ([user("a")], "ok"),
        ([user("x")], "ok"),
        ([user("a"), agent("ok"), user("b")], "ok"),
        ([user("x"), agent("ok"), user("y")], "ok"),
        ([user("a"), agent("ok"), user("b"), agent("ok"), user("c")], "done"),
    )
    assert said(found) == ["a", "ok", "b", "ok", "c", "done"]
    assert others(found) == [["x", "ok", "y", "ok"]]


def test_a_conversation_without_its_start_is_continued(tmp_path: Path) -> None:
    found = trajectory(
        tmp_path,
        ([user("a")], "one"),
        ([user("a"), agent("one"), user("b")], "two"),
        ([user("[the beginning is left out]"), agent("two"), user("c")], "three"),
    )
    assert said(found) == ["a", "one", "b", "two", "c", "three"] and others(found) == []


def test_a_conversation_with_edited_responses_is_continued(tmp_path: Path) -> None:
    found = trajectory(
        tmp_path,
        ([user("a")], "Thought: look. Observation: made up"),
        ([user("a"), agent("Thought: look."), user("b")], "two"),
        ([user("a"), agent("Thought: look."), user("b"), agent("two"), user("c")], "three"),
    )
    assert said(found) == ["a", "Thought: look. Observation: made up", "b", "two", "c", "three"]


def test_a_conversation_that_returns_to_an_earlier_point_starts_a_new_one_with_copied_steps(tmp_path: Path) -> None:
    start = [user("a"), agent("b")]
    found = trajectory(
        tmp_path,
        ([user("a")], "b"),
        ([*start, user("c")], "d"),
        ([*start, user("c"), agent("d"), user("e")], "f"),
        ([*start, user("other way")], "g"),
    )
    assert said(found) == ["a", "b", "c", "d", "e", "f"]
    (other,) = found["subagent_trajectories"]
    assert [(step["message"], step.get("is_copied_context", False)) for step in other["steps"]] == [
        *(("a", True), ("b", True), ("other way", False), ("g", False))
    ]


def test_calls_are_ordered_by_their_start(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for number in (2, 3, 1):
        call = Call(number=number, flavour="openai", kind="generate", status=200)
        request = {"messages": [user(str(number))]}
        answer = {"choices": [{"message": agent("x" * number)}]}
        ledger.write(call)
        ledger.write_bodies(call.number, {"path": "/v1/chat/completions", "request": request, "response": answer})
    ledger.close()
    found = build(tmp_path, agent="toy")
    assert found is not None and [said(found), *others(found)] == [["1", "x"], ["2", "xx"], ["3", "xxx"]]


@pytest.mark.parametrize(
    "values",
    [
        *[{"started_at": "2024-01-01T00:00:00", "seconds": value} for value in (1e300, 9e11, float("inf"))],
        {"started_at": "9999-12-31T23:59:59", "seconds": 5},
        {"number": [1]},
        {"tokens": {"input": "x"}},
    ],
    ids=str,
)
def test_a_ledger_of_someone_else_is_not_trusted(tmp_path: Path, values: dict[str, Any]) -> None:
    recorded(tmp_path, ([user("a")], "b"))
    line = {"number": 1, "kind": "generate", "flavour": "openai", "status": 200, **values}
    (tmp_path / CALLS).write_text(json.dumps(line) + "\n")
    found = build(tmp_path, agent="toy")
    assert found is not None and problems(found) == [] and said(found) == ["a", "b"]


@pytest.mark.parametrize("depth", [80, 95, 100, 600, 5000])
def test_a_trajectory_with_deep_arguments_can_be_read(tmp_path: Path, depth: int) -> None:
    deep = '{"a":' * depth + "1" + "}" * depth
    function = {"name": "f", "arguments": deep}
    calling = {"role": "assistant", "tool_calls": [{"id": "1", "function": function}]}
    tools = [{"type": "function", "function": {"name": "f", "parameters": json.loads(deep) if depth < 96 else {}}}]
    found = build(recorded(tmp_path, ([user("a")], calling), ([user("x")], calling), tools=tools), agent="toy")
    assert found is not None and problems(found) == []
    content = json.dumps(found)
    assert loads(content) == found and (deep[:400].replace(":", ": ") in content) == (depth == 80)


def test_results_without_a_call_and_repeated_ids_are_accepted(tmp_path: Path) -> None:
    function = {"name": "shell", "arguments": "{not json"}
    twice = {"role": "assistant", "tool_calls": [{"id": "1", "function": function}, {"id": "1", "function": function}]}
    result = {"role": "tool", "tool_call_id": "1", "content": "fine"}
    stray = {"role": "tool", "tool_call_id": "gone", "content": "stray"}
    found = trajectory(tmp_path, ([user("a")], twice), ([user("a"), twice, result, result, stray], "b"))
    (call,) = found["steps"][1]["tool_calls"]
    assert call["arguments"] == {"input": "{not json"}
    assert [one["content"] for one in found["steps"][1]["observation"]["results"]] == ["fine"]
    assert said(found) == ["a", "", "fine", "stray", "b"]


@pytest.mark.parametrize(
    "messages",
    [
        None,
        "text",
        [None, 1, "x", []],
        [{"role": 1, "content": {"a": 1}}],
        [{"role": "assistant", "content": 1, "tool_calls": {"id": 1}}],
        [{"role": "assistant", "tool_calls": [{"id": 1, "function": "x"}, None, {"function": {"arguments": [1]}}]}],
        [{"role": "tool", "content": [{"type": "image_url"}, 5]}],
        [{"role": "user", "content": [{"type": "text", "text": 5}, {"type": {}, "x": "\ud800"}]}],
    ],
)
def test_requests_of_any_shape_are_accepted(tmp_path: Path, messages: Any) -> None:
    for flavour, path in (
        ("openai", "/v1/chat/completions"),
        ("openai", "/v1/responses"),
        ("anthropic", ""),
        ("gemini", ""),
    ):
        ledger = Ledger(tmp_path / f"{flavour}{path}")
        for number in (1, 2):
            request = dict.fromkeys(("messages", "input", "contents", "system", "instructions", "tools"), messages)
            response = {"choices": messages, "output": messages, "content": messages, "candidates": messages}
            call = Call(number=number, flavour=flavour, kind="generate", status=200)
            ledger.write(call)
            ledger.write_bodies(call.number, {"path": path, "request": request, "response": response})
        ledger.close()
        found = build(tmp_path / f"{flavour}{path}", agent="toy")
        assert found is None or problems(found) == []


def test_a_trajectory_is_bounded(tmp_path: Path) -> None:
    calls = ([user("a" * 5000)], "b" * 500), *(([user(str(k) * 900)], "c") for k in range(9))
    found = trajectory(tmp_path, *calls, max_characters=4000, max_text=1000)
    assert found["steps"][0]["message"] == "a" * 1000 + "… [4,000 characters left out]"
    assert len(json.dumps(found)) < 12_000


@pytest.mark.parametrize(
    "messages",
    [
        [user("x")] * 60,
        [{"role": "tool", "tool_call_id": "1", "content": "x"}] * 60,
        [{"role": "assistant", "tool_calls": [{"id": str(k), "function": {}} for k in range(60)]}],
    ],
    ids=["messages", "results", "calls"],
)
def test_a_trajectory_has_a_limited_number_of_entries(tmp_path: Path, messages: list[Body]) -> None:
    found = trajectory(tmp_path, ([user("a")], "b"), (messages, "c"), ([user("d")], "e"), max_entries=50)
    assert json.dumps(found).count('"message":') + json.dumps(found).count('"tool_call_id":') in (49, 50)
    assert "ends at call 2: it contains 50 messages, tool calls and results" in found["notes"]
    assert "notes" not in trajectory(tmp_path / "other", (messages, "c"), max_entries=62)


def test_tools_of_many_conversations_take_limited_memory(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "f", "description": "x" * 1_000_000}}]
    calls = (([user(str(k))], "b") for k in range(20))
    found = build(recorded(tmp_path, *calls, tools=tools), agent="toy")
    assert found is not None and len(json.dumps(found)) < 17 << 20


def test_many_tool_calls_of_one_message_take_linear_time(tmp_path: Path) -> None:
    cleaned = []

    def clean(text: str) -> str:
        cleaned.append(text)
        return text

    calls = [{"id": str(k), "function": {"name": "f", "arguments": "{}"}} for k in range(1000)]
    found = trajectory(tmp_path, ([{"role": "assistant", "tool_calls": calls}], "b"), clean=clean)
    assert len(found["steps"][0]["tool_calls"]) == 1000 and len(cleaned) < 5000


def test_many_messages_of_an_agent_are_merged_in_linear_time() -> None:
    class Results(tuple[ToolResult, ...]):
        copied = 0

        def __add__(self, other: Any) -> Any:
            Results.copied += len(self) + len(other)
            return Results((*self, *other))

        def __iter__(self) -> Iterator[ToolResult]:
            Results.copied += len(self)
            return super().__iter__()

    results = [ToolResult(id=str(k), content="x") for k in range(1000)]
    (merged,) = merge_messages(Message(role="results", results=Results((result,))) for result in results)
    assert merged.results == tuple(results) and Results.copied == 1000


def test_the_time_limit_is_respected(tmp_path: Path) -> None:
    found = trajectory(tmp_path, ([user("a")], "b"), ([user("x")], "y"), seconds=-1)
    assert said(found) == ["a", "b"] and "ends at call 1:" in found["notes"]


def test_secrets_are_masked_in_every_text(tmp_path: Path) -> None:
    secret = "hunter2-hunter2-hunter2"
    function = {"name": secret, "arguments": json.dumps({"key": secret})}
    tool_calls = [{"id": id, "function": function} for id in (secret, "x" * 190 + secret)]
    calls = {"role": "assistant", "content": secret[::-1], "tool_calls": tool_calls}
    result = {"role": "tool", "tool_call_id": secret, "content": secret.encode().hex()}
    found = trajectory(
        tmp_path,
        ([{"role": "system", "content": secret}, user(secret)], calls),
        ([{"role": "system", "content": secret}, user(secret), calls, result], "b"),
        clean=Redactor([secret]).text,
    )
    text = json.dumps(found)
    assert "hunter2" not in text and "2retnuh" not in text and secret.encode().hex() not in text
    assert found["steps"][2]["observation"]["results"][0]["source_call_id"] == "***"
