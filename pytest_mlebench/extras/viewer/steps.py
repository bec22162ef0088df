"""A run's trajectory as steps that can be searched, and shown in parts."""

from __future__ import annotations

import difflib
import json
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from pytest_mlebench.extras.viewer.folder import read
from pytest_mlebench.extras.viewer.text import code, is_error, looks_like_code, markdown
from pytest_mlebench.io.files import NotReadable, opened
from pytest_mlebench.io.units import one_line, plain
from pytest_mlebench.io.values import as_count, as_number, as_object, as_objects, loads
from pytest_mlebench.llm.ledger import BODIES, CALLS
from pytest_mlebench.llm.trajectory import TRAJECTORY, build
from pytest_mlebench.reports import run_details
from pytest_mlebench.reports.run_details import TEXT, arguments_text, content_text

MAX_BYTES = 128 << 20
MAX_STEPS = 20_000
MAX_CONVERSATIONS = 200
PAGE = 40
"""Steps on a page, and steps loaded at a time while the reader scrolls."""
FOUND = 300
_BUILD_SECONDS = 10.0
_KEPT = 2
"""Maximum trajectories in memory."""
_SNIPPET = 80
_DIFF_LINES = 600
_BARS = 2000
_LINKS = 50
_KIND = {name: name for name in ("user", "agent", "system")}
KINDS = ("user", "system", "agent", "tool", "reasoning", "error")
"""What steps can be filtered by: their source, and whether they call a tool, reason, or failed."""
_FOLDED = 24
"""Texts with more lines are folded."""
Stamp = tuple[tuple[int, int] | None, ...]
"""Times and sizes of the files that a trajectory is built from."""


@dataclass(frozen=True)
class Block:
    """A part of a step. ``kind`` is message, reasoning, call or result, and ``html`` is its text as safe HTML."""

    kind: str
    title: str
    html: Markup
    lines: int
    is_text: bool = False
    """Whether ``html`` has paragraphs, not preformatted lines."""
    is_error: bool = False
    left_out: int = 0
    diff: Markup | None = None

    @property
    def is_folded(self) -> bool:
        return self.lines > _FOLDED or self.kind == "reasoning"


@dataclass(frozen=True)
class OutlineStep:
    """A step in an outline. ``seconds`` are since the first step, ``cost`` is in dollars."""

    number: int
    source: str
    what: str
    about: str
    seconds: float | None
    tokens_in: int | None
    tokens_out: int | None
    cost: float | None
    is_error: bool
    is_copied: bool
    model: str
    moment: str
    kinds: frozenset[str]
    """The ``KINDS`` that apply to it."""

    @property
    def tokens(self) -> int:
        return (self.tokens_in or 0) + (self.tokens_out or 0)


@dataclass(frozen=True)
class Hit:
    """A step that contains the searched text, with the text around it."""

    number: int
    before: str
    found: str
    after: str


