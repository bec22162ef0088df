"""The providers' official clients work unchanged through the gateway."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors as genai_errors
from google.genai import types as genai_types

from pytest_mlebench.llm.gateway import Gateway
from pytest_mlebench.llm.ledger import read_bodies, read_calls
from tests.llm.conftest import Start
from tests.llm.talking import until
from tests.llm.upstreams import ARGUMENTS, CACHED, KEY, REASONING, REPLY, Failure, Upstream

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n not really a picture").decode()
QUESTION = "What should the first model be?"
WORDS = len(QUESTION.split())
REPLY_WORDS = len(REPLY.split())
TOOL = {
    "name": "shell",
    "description": "Runs a command",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
}


@pytest.fixture
def openai_client(gateway: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.url}/openai/v1", api_key=gateway.token, max_retries=0) as client:
        yield client


@pytest.fixture
def anthropic_client(gateway: Gateway) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=f"{gateway.url}/anthropic", api_key=gateway.token, max_retries=0) as client:
        yield client


@pytest.fixture
def gemini_client(gateway: Gateway) -> Iterator[genai.Client]:
    options = genai_types.HttpOptions(base_url=f"{gateway.url}/gemini")
    with closing(genai.Client(api_key=gateway.token, http_options=options)) as client:
        yield client


def call_of(gateway: Gateway, run_dir: Path) -> dict[str, Any]:
    (call,) = read_calls(run_dir)
    assert gateway.token not in json.dumps(call)
    return call


def body_of(gateway: Gateway, run_dir: Path) -> dict[str, Any]:
    gateway.close()
    (body,) = read_bodies(run_dir)
    return body


def test_a_chat_completion_is_answered_and_recorded(
    openai_client: openai.OpenAI, gateway: Gateway, upstream: Upstream, run_dir: Path
) -> None:
    answer = openai_client.chat.completions.create(
        model="gpt-4o", messages=[{"role": "user", "content": QUESTION}], extra_body={"x_unknown": {"deep": [1, 2.5]}}
    )

    assert answer.choices[0].message.content == REPLY
    assert answer.model_extra == {"x_unknown": {"kept": True}}
    assert upstream.seen[0].headers["Authorization"] == f"Bearer {KEY}"
    assert "x_unknown" not in upstream.seen[0].body  # an unlisted field is dropped and noted
    call = call_of(gateway, run_dir)
    assert call["dropped"] == ["x_unknown"]
    assert (call["provider"], call["model"], call["answered_model"], call["status"]) == (
        "openai",
        "gpt-4o",
        "gpt-4o",
        200,
    )
    assert call["tokens"] == {
        "input": WORDS + CACHED + 1,
        "output": REPLY_WORDS + REASONING,
        "cached": CACHED,
        "cache_written": 0,
        "reasoning": REASONING,
    }
    # Dollars per million tokens: 2.50 for input, 1.25 for cached input, 10 for output.
    assert call["cost"] == pytest.approx(((WORDS + 1) * 2.5 + CACHED * 1.25 + (REPLY_WORDS + REASONING) * 10) / 1e6)
    body = body_of(gateway, run_dir)
    assert body["request"]["messages"][0]["content"] == QUESTION
    assert body["response"]["choices"][0]["message"]["content"] == REPLY


@pytest.mark.parametrize("asked", [True, False], ids=["usage requested", "usage not requested"])
def test_a_chat_stream_is_identical_through_the_gateway(
    asked: bool, openai_client: openai.OpenAI, gateway: Gateway, upstream: Upstream, run_dir: Path
) -> None:
    options: dict[str, Any] = {"stream_options": {"include_usage": True}} if asked else {}
    chunks = list(
        openai_client.chat.completions.create(
            model="gpt-4o", messages=[{"role": "user", "content": QUESTION}], stream=True, **options
        )
    )

    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == REPLY
    assert all(chunk.choices for chunk in chunks) is not asked
    assert [chunk.usage for chunk in chunks if chunk.usage] == ([chunks[-1].usage] if asked else [])
    if not asked:
        assert all("usage" not in chunk.model_fields_set for chunk in chunks)
    assert upstream.seen[0].body["stream_options"] == {"include_usage": True}
    call = call_of(gateway, run_dir)
    assert call["tokens"]["input"] == WORDS + CACHED + 1
    assert call["tokens"]["output"] == REPLY_WORDS + REASONING
    assert call["cost"] > 0
    assert body_of(gateway, run_dir)["response"]["choices"][0]["message"] == {"role": "assistant", "content": REPLY}


def _ask(client: Any, how: str, stream: bool) -> None:
    messages: Any = [{"role": "user", "content": f"{QUESTION} use the tool"}]
    extra: dict[str, Any] = {"stream": True} if stream else {}
    match how:
        case "chat":
            tools: Any = [{"type": "function", "function": TOOL}]
            answer = client.chat.completions.create(model="gpt-4o", messages=messages, tools=tools, **extra)
        case "responses":
            tools = [{"type": "function", **TOOL, "strict": False}]
            answer = client.responses.create(model="gpt-4o", input=messages, tools=tools, **extra)
        case "messages":
            tools = [{"name": "shell", "input_schema": TOOL["parameters"]}]
            answer = client.messages.create(
                model="claude-sonnet-4-6", max_tokens=500, messages=messages, tools=tools, **extra
            )
        case _:
            tool = genai_types.Tool(function_declarations=[genai_types.FunctionDeclaration(name="shell")])
            config = genai_types.GenerateContentConfig(tools=[tool])
            method = client.models.generate_content_stream if stream else client.models.generate_content
            answer = method(model="gemini-2.5-pro", contents=messages[0]["content"], config=config)
    if stream:
        list(answer)


@pytest.mark.parametrize("how", ["chat", "responses", "messages", "gemini"])
def test_an_assembled_stream_equals_the_unstreamed_response(how: str, start: Start, tmp_path: Path) -> None:
    bodies, calls = [], []
    for stream in (False, True):
        gateway = start(f"run-{stream}")
        clients: dict[str, Any] = {
            "messages": lambda gateway=gateway: anthropic.Anthropic(
                base_url=f"{gateway.url}/anthropic", api_key=gateway.token
            ),
            "gemini": lambda gateway=gateway: genai.Client(
                api_key=gateway.token, http_options=genai_types.HttpOptions(base_url=f"{gateway.url}/gemini")
            ),
        }
        make = clients.get(
            how,
            lambda gateway=gateway: openai.OpenAI(base_url=f"{gateway.url}/openai/v1", api_key=gateway.token),
        )
        with closing(make()) as client:
            _ask(client, how, stream)
        gateway.close()
        bodies += list(read_bodies(tmp_path / "group" / f"run-{stream}"))
        calls += read_calls(tmp_path / "group" / f"run-{stream}")

    whole, stream_ = (body["response"] for body in bodies)
    for answer in (whole, stream_):  # only one API has this field
        for choice in answer.get("choices", ()):
            choice.pop("logprobs", None)
    assert stream_ == whole
    assert json.dumps(ARGUMENTS)[1:20] in json.dumps(whole).replace('\\"', '"')
    assert calls[0]["tokens"] == calls[1]["tokens"]
    assert calls[0]["cost"] == calls[1]["cost"] > 0
    assert [call["stream"] for call in calls] == [False, True]


def test_the_responses_api_works_whole_and_streamed(
    openai_client: openai.OpenAI, gateway: Gateway, upstream: Upstream, run_dir: Path
) -> None:
    whole = openai_client.responses.create(model="gpt-5", input=QUESTION)
    with openai_client.responses.stream(model="gpt-5", input=QUESTION) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()

    assert whole.output_text == final.output_text == "".join(deltas) == REPLY
    first, second = read_calls(run_dir)
    assert first["tokens"] == second["tokens"]
    assert first["tokens"]["reasoning"] == REASONING


@pytest.mark.parametrize("stream", [False, True])
def test_a_run_can_continue_only_its_own_responses(
    stream: bool, openai_client: openai.OpenAI, start: Start, upstream: Upstream
) -> None:
    """Data that a provider stores for other runs or users would bypass the sandbox."""
    if stream:
        with openai_client.responses.stream(model="gpt-5", input=QUESTION) as events:
            first: Any = events.get_final_response()
    else:
        first = openai_client.responses.create(model="gpt-5", input=QUESTION)
    continued: list[Any] = [
        {"previous_response_id": first.id, "input": "And then?"},
        {"input": [{"type": "item_reference", "id": first.output[0].id}, {"role": "user", "content": "And then?"}]},
        {"input": [{"id": first.output[0].id}, {"role": "user", "content": "And then?"}]},
    ]
    for asked in continued:
        assert openai_client.responses.create(model="gpt-5", **asked).output_text == REPLY
    assert upstream.seen[1].body["previous_response_id"] == "resp_1"
    assert upstream.seen[2].body["input"][0] == {"type": "item_reference", "id": "msg_1"}
    assert len(upstream.seen) == 4

    other = start("other")
    with openai.OpenAI(base_url=f"{other.url}/openai/v1", api_key=other.token, max_retries=0) as client:
        for asked in continued:
            with pytest.raises(openai.BadRequestError, match="this run has received no answer with"):
                client.responses.create(model="gpt-5", **asked)
    assert len(upstream.seen) == 4


def test_the_messages_api_works_whole_and_streamed(
    anthropic_client: anthropic.Anthropic, upstream: Upstream, run_dir: Path
) -> None:
    asked: Any = {
        "model": "claude-sonnet-4-6",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": QUESTION}],
        "extra_headers": {"anthropic-beta": "context-1m-2025-08-07"},
    }
    whole = anthropic_client.messages.create(**asked)
    with anthropic_client.messages.stream(**asked) as stream:
        said = "".join(stream.text_stream)
        final = stream.get_final_message()

    assert [whole.content[0].text, said, final.content[0].text] == [REPLY] * 3  # type: ignore[union-attr]
    for seen in upstream.seen:
        headers = {name.lower(): value for name, value in seen.headers.items()}
        assert headers["anthropic-beta"] == "context-1m-2025-08-07"
        assert headers["anthropic-version"].startswith("20")
        assert headers["x-api-key"] == KEY
    first, second = read_calls(run_dir)
    assert first["tokens"] == second["tokens"]
    assert first["tokens"]["input"] == WORDS + 1 + 5 + CACHED
    assert (first["tokens"]["cache_written"], first["tokens"]["cached"]) == (5, CACHED)
    assert first["cost"] == second["cost"] > 0


def test_gemini_works_whole_and_streamed(gemini_client: genai.Client, upstream: Upstream, run_dir: Path) -> None:
    whole = gemini_client.models.generate_content(model="gemini-2.5-pro", contents=QUESTION)
    chunks = list(gemini_client.models.generate_content_stream(model="gemini-2.5-pro", contents=QUESTION))

    assert whole.text == "".join(chunk.text or "" for chunk in chunks) == REPLY
    assert {name.lower(): value for name, value in upstream.seen[0].headers.items()}["x-goog-api-key"] == KEY
    assert upstream.seen[1].query == "alt=sse"
    first, second = read_calls(run_dir)
    assert first["tokens"] == second["tokens"]
    assert first["model"] == "gemini-2.5-pro"
    assert first["tokens"]["reasoning"] == REASONING


def test_free_calls_are_recorded_without_a_cost(
    openai_client: openai.OpenAI,
    anthropic_client: anthropic.Anthropic,
    gemini_client: genai.Client,
    gateway: Gateway,
    run_dir: Path,
) -> None:
    assert [model.id for model in openai_client.models.list()] == ["gpt-4o"]
    counted = anthropic_client.messages.count_tokens(
        model="claude-sonnet-4-6", messages=[{"role": "user", "content": QUESTION}]
    )
    assert counted.input_tokens > 0
    assert gemini_client.models.count_tokens(model="gemini-2.5-pro", contents=QUESTION).total_tokens
    assert openai_client.embeddings.create(model="text-embedding-3-small", input="x", encoding_format="float").data[
        0
    ].embedding == [0.5, -0.25]

    calls = read_calls(run_dir)
    assert [call["kind"] for call in calls] == ["models", "count", "count", "embed"]
    assert [call["cost"] for call in calls[:3]] == [0, 0, 0]
    assert calls[3]["tokens"]["input"] == 8
    assert gateway.totals.calls == 1


def test_inline_images_pass(
    openai_client: openai.OpenAI,
    anthropic_client: anthropic.Anthropic,
    gemini_client: genai.Client,
    upstream: Upstream,
) -> None:
    url = f"data:image/png;base64,{PNG}"
    image: Any = {"type": "image_url", "image_url": {"url": url}}
    openai_client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": [image]}])
    inline: Any = {"role": "user", "content": [{"type": "input_image", "image_url": url, "detail": "auto"}]}
    openai_client.responses.create(model="gpt-4o", input=[inline])
    block: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    anthropic_client.messages.create(
        model="claude-sonnet-4-6", max_tokens=9, messages=[{"role": "user", "content": [block]}]
    )
    part = genai_types.Part.from_bytes(data=base64.b64decode(PNG), mime_type="image/png")
    gemini_client.models.generate_content(model="gemini-2.5-pro", contents=part)

    assert all(PNG in seen.raw.decode() for seen in upstream.seen)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_providers_error_is_forwarded_unchanged(
    stream: bool,
    openai_client: openai.OpenAI,
    anthropic_client: anthropic.Anthropic,
    gemini_client: genai.Client,
    upstream: Upstream,
    gateway: Gateway,
) -> None:
    body: dict[str, Any] = {"error": {"message": "slow down", "type": "tokens", "code": "rate_limit_exceeded", "x": 1}}
    upstream.failures.append(Failure(429, body, {"retry-after": "17", "x-request-id": "abc"}))
    with pytest.raises(openai.RateLimitError) as openai_error:
        openai_client.chat.completions.create(
            model="gpt-4o", messages=[{"role": "user", "content": "x"}], stream=stream
        )
    assert openai_error.value.response.headers["retry-after"] == "17"
    assert openai_error.value.request_id == "abc"
    assert openai_error.value.response.json() == body

    upstream.failures.append(
        Failure(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    )
    with pytest.raises(anthropic.APIStatusError) as anthropic_error:
        anthropic_client.messages.create(
            model="claude-sonnet-4-6", max_tokens=9, messages=[{"role": "user", "content": "x"}], stream=stream
        )
    assert anthropic_error.value.status_code == 529

    upstream.failures.append(
        Failure(400, {"error": {"code": 400, "message": "bad schema", "status": "INVALID_ARGUMENT"}})
    )
    with pytest.raises(genai_errors.ClientError, match="bad schema"):
        gemini_client.models.generate_content(model="gemini-2.5-pro", contents="x")

    assert gateway.totals.errors == {"429": 1, "529": 1, "400": 1}
    assert gateway.totals.calls == 0


def test_a_cancelled_stream_is_cancelled_at_the_provider(
    openai_client: openai.OpenAI, gateway: Gateway, upstream: Upstream, run_dir: Path
) -> None:
    upstream.pause = 0.2
    stream = openai_client.chat.completions.create(
        model="gpt-4o", messages=[{"role": "user", "content": QUESTION}], stream=True
    )
    next(iter(stream))
    stream.close()
    openai_client.close()

    until(lambda: upstream.cancelled == 1)
    until(lambda: read_calls(run_dir))
    call = call_of(gateway, run_dir)
    assert call["error"] == "cancelled by the client"
    assert call["tokens"] is None
    assert call["cost"] is None


def test_a_stream_is_forwarded_without_delay(openai_client: openai.OpenAI, upstream: Upstream) -> None:
    """Each event arrives before the next one is sent."""
    upstream.endless = True
    stream = openai_client.chat.completions.create(
        model="gpt-4o", messages=[{"role": "user", "content": QUESTION}], stream=True
    )
    chunks = iter(stream)
    assert [next(chunks).choices[0].delta.content for _ in range(3)] == ["", "Standard ", "scaling "]
    assert upstream.served == 0
    stream.close()
