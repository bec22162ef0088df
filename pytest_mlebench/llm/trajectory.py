"""A run's trajectory, made from the recording of its model calls: ``trajectory.json``, in ATIF 1.8.

ATIF is the Agent Trajectory Interchange Format, which other tools read. An agent repeats the conversation so far in
each request, so a conversation is put together from what each request adds to an earlier one. An agent may have
several: those of sub-agents, a call for a title, one that it begins anew. The longest is the trajectory, the others are
its ``subagent_trajectories``, in the order in which they began.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pytest_mlebench.io.units import pluralize
from pytest_mlebench.llm.api import Message, Said
from pytest_mlebench.llm.ledger import common_length, read_bodies, read_calls
from pytest_mlebench.llm.providers import said_in

TRAJECTORY = "trajectory.json"
"""In a run directory."""
SCHEMA_VERSION = "ATIF-v1.8"
SECONDS = 120.0
"""At most so long is spent on reading a recording."""
MAX_CHARACTERS = 16 << 20
"""Characters of all messages, results and arguments in a trajectory."""
MAX_TEXT = 256 << 10
"""Characters of one of them."""
MAX_CONVERSATIONS = 1000
_MAX_TOOLS = 1 << 20
_KEPT_BACK, _KEPT_BACK_BYTES = 16, 64 << 20

Trajectory = dict[str, Any]


@dataclass
class _Conversation:
    """Messages that follow each other, and the steps that they make."""

    tools: list[dict[str, Any]]
    prints: list[bytes] = field(default_factory=list)
    """The fingerprints of its messages, without the system's."""
    answered: int = 0
    """How many of these there are up to the last answer."""
    steps: list[dict[str, Any]] = field(default_factory=list)
    waiting: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The step of each call without a result, by the call's id."""
    answers: int = 0