class Conversation:
    """The steps of one conversation, numbered from 1."""

    def __init__(self, values: Mapping[str, Any], number: int, in_all: str) -> None:
        self.number = number
        self.in_all = in_all
        """Totals of all conversations of the run."""
        self.title = one_line(run_details.title_of(values, number))[:200]
        self.totals = run_details.totals(values)
        steps = run_details.steps_of(values)
        self._raw = steps[:MAX_STEPS]
        self.left_out = len(steps) - len(self._raw)
        self.steps = list(self._outline())

    def __len__(self) -> int:
        return len(self._raw)

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """The number of steps of each kind that occurs."""
        found = Counter(kind for step in self.steps for kind in step.kinds)
        return {kind: found[kind] for kind in KINDS if found[kind]}

    def chosen(self, kinds: Sequence[str]) -> Sequence[int]:
        """Return the numbers of the steps of these kinds; all if none is named."""
        if not kinds:
            return range(1, len(self) + 1)
        return [step.number for step in self.steps if not step.kinds.isdisjoint(kinds)]

    @cached_property
    def links(self) -> Sequence[Markup]:
        """A link for each step, for outlines. Cached, because there may be thousands."""
        return [
            Markup(
                f'<li class="{_KIND.get(step.source, "other")}{" failed" if step.is_error else ""}">'
                f'<a href="?conversation={self.number}&amp;from={step.number}#s-{step.number}" '
                f'data-to="{step.number}"><span>{step.number}</span> '
                f"{f'<b>{escape(step.what)}</b> ' if step.what else ''}{escape(step.about or step.source)}</a></li>"
            )
            for step in self.steps
        ]

    @cached_property
    def bars(self) -> Markup:
        """A bar for each step, or for several if there are thousands, as high as their tokens. Drawn as a few paths."""
        count = min(len(self), _BARS)
        peak = max((step.tokens for step in self.steps), default=0)
        paths: dict[str, list[str]] = {"other": [], "user": [], "failed": []}
        for k in range(count):
            group = self.steps[k * len(self) // count : (k + 1) * len(self) // count]
            spoken = all(step.source in ("user", "system") for step in group)
            kind = "failed" if any(step.is_error for step in group) else "user" if spoken else "other"
            height = 12 + 88 * max(step.tokens for step in group) // peak if peak else 12
            paths[kind].append(f"M{k} 100V{100 - height}h1V100z")
        drawn = "".join(f'<path class="{kind}" d="{"".join(parts)}"/>' for kind, parts in paths.items() if parts)
        return Markup(
            f'<svg viewBox="0 0 {max(1, count)} 100" preserveAspectRatio="none" aria-hidden="true">{drawn}'
            '<rect class="in-view" height="100" width="0"/></svg>'
        )

    def outline(self, kinds: Sequence[str]) -> Iterator[Sequence[Markup]]:
        """Yield links to the steps of these kinds, or to all, in groups. A browser lays out only the visible groups."""
        numbers = self.chosen(kinds)
        for start in range(0, len(numbers), _LINKS):
            yield [self.links[number - 1] for number in numbers[start : start + _LINKS]]

    def raw(self, number: int) -> str:
        """Return a step as JSON, as it was recorded."""
        return json.dumps(self._raw[number - 1], indent=2, ensure_ascii=False)

    @property
    def errors(self) -> list[int]:
        return [step.number for step in self.steps if step.is_error]

    def blocks(self, number: int) -> Iterator[Block]:
        """Yield the parts of a step."""
        for title, text in run_details.blocks(self._raw[number - 1]):
            kind, _, name = title.partition(" ")
            if kind == "calls":
                yield _block("call", name[:100], text, diff=self._diff(number, name, text))
            else:
                yield _block(kind or "message", "" if kind == "message" else kind, text)

    def find(self, words: str) -> list[Hit]:
        """Return the steps that contain this text, ignoring case."""
        wanted, found = words.casefold(), list[Hit]()
        for number, raw in enumerate(self._raw, 1):
            for title, content in run_details.blocks(raw):
                text = f"{title.partition(' ')[2]} {content}"  # a call's title ends with the tool's name
                at = text.casefold().find(wanted)
                if at >= 0:
                    end = at + len(words)
                    before, after = text[max(0, at - _SNIPPET) : at], text[end : end + _SNIPPET]
                    found.append(Hit(number, one_line(before), one_line(text[at:end]), one_line(after)))
                    break
            if len(found) >= FOUND:
                break
        return found

    def at(self, moment: float) -> int:
        """Return the number of the last step that began by this moment, in seconds since 1970; 1 if none did."""
        begun = [
            step.number for step in self.steps if (began := timestamp(step.moment)) is not None and began <= moment
        ]
        return begun[-1] if begun else 1

    def _outline(self) -> Iterator[OutlineStep]:
        first: float | None = None
        for number, raw in enumerate(self._raw, 1):
            metrics = as_object(raw.get("metrics"))
            began = timestamp(raw.get("timestamp"))
            first = began if first is None else first
            calls = as_objects(raw.get("tool_calls"))
            results = as_objects(as_object(raw.get("observation")).get("results"))
            if calls:
                what = ", ".join(dict.fromkeys(one_line(str(call.get("function_name"))[:60]) for call in calls[:3]))
                about = arguments_text(as_object(calls[0].get("arguments")))
            else:
                what, about = "", content_text(raw.get("message") or "")
            source = one_line(str(raw.get("source") or "step")[:20])
            failed = any(_is_error(content_text(result.get("content"))) for result in results)
            kinds = {
                source: True,
                "tool": bool(calls),
                "reasoning": bool(raw.get("reasoning_content")),
                "error": failed,
            }
            yield OutlineStep(
                number=number,
                source=source,
                what=what,
                about=one_line(about[:200])[:90],
                seconds=None if began is None or first is None else round(began - first, 6),
                tokens_in=as_count(metrics.get("prompt_tokens")),
                tokens_out=as_count(metrics.get("completion_tokens")),
                cost=as_number(metrics.get("cost_usd")),
                is_error=failed,
                is_copied=bool(raw.get("is_copied_context")),
                model=one_line(str(raw.get("model_name") or "")[:80]),
                moment=str(raw.get("timestamp") or "")[:40],
                kinds=frozenset(kind for kind, applies in kinds.items() if applies and kind in KINDS),
            )

    def _diff(self, number: int, name: str, text: str) -> Markup | None:
        """Return the differences from the last similar program that was given to the same tool."""
        if text.count("\n") < 4 or len(text) > TEXT:
            return None
        for earlier in range(number - 1, max(0, number - 12), -1):
            for call in reversed(as_objects(self._raw[earlier - 1].get("tool_calls"))):
                other = arguments_text(as_object(call.get("arguments")))
                if one_line(str(call.get("function_name"))) == name and other.count("\n") >= 4:
                    return diff(other, text, f"step {earlier}")
        return None


def diff(old: str, new: str, name: str) -> Markup | None:
    """Return the lines that differ, with context; None if the texts have little in common, or are long."""
    before, after = plain(old).split("\n"), plain(new).split("\n")
    if max(len(before), len(after)) > _DIFF_LINES or old == new:
        return None
    common = len(set(before) & set(after))
    if common < min(len(before), len(after)) / 3:
        return None
    lines = list(difflib.unified_diff(before, after, name, "this step", lineterm="", n=2))[2:]
    kinds = {"+": "d-new", "-": "d-old", "@": "d-at"}
    parts = [f'<span class="{kinds.get(line[:1], "d-same")}">{escape(line[:2000])}</span>' for line in lines]
    return Markup("\n".join(parts))


_READING = threading.Lock()
"""Trajectories are read one at a time, because each may take much memory."""


def conversations(group_dir: Path, run: str, *, agent: str) -> Sequence[Conversation]:
    """Return the conversations of a run, the main one first; none if nothing was recorded. Raises NotReadable."""
    with _READING:
        return _conversations(group_dir, run, agent, _stamp(group_dir, run))


@lru_cache(_KEPT)
def _conversations(group_dir: Path, run: str, agent: str, stamp: Stamp) -> Sequence[Conversation]:
    if not (values := _values(group_dir, run, agent)):
        return []
    several, in_all = run_details.conversations(values)[:MAX_CONVERSATIONS], run_details.headline(values)
    return [Conversation(one, number, in_all) for number, one in enumerate(several)]


def has_trajectory(group_dir: Path, run: str) -> bool:
    """Return whether there are files to build a trajectory from."""
    return any(stamp is not None for stamp in _stamp(group_dir, run)[:2])


def _stamp(group_dir: Path, run: str) -> Stamp:
    found: list[tuple[int, int] | None] = []
    for name in (TRAJECTORY, BODIES, CALLS):
        try:
            with opened(group_dir, run, *name.split("/")) as descriptor:
                about = os.fstat(descriptor)
                found.append((about.st_mtime_ns, about.st_size))
        except NotReadable:
            found.append(None)
    return tuple(found)


def _values(group_dir: Path, run: str, agent: str) -> Mapping[str, Any]:
    try:
        content, size = read(group_dir, run, TRAJECTORY, size=MAX_BYTES)
    except NotReadable:
        for name in (BODIES, CALLS):
            with opened(group_dir, run, *name.split("/")):
                pass  # raises NotReadable for a link, or if the file is missing
        return build(group_dir / run, agent=agent, seconds=_BUILD_SECONDS) or {}
    if size > MAX_BYTES:
        raise NotReadable(f"{TRAJECTORY} is larger than {MAX_BYTES >> 20} MiB: `mlebench trajectory` shows it")
    try:
        found = loads(content)
    except ValueError as error:
        raise NotReadable(f"{TRAJECTORY} cannot be read: {error}") from error
    return as_object(found)


def _block(kind: str, title: str, text: str, diff: Markup | None = None) -> Block:
    shown = text[:TEXT]
    is_text = kind == "reasoning" or (kind == "message" and ("```" in shown or not looks_like_code(shown)))
    as_code = kind == "call" or (kind == "message" and not is_text)
    return Block(
        kind=kind,
        title=title,
        html=markdown(shown) if is_text else code(shown) if as_code else escape(plain(shown)),
        is_text=is_text,
        lines=plain(shown).count("\n") + 1,
        is_error=kind == "result" and _is_error(text),
        left_out=len(text) - len(shown),
        diff=diff,
    )


def _is_error(text: str) -> bool:
    return is_error(text[-6000:].encode("utf-8", "replace"))


def timestamp(text: Any) -> float | None:
    """Return a moment in seconds since 1970; None if it is not a time, or has no time zone."""
    if isinstance(text, str) and len(text) <= 40:
        with suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(text)
            return moment.timestamp() if moment.tzinfo else None
    return None
