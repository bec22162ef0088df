"""A run's trajectory, built from the recording of its model calls: ``trajectory.json``, in ATIF 1.8.

ATIF is the Agent Trajectory Interchange Format, which other tools read. An agent repeats the conversation so far in
each request, so a conversation is assembled from what each request adds to an earlier one. An agent may have several
conversations: of sub-agents, a call for a title, a fresh start. The longest is the trajectory. The others are its
``subagent_trajectories``, in the order in which they began.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any

from pytest_mlebench.io.units import pluralize
from pytest_mlebench.io.values import MAX_DEPTH, as_object, as_objects, loads
from pytest_mlebench.llm.api import CallContent, Message
from pytest_mlebench.llm.ledger import common_length, read_calls, read_sized_bodies
from pytest_mlebench.llm.providers import call_content

TRAJECTORY = "trajectory.json"
"""Name of the file in a run directory."""
SCHEMA_VERSION = "ATIF-v1.8"
SECONDS = 120.0
"""Time limit for reading a recording."""
MAX_CHARACTERS = 16 << 20
"""Maximum number of characters of all messages, results and arguments in a trajectory."""
MAX_TEXT = 256 << 10
"""Maximum number of characters of one message, result or argument list."""
MAX_CONVERSATIONS = 1000
MAX_ENTRIES = 100_000
"""Maximum number of messages, tool calls and results in a trajectory."""
_MAX_TOOLS, _MAX_ALL_TOOLS = 1 << 20, 16 << 20
"""Maximum number of characters of one conversation's tool definitions, and of all conversations'."""
_MAX_WAITING, _MAX_WAITING_BYTES = 16, 64 << 20
_MAX_DEPTH = MAX_DEPTH - 10
"""Maximum nesting of arguments and of tools' definitions: they are a few levels deep in a trajectory."""

Trajectory = dict[str, Any]