class _Builder:
    """``clean`` takes secrets out of a text."""

    def __init__(self, clean: Callable[[str], str], max_characters: int, max_text: int) -> None:
        self.conversations: list[_Conversation] = []
        self.left_out = 0
        """Calls that are in no conversation."""
        self._clean = clean
        self._left, self._max_text = max_characters, max_text
        self._by_id: dict[str, _Conversation] = {}

    def add(self, said: Said, call: Mapping[str, Any]) -> None:
        """Take in a call; those before it come first."""
        messages = [message for message in said.messages if message.role != "system"]
        prints = [message.fingerprint for message in messages]
        conversation, known = self._place(said, messages, prints)
        copied = 0
        if conversation is None:
            if len(self.conversations) >= MAX_CONVERSATIONS:
                self.left_out += 1
                return
            conversation = _Conversation(tools=said.tools)
            self.conversations.append(conversation)
            for message in said.messages:
                if message.role == "system":
                    self._message(conversation, message, call)
            copied = next((at + 1 for at in reversed(range(len(messages))) if messages[at].role == "agent"), 0)
        for at, message in enumerate(messages[known:]):
            conversation.prints.append(prints[known + at])
            self._message(conversation, message, call, copied=at < copied)
        if said.answer is not None:
            conversation.prints.append(said.answer.fingerprint)
            conversation.answered = len(conversation.prints)
            if said.id:
                self._by_id[said.id] = conversation
            self._message(conversation, said.answer, call, is_answer=True)

    def _place(self, said: Said, messages: list[Message], prints: list[bytes]) -> tuple[_Conversation | None, int]:
        """The conversation that a request continues, and how many of its messages are known; None for a new one.

        What an agent repeats need not be all that was said: it leaves out old results, and cuts long ones. What tells
        is that it repeats the last answer; or all but this, which it may have changed.
        """
        if said.previous is not None and (found := self._by_id.get(said.previous)) is not None:
            rest = found.prints[found.answered :]
            return (found, len(rest)) if prints[: len(rest)] == rest else (None, 0)
        last = next((at for at in reversed(range(len(messages))) if messages[at].role == "agent"), -1)
        best: tuple[int, _Conversation] | None = None
        for conversation in self.conversations:
            own, rest = conversation.prints, conversation.prints[conversation.answered :]
            if prints[last + 1 :][: len(rest)] != rest or (last < 0) != (not conversation.answered):
                continue
            common = common_length(own, prints)
            repeats = last >= 0 and own[conversation.answered - 1] == prints[last]
            changed = last >= 0 and conversation.answered - 1 == last <= common
            if (last < 0 or repeats or changed) and (best is None or common >= best[0]):
                best = common, conversation
        if best is None:
            return None, 0
        conversation = best[1]
        known = last + 1 + len(conversation.prints) - conversation.answered
        if last >= 0:
            conversation.prints[conversation.answered - 1] = prints[last]
        return conversation, known

    def _message(
        self,
        conversation: _Conversation,
        message: Message,
        call: Mapping[str, Any],
        *,
        is_answer: bool = False,
        copied: bool = False,
    ) -> None:
        """Add what a message makes: a step, or the results of earlier steps' calls."""
        marks: dict[str, Any] = {"is_copied_context": True} if copied else {}
        if message.role == "results":
            for result in message.results:
                content = self._text(result.content)
                if (step := conversation.waiting.pop(result.id, None)) is not None:
                    results = step.setdefault("observation", {"results": []})["results"]
                    results.append({"source_call_id": self._id(result.id), "content": content})
                else:
                    marks["extra"] = {"result_of": self._id(result.id)}
                    self._step(conversation, "user", content, call, marks)
            return
        step = self._step(conversation, message.role, self._text(message.text), call, marks)
        if message.role != "agent":
            return
        if message.reasoning:
            step["reasoning_content"] = self._text(message.reasoning)
        if message.calls:
            step["tool_calls"] = []
            for number, made in enumerate(message.calls, 1):
                id = made.id or f"call-{len(conversation.steps)}-{number}"
                if any(other["tool_call_id"] == self._id(id) for other in step["tool_calls"]):
                    continue
                entry = {"tool_call_id": self._id(id), "function_name": self._text(made.name)}
                step["tool_calls"].append({**entry, "arguments": self._arguments(made.arguments)})
                conversation.waiting[id] = step
        if is_answer:
            conversation.answers += 1
            step["llm_call_count"] = 1
            step["timestamp"] = _moment(call, ended=True)
            if isinstance(model := call.get("answered_model") or call.get("model"), str) and model:
                step["model_name"] = self._clean(model)
            step["metrics"] = _metrics(call)
            step["extra"] = {"call": call.get("number")}

    @staticmethod
    def _step(
        conversation: _Conversation, source: str, text: str, call: Mapping[str, Any], marks: Mapping[str, Any]
    ) -> dict[str, Any]:
        step: dict[str, Any] = {"step_id": len(conversation.steps) + 1, "timestamp": _moment(call), "source": source}
        step |= {"message": text, **marks}
        conversation.steps.append(step)
        return step

    def _text(self, text: str) -> str:
        """The text without secrets, cut where it, or the trajectory, is too long."""
        text = self._clean(text)
        length = min(len(text), self._max_text, max(0, self._left))
        self._left -= length
        kept = text[:length]
        return kept if length == len(text) else f"{kept}… [{len(text) - length:,} characters left out]"

    def _id(self, id: str) -> str:
        return self._clean(id[:200])

    def _arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        text = json.dumps(arguments, ensure_ascii=False, default=str)
        if len(text) > min(self._max_text, self._left):
            return {"left_out": f"{len(text)} characters"}
        self._left -= len(text)
        found = json.loads(self._clean(text))
        return found if isinstance(found, dict) else {}


def build(
    run_dir: Path,
    *,
    agent: str,
    version: str = "unknown",
    clean: Callable[[str], str] = str,
    seconds: float = SECONDS,
    max_characters: int = MAX_CHARACTERS,
    max_text: int = MAX_TEXT,
) -> Trajectory | None:
    """The trajectory of a run, as ATIF has it; None where no call was recorded with what was said.

    ``clean`` takes secrets out of a text. Reading ends after ``seconds``; what is left out then is in ``notes``.
    """
    calls = {call.get("number"): call for call in read_calls(run_dir)}
    builder, notes = _Builder(clean, max_characters, max_text), []
    deadline = time.monotonic() + seconds
    for body in _in_order(run_dir, calls):
        call = calls.get(body.get("number"), {})
        if call.get("kind") not in ("generate", None):
            continue
        builder.add(said_in(str(call.get("flavour")), body), call)
        if time.monotonic() > deadline:
            notes.append(f"This is what was said until call {body.get('number')}; reading the recording took too long.")
            break
    conversations = [conversation for conversation in builder.conversations if conversation.steps]
    if not conversations:
        return None
    if builder.left_out:
        notes.append(f"Left out: {pluralize(builder.left_out, 'call')} of further conversations.")
    statuses = [call.get("status") for call in calls.values() if call.get("kind") == "generate"]
    if failed := sum(not isinstance(status, int) or status >= 300 for status in statuses):
        notes.append(f"{pluralize(failed, 'call')} had no answer.")
    longest = max(conversations, key=lambda one: (one.answers, len(one.steps)))
    described = {"name": agent, "version": version}
    trajectories = [_trajectory(one, number, described, clean) for number, one in enumerate(conversations, 1)]
    main = trajectories[conversations.index(longest)]
    main["session_id"] = run_dir.name
    if others := [other for other in trajectories if other is not main]:
        main["subagent_trajectories"] = others
    if notes:
        main["notes"] = " ".join(notes)
    return main


