"""What was said in a recorded call, in one form for all APIs: messages, with tools' calls and results.

Requests come from agents and answers from models, so nothing in them need be of the type that an API asks for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "user", "agent", "results"]


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A tool that a model called."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """What a tool gave; ``id`` is its call's."""

    id: str
    content: str


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message; ``results`` are only in messages of that role, ``calls`` and ``reasoning`` only in the agent's."""

    role: Role
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()

    @property
    def fingerprint(self) -> bytes:
        """Equal for messages that say the same: agents repeat no reasoning, and no spaces at the ends."""
        called = [[call.name, call.arguments] for call in self.calls]
        gave = [result.content for result in self.results]
        text = json.dumps([self.role, self.text.strip(), called, gave], sort_keys=True, default=str)
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


@dataclass(kw_only=True)
class Said:
    """A call: what the agent sent, and what the model answered (None if nothing came)."""

    messages: list[Message] = field(default_factory=list)
    answer: Message | None = None
    tools: list[dict[str, Any]] = field(default_factory=list)
    id: str | None = None
    """Of the answer, where a later request may refer to it."""
    previous: str | None = None
    """Of the answer that the request continues, without repeating it."""


def said_in(flavour: str, body: Mapping[str, Any]) -> Said:
    """What was said in a call as ``bodies.jsonl.zst`` has it."""
    request, answer = _mapping(body.get("request")), _mapping(body.get("response"))
    path = str(body.get("path"))
    if flavour == "anthropic":
        return _anthropic(request, answer)
    if flavour == "gemini":
        return _gemini(request, answer)
    return _responses(request, answer) if path.rstrip("/").endswith("/responses") else _chat(request, answer)


def _chat(request: Mapping[str, Any], answer: Mapping[str, Any]) -> Said:
    messages = _grouped(one for message in _mappings(request.get("messages")) for one in _chat_message(message))
    choices = _mappings(answer.get("choices"))
    reply = _chat_agent(_mapping(choices[0].get("message"))) if choices else None
    return Said(messages=messages, answer=reply, tools=_mappings(request.get("tools")))


def _chat_message(message: Mapping[str, Any]) -> Iterator[Message]:
    role = message.get("role")
    if role == "assistant":
        yield _chat_agent(message)
    elif role in ("tool", "function"):
        id = _text(message.get("tool_call_id") or message.get("name"))
        yield Message(role="results", results=(ToolResult(id=id, content=_content(message.get("content"))),))
    else:
        system = role in ("system", "developer")
        yield Message(role="system" if system else "user", text=_content(message.get("content")))


def _chat_agent(message: Mapping[str, Any]) -> Message:
    calls = []
    for call in _mappings(message.get("tool_calls")):
        function = _mapping(call.get("function") or call.get("custom"))
        calls.append(_call(call.get("id"), function.get("name"), function.get("arguments", function.get("input"))))
    if legacy := _mapping(message.get("function_call")):
        calls.append(_call(legacy.get("name"), legacy.get("name"), legacy.get("arguments")))
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    text = _content(message.get("content")) or _text(message.get("refusal"))
    return Message(role="agent", text=text, reasoning=_content(reasoning), calls=tuple(calls))


def _responses(request: Mapping[str, Any], answer: Mapping[str, Any]) -> Said:
    given = request.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else _mappings(given)
    messages = [Message(role="system", text=text)] if (text := _content(request.get("instructions"))) else []
    messages += _grouped(map(_item, items))
    output = [message for message in _grouped(map(_item, _mappings(answer.get("output")))) if message.role == "agent"]
    previous = request.get("previous_response_id")
    return Said(
        messages=messages,
        answer=output[0] if output else None,
        tools=_mappings(request.get("tools")),
        id=_text(answer.get("id")) or None,
        previous=previous if isinstance(previous, str) else None,
    )


def _item(item: Mapping[str, Any]) -> Message:
    """An item of a response's input or output."""
    type, id = _text(item.get("type") or "message"), item.get("call_id") or item.get("id")
    if type.endswith("_output"):
        return Message(role="results", results=(ToolResult(id=_text(id), content=_content(item.get("output"))),))
    if type == "reasoning":
        return Message(role="agent", reasoning=_content(item.get("summary")) or _content(item.get("content")))
    if type.endswith("_call"):
        given: Any = next((item[key] for key in ("arguments", "input", "action") if key in item), {})
        return Message(role="agent", calls=(_call(id, item.get("name") or type, given),))
    role, text = item.get("role"), _content(item.get("content"))
    if role == "assistant":
        return Message(role="agent", text=text)
    return Message(role="system" if role in ("system", "developer") else "user", text=text)