@dataclass
class _Conversation:
    """The messages of one conversation, and its steps."""

    tools: list[dict[str, Any]]
    fingerprints: list[bytes] = field(default_factory=list)
    """Fingerprints of its messages, without system messages."""
    answered: int = 0
    """Number of messages up to and including the last answer."""
    steps: list[dict[str, Any]] = field(default_factory=list)
    waiting: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Steps with tool calls that have no result yet, by the id of the tool call."""
    answers: int = 0


class _Builder:
    """Builds conversations from calls. ``clean`` removes secrets from a text."""

    def __init__(self, clean: Callable[[str], str], max_characters: int, max_text: int, max_entries: int) -> None:
        self.conversations: list[_Conversation] = []
        self.left_out = 0
        """Number of calls that are in no conversation, because there were too many."""
        self._clean = clean
        self._remaining, self._max_text = max_characters, max_text
        self._entries, self._tools_left = max_entries, _MAX_ALL_TOOLS
        self._by_id: dict[str, _Conversation] = {}

    @property
    def is_full(self) -> bool:
        return self._entries < 0

    def add(self, said: CallContent, call: Mapping[str, Any]) -> None:
        """Add a call. Calls must be added in order. If it makes the trajectory too long, the rest is left out."""
        messages = [message for message in said.messages if message.role != "system"]
        fingerprints = [message.fingerprint for message in messages]
        last = next((at for at in reversed(range(len(messages))) if messages[at].role == "agent"), -1)
        conversation, known = self._find(said, last, fingerprints)
        copied = 0
        if conversation is None:
            if len(self.conversations) >= MAX_CONVERSATIONS:
                self.left_out += 1
                return
            conversation = _Conversation(tools=self._tools(said.tools))
            self.conversations.append(conversation)
            for message in said.messages:
                if message.role == "system":
                    self._message(conversation, message, call)
            copied = last + 1
        for at, message in enumerate(messages[known:]):
            if self.is_full:
                return
            conversation.fingerprints.append(fingerprints[known + at])
            self._message(conversation, message, call, copied=at < copied)
        if said.answer is not None:
            conversation.fingerprints.append(said.answer.fingerprint)
            conversation.answered = len(conversation.fingerprints)
            if said.id:
                self._by_id[said.id] = conversation
            self._message(conversation, said.answer, call, is_answer=True)

    def _find(self, said: CallContent, last: int, fingerprints: list[bytes]) -> tuple[_Conversation | None, int]:
        """Find the conversation that a request continues (None if it is new), and how many of its messages are known.

        Agents do not repeat every message exactly: they leave out old results and shorten long ones. A request
        continues a conversation if it repeats the last answer, or all before that answer, which it may have changed.
        ``last`` is the index of the request's last message from the agent; -1 if there is none.
        """
        if said.previous is not None and (found := self._by_id.get(said.previous)) is not None:
            rest = found.fingerprints[found.answered :]
            return (found, len(rest)) if fingerprints[: len(rest)] == rest else (None, 0)
        best: tuple[int, _Conversation] | None = None
        for conversation in self.conversations:
            earlier, rest = conversation.fingerprints, conversation.fingerprints[conversation.answered :]
            if (last < 0) != (not conversation.answered) or fingerprints[last + 1 : last + 1 + len(rest)] != rest:
                continue
            common = common_length(earlier, fingerprints)
            repeats = last >= 0 and earlier[conversation.answered - 1] == fingerprints[last]
            changed = last >= 0 and conversation.answered - 1 == last <= common
            if (last < 0 or repeats or changed) and (best is None or common >= best[0]):
                best = common, conversation
        if best is None:
            return None, 0
        conversation = best[1]
        known = last + 1 + len(conversation.fingerprints) - conversation.answered
        if last >= 0:
            conversation.fingerprints[conversation.answered - 1] = fingerprints[last]
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
        """Add a message to the conversation: as a step, or as the results of earlier tool calls."""
        if not self._fits():
            return
        marks: dict[str, Any] = {"is_copied_context": True} if copied else {}
        if message.role == "results":
            for result in takewhile(self._fits, message.results):
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
            known = set[str]()
            for number, tool_call in enumerate(takewhile(self._fits, message.calls), 1):
                id = tool_call.id or f"call-{len(conversation.steps)}-{number}"
                if (shown := self._id(id)) in known:
                    continue
                known.add(shown)
                entry = {"tool_call_id": shown, "function_name": self._text(tool_call.name)}
                step["tool_calls"].append({**entry, "arguments": self._arguments(tool_call.arguments)})
                conversation.waiting[id] = step
        if is_answer:
            conversation.answers += 1
            step["llm_call_count"] = 1
            step["timestamp"] = _timestamp(call, ended=True)
            if isinstance(model := call.get("answered_model") or call.get("model"), str) and model:
                step["model_name"] = self._clean(model)
            step["metrics"] = _metrics(call)
            step["extra"] = {"call": call.get("number")}

    def _fits(self, _: object = None) -> bool:
        """Count a message, tool call or result. Returns False if there are too many."""
        self._entries -= 1
        return self._entries >= 0

    @staticmethod
    def _step(
        conversation: _Conversation, source: str, text: str, call: Mapping[str, Any], marks: Mapping[str, Any]
    ) -> dict[str, Any]:
        step: dict[str, Any] = {"step_id": len(conversation.steps) + 1, "timestamp": _timestamp(call), "source": source}
        step |= {"message": text, **marks}
        conversation.steps.append(step)
        return step

    def _text(self, text: str) -> str:
        """Remove secrets from a text, and shorten it if it, or the trajectory, is too long."""
        text = self._clean(text)
        length = min(len(text), self._max_text, max(0, self._remaining))
        self._remaining -= length
        kept = text[:length]
        return kept if length == len(text) else f"{kept}… [{len(text) - length:,} characters left out]"

    def _tools(self, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        text = json.dumps(tools, ensure_ascii=False, default=str) if tools else ""
        if not text or len(text) > min(_MAX_TOOLS, self._tools_left):
            return []
        self._tools_left -= len(text)
        try:
            return as_objects(loads(self._clean(text), depth=_MAX_DEPTH))
        except ValueError:  # nested too deeply
            return []

    def _id(self, id: str) -> str:
        return self._clean(id)[:200]

    def _arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        text = json.dumps(arguments, ensure_ascii=False, default=str)
        if len(text) > min(self._max_text, self._remaining):
            return {"left_out": f"{len(text)} characters"}
        self._remaining -= len(text)
        try:
            return as_object(loads(self._clean(text), depth=_MAX_DEPTH))
        except ValueError as error:
            return {"left_out": str(error)}


def build(
    run_dir: Path,
    *,
    agent: str,
    version: str = "unknown",
    clean: Callable[[str], str] = str,
    seconds: float = SECONDS,
    max_characters: int = MAX_CHARACTERS,
    max_text: int = MAX_TEXT,
    max_entries: int = MAX_ENTRIES,
) -> Trajectory | None:
    """Build the trajectory of a run in the ATIF format; None if no bodies of calls were recorded.

    ``clean`` removes secrets from a text. Reading stops after ``seconds``, or if the trajectory is too long, which is
    then mentioned in ``notes``.
    """
    calls = {call["number"]: call for call in read_calls(run_dir)}
    builder, notes = _Builder(clean, max_characters, max_text, max_entries), []
    deadline = time.monotonic() + seconds
    for body in _in_order(run_dir):
        call = calls.get(body["number"], {})
        if call.get("kind") not in ("generate", None):
            continue
        builder.add(call_content(str(call.get("flavour")), body), call)
        if builder.is_full:
            notes.append(
                f"The trajectory ends at call {body['number']}: "
                f"it contains {max_entries:,} messages, tool calls and results, and the rest is left out."
            )
            break
        if time.monotonic() > deadline:
            notes.append(f"The trajectory ends at call {body['number']}: reading the recording took too long.")
            break
    conversations = [conversation for conversation in builder.conversations if conversation.steps]
    if not conversations:
        return None
    if builder.left_out:
        notes.append(f"Left out: {pluralize(builder.left_out, 'call')} of additional conversations.")
    statuses = [call.get("status") for call in calls.values() if call.get("kind") == "generate"]
    if failed := sum(not isinstance(status, int) or status >= 300 for status in statuses):
        notes.append(f"{pluralize(failed, 'call')} had no answer.")
    longest = max(conversations, key=lambda one: (one.answers, len(one.steps)))
    about = {"name": agent, "version": version}
    trajectories = [_trajectory(one, number, about) for number, one in enumerate(conversations, 1)]
    main = trajectories[conversations.index(longest)]
    main["session_id"] = run_dir.name
    if others := [other for other in trajectories if other is not main]:
        main["subagent_trajectories"] = others
    if notes:
        main["notes"] = " ".join(notes)
    return main


def _in_order(run_dir: Path) -> Iterator[dict[str, Any]]:
    """Yield bodies by call number. They were written as calls ended, so a limited number waits for its turn."""
    waiting: dict[int, tuple[dict[str, Any], int]] = {}
    next_number = 1

    def size() -> int:
        return sum(size for _, size in waiting.values())

    for body, length in read_sized_bodies(run_dir):
        waiting[body["number"]] = body, length
        while waiting and (next_number in waiting or len(waiting) > _MAX_WAITING or size() > _MAX_WAITING_BYTES):
            next_number = next_number if next_number in waiting else min(waiting)
            yield waiting.pop(next_number)[0]
            next_number += 1
    for number in sorted(waiting):
        yield waiting[number][0]


def _trajectory(conversation: _Conversation, number: int, agent: Mapping[str, Any]) -> Trajectory:
    steps = conversation.steps
    model = next((step["model_name"] for step in steps if "model_name" in step), None)
    about: dict[str, Any] = {**agent, **({"model_name": model} if model else {})}
    if conversation.tools:
        about["tool_definitions"] = conversation.tools
    metrics = [step["metrics"] for step in steps if "metrics" in step]
    final: dict[str, Any] = {"total_steps": len(steps)}
    for name, total in _TOTALS.items():
        values = [each[name] for each in metrics if name in each]
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


def _timestamp(call: Mapping[str, Any], *, ended: bool = False) -> str | None:
    """Return when a call began or ended, as an ISO 8601 time in UTC."""
    passed = timedelta(seconds=call.get("seconds", 0)) if ended else timedelta()
    try:
        return (datetime.fromisoformat(str(call.get("started_at"))) + passed).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        return None