def _in_order(run_dir: Path, calls: Mapping[Any, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Bodies by number, though they were written as their calls ended; of parallel calls few are kept back."""
    waiting: dict[int, dict[str, Any]] = {}
    next_number = 1

    def size() -> int:
        known = (calls.get(number, {}) for number in waiting)
        return sum(int(call.get("request_bytes") or 0) + int(call.get("response_bytes") or 0) for call in known)

    for body in read_bodies(run_dir):
        number = body.get("number")
        if not isinstance(number, int):
            continue
        waiting[number] = body
        while waiting and (next_number in waiting or len(waiting) > _KEPT_BACK or size() > _KEPT_BACK_BYTES):
            next_number = next_number if next_number in waiting else min(waiting)
            yield waiting.pop(next_number)
            next_number += 1
    for number in sorted(waiting):
        yield waiting[number]


def _trajectory(
    conversation: _Conversation, number: int, agent: Mapping[str, Any], clean: Callable[[str], str]
) -> Trajectory:
    steps = conversation.steps
    model = next((step["model_name"] for step in steps if "model_name" in step), None)
    about: dict[str, Any] = {**agent, **({"model_name": model} if model else {})}
    tools = json.dumps(conversation.tools, ensure_ascii=False, default=str)
    if conversation.tools and len(tools) <= _MAX_TOOLS:
        about["tool_definitions"] = json.loads(clean(tools))
    metrics = [step["metrics"] for step in steps if "metrics" in step]
    final: dict[str, Any] = {"total_steps": len(steps)}
    for name, total in _TOTALS.items():
        values = [own[name] for own in metrics if name in own]
        if values and (name != "cost_usd" or len(values) == len(metrics)):
            final[total] = round(sum(values), 9) if name == "cost_usd" else sum(values)
    return {
        "schema_version": SCHEMA_VERSION,
        "trajectory_id": f"conversation-{number}",
        "agent": about,
        "steps": steps,
        "final_metrics": final,
    }


_TOTALS = {
    "prompt_tokens": "total_prompt_tokens",
    "completion_tokens": "total_completion_tokens",
    "cached_tokens": "total_cached_tokens",
    "cost_usd": "total_cost_usd",
}


def _metrics(call: Mapping[str, Any]) -> dict[str, Any]:
    tokens, metrics, extra = call.get("tokens"), dict[str, Any](), dict[str, Any]()
    if isinstance(tokens, Mapping):
        metrics["prompt_tokens"] = tokens.get("input", 0)
        metrics["completion_tokens"] = tokens.get("output", 0)
        metrics["cached_tokens"] = tokens.get("cached", 0)
        extra = {f"{name}_tokens": tokens[name] for name in ("cache_written", "reasoning") if tokens.get(name)}
    if isinstance(cost := call.get("cost"), int | float):
        metrics["cost_usd"] = cost
    seconds = {name: call[name] for name in ("seconds", "first_token") if isinstance(call.get(name), int | float)}
    return {**metrics, "extra": {**extra, **seconds}}


def _moment(call: Mapping[str, Any], *, ended: bool = False) -> str | None:
    """When a call began, or ended: ISO 8601 in UTC."""
    try:
        began = datetime.fromisoformat(str(call.get("started_at")))
    except ValueError:
        return None
    seconds = call.get("seconds") if ended else 0
    passed = timedelta(seconds=float(seconds)) if isinstance(seconds, int | float) else timedelta()
    return (began + passed).isoformat(timespec="milliseconds")