def _anthropic(request: Mapping[str, Any], answer: Mapping[str, Any]) -> Said:
    messages = [Message(role="system", text=text)] if (text := _content(request.get("system"))) else []
    for message in _mappings(request.get("messages")):
        if message.get("role") == "assistant":
            messages.append(_anthropic_agent(message.get("content")))
            continue
        blocks = message.get("content")
        results = [
            ToolResult(id=_text(block.get("tool_use_id")), content=_content(block.get("content")))
            for block in _mappings(blocks)
            if block.get("type") == "tool_result"
        ]
        if results:
            messages.append(Message(role="results", results=tuple(results)))
        rest = blocks
        if isinstance(blocks, list):
            rest = [block for block in blocks if _mapping(block).get("type") != "tool_result"]
        if rest or not results:
            messages.append(Message(role="user", text=_content(rest)))
    reply = _anthropic_agent(answer.get("content")) if answer else None
    return Said(messages=_grouped(messages), answer=reply, tools=_mappings(request.get("tools")))


def _anthropic_agent(content: Any) -> Message:
    blocks = _mappings(content)
    return Message(
        role="agent",
        text=content if isinstance(content, str) else _joined(b.get("text") for b in blocks if b.get("type") == "text"),
        reasoning=_joined(block.get("thinking") for block in blocks if block.get("type") == "thinking"),
        calls=tuple(
            _call(block.get("id"), block.get("name"), block.get("input"))
            for block in blocks
            if _text(block.get("type")).endswith("tool_use")
        ),
    )


def _gemini(request: Mapping[str, Any], answer: Mapping[str, Any]) -> Said:
    system = _mapping(request.get("systemInstruction") or request.get("system_instruction"))
    messages = [Message(role="system", text=text)] if (text := _content(system.get("parts"))) else []
    number, open_calls = 0, dict[str, list[str]]()
    for content in _mappings(request.get("contents")):
        message, number = _gemini_message(content, number, open_calls)
        messages += message
    candidates = _mappings(answer.get("candidates"))
    reply = None
    if candidates:
        content = {**_mapping(candidates[0].get("content")), "role": "model"}
        found, _ = _gemini_message(content, number, {})
        reply = found[0] if found else None
    tools = [
        declaration
        for tool in _mappings(request.get("tools"))
        for declaration in _mappings(tool.get("functionDeclarations") or tool.get("function_declarations"))
    ]
    return Said(messages=_grouped(messages), answer=reply, tools=tools)


def _gemini_message(
    content: Mapping[str, Any], number: int, open_calls: dict[str, list[str]]
) -> tuple[list[Message], int]:
    """A content's messages. Calls without an id are numbered, and results belong to the oldest call of the name."""
    parts = _mappings(content.get("parts"))
    calls, results = [], []
    for part in parts:
        if call := _mapping(part.get("functionCall") or part.get("function_call")):
            number += 1
            name = _text(call.get("name"))
            id = _text(call.get("id")) or f"call-{number}"
            open_calls.setdefault(name, []).append(id)
            calls.append(_call(id, name, call.get("args")))
        if gave := _mapping(part.get("functionResponse") or part.get("function_response")):
            waiting = open_calls.get(_text(gave.get("name"))) or [""]
            id = _text(gave.get("id")) or waiting.pop(0)
            results.append(ToolResult(id=id, content=_content(gave.get("response"))))
    text = _content([part for part in parts if not part.get("thought") and not part.keys() & _FUNCTIONS])
    if content.get("role") == "model":
        reasoning = _joined(part.get("text") for part in parts if part.get("thought"))
        return [Message(role="agent", text=text, reasoning=reasoning, calls=tuple(calls))], number
    messages = [Message(role="results", results=tuple(results))] if results else []
    return [*messages, *([Message(role="user", text=text)] if text or not results else [])], number


_FUNCTIONS = {"functionCall", "function_call", "functionResponse", "function_response"}


def _grouped(messages: Iterable[Message]) -> list[Message]:
    """The messages with what belongs together in one: an agent's reasoning, text and calls; several results."""
    grouped: list[Message] = []
    for message in messages:
        last = grouped[-1] if grouped else None
        if last is not None and last.role == message.role and message.role in ("agent", "results"):
            grouped[-1] = Message(
                role=message.role,
                text=_joined((last.text, message.text)),
                reasoning=_joined((last.reasoning, message.reasoning)),
                calls=last.calls + message.calls,
                results=last.results + message.results,
            )
        else:
            grouped.append(message)
    return grouped


def _call(id: Any, name: Any, arguments: Any) -> ToolCall:
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments)
        except (ValueError, RecursionError):
            parsed = None
        arguments = parsed if isinstance(parsed, dict) else {"input": arguments}
    return ToolCall(id=_text(id), name=_text(name), arguments=_mapping(arguments))


def _content(value: Any) -> str:
    """Content as text: of parts the texts, with a word for each of another kind."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return _joined(_part(part) for part in value)
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _part(part: Any) -> str:
    if not isinstance(part, Mapping):
        return _text(part)
    for key in ("text", "refusal", "thinking"):
        if isinstance(part.get(key), str):
            return str(part[key])
    if part.get("type") == "tool_result":
        return _content(part.get("content"))
    return f"[{_text(part.get('type')) or ', '.join(map(str, part))}]"[:100]


def _joined(texts: Iterable[Any]) -> str:
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
