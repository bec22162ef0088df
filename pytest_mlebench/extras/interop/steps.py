"""What a trajectory says of each model call: the messages that it added, the answer, the tools that this called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Step:
    """A call; messages have the form of OpenTelemetry's ``gen_ai.input.messages``."""

    input: list[dict[str, Any]]
    output: list[dict[str, Any]]
    tools: list[Mapping[str, Any]]
    results: Mapping[str, str]
    next_call: str | None
    """The number of the call that the tools' results went into; None if there was none."""


def steps_by_call(found: Mapping[str, Any] | None) -> dict[str, Step]:
    """What a trajectory says of each call, by its number."""
    made: dict[str, Step] = {}
    others = found.get("subagent_trajectories") if found else None
    for own in [found, *_list(others)]:
        given = own.get("steps") if isinstance(own, Mapping) else None
        made |= _steps_of([step for step in _list(given) if isinstance(step, Mapping)])
    return made


def _steps_of(steps: list[Mapping[str, Any]]) -> dict[str, Step]:
    made: dict[str, Step] = {}
    said: list[dict[str, Any]] = []
    answers = [step for step in steps if step.get("llm_call_count") == 1]
    numbers = [_number(step) for step in answers]
    following = iter([*numbers[1:], None])
    for step in steps:
        message = {"role": "assistant" if step.get("source") == "agent" else str(step.get("source"))}
        parts: list[dict[str, Any]] = [{"type": "text", "content": step.get("message")}] if step.get("message") else []
        tools = [tool for tool in _list(step.get("tool_calls")) if isinstance(tool, Mapping)]
        parts += [
            {
                "type": "tool_call",
                "id": t.get("tool_call_id"),
                "name": t.get("function_name"),
                "arguments": t.get("arguments"),
            }
            for t in tools
        ]
        observation = step.get("observation")
        gave = observation.get("results") if isinstance(observation, Mapping) else None
        results = {
            str(own.get("source_call_id")): str(own.get("content")) for own in _list(gave) if isinstance(own, Mapping)
        }
        whole = {**message, "parts": parts}
        if step.get("llm_call_count") == 1:
            made[_number(step)] = Step(said, [whole], tools, results, next(following))
            said = []
        else:
            said.append(whole)
        if results:
            answered = [{"type": "tool_call_response", "id": id, "response": text} for id, text in results.items()]
            said.append({"role": "tool", "parts": answered})
    return made


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(step: Mapping[str, Any]) -> str:
    extra = step.get("extra")
    found = extra.get("call") if isinstance(extra, Mapping) else None
    return str(found)
