"""The record of a run's model calls: one line per call in ``llm/calls.jsonl``, the bodies in ``llm/bodies.jsonl.zst``.

A line is written when its call ends, so a process that dies loses only the calls in progress.
A recording can answer the same requests again, and those that differ only in dates, durations and the like.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_mlebench.errors import reason
from pytest_mlebench.io.files import open_regular
from pytest_mlebench.io.values import MAX_DEPTH, as_number, parse
from pytest_mlebench.llm.api import parse_object
from pytest_mlebench.llm.prices import MAX_AMOUNT, Tokens
from pytest_mlebench.llm.requests import MAX_ELEMENTS, Refusal

if TYPE_CHECKING:
    from pytest_mlebench.io.compression import ZstdFile


FOLDER = "llm"
CALLS = f"{FOLDER}/calls.jsonl"
BODIES = f"{FOLDER}/bodies.jsonl.zst"
RecordLevel = Literal["bodies", "calls", "off"]
MAX_CALLS_BYTES = 256 << 20
MAX_BODIES_BYTES = 2 << 30
MAX_UNPACKED_BYTES = 8 << 30
"""Maximum size of all bodies, before compression."""
MAX_BODY_BYTES = 64 << 20
"""Maximum size of one call's bodies, before compression; larger ones are left out."""
_MAX_NAMES, _MAX_NAME_LENGTH = 100, 128
_MAX_REFUSALS, _MAX_REFUSAL_LENGTH = 20, 300
_MAX_LINES = 1_000_000
_MAX_BRACKETS = 4 * MAX_ELEMENTS
"""Maximum number of objects and lists in a call's bodies. Parsed, each can take a hundred bytes of memory."""
_MAX_DEPTH = MAX_DEPTH + 10
"""Maximum nesting of a line: the deepest body, and the levels around it."""
_DUMPS = json.JSONEncoder(ensure_ascii=False).encode
_WINDOW_LOG = 22
"""4 MiB: large enough to find the conversation, which agents repeat in each call, in the previous call."""
_MAX_WINDOW_LOG = 27
"""Base-2 logarithm of the memory, in bytes, that decompressing a recording may use."""


class JsonText(str):
    """A string that is already JSON."""

    @classmethod
    def of(cls, content: bytes) -> JsonText | None:
        """Return content that is known to be JSON, on one line. Returns None if it has escapes that ``dumps`` does not
        use, because secrets could hide in them."""
        if b"\\u" in content or b"\\/" in content:
            return None
        return cls(content.decode("utf-8", "replace").replace("\r", " ").replace("\n", " "))


@dataclass(kw_only=True)
class Call:
    """One model call, as in its line of the ledger. Times are in seconds from ``started_at``."""

    number: int
    started_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    provider: str = ""
    flavour: str = ""
    endpoint: str = ""
    kind: str = ""
    model: str = ""
    answered_model: str | None = None
    stream: bool = False
    status: int | None = None
    first_token: float | None = None
    seconds: float = 0.0
    tokens: Tokens | None = None
    cost: Decimal | None = None
    retries: int = 0
    error: str | None = None
    refused: bool = False
    """Whether the gateway itself returned the error."""
    withheld: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    """Body fields, headers and parameters that are not on an allow-list, and were not sent to the provider."""
    output_limited: int | None = None
    replayed: bool = False
    replayed_nearly: bool = False
    """Whether its request was not identical to the recorded one."""
    request_bytes: int = 0
    response_bytes: int = 0

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Call:
        """Parse a line of a ledger. Raises ValueError if no gateway writes such a line."""
        cost = line.get("cost")
        if as_number(cost) is not None:
            cost = Decimal(repr(cost))
        call = parse(cls, {**line, "cost": cost, "withheld": line.get("withheld") or ()})
        counted = () if call.tokens is None else vars(call.tokens).values()
        times = (abs(call.seconds), abs(call.first_token or 0))
        if not all(0 <= amount < MAX_AMOUNT for amount in (call.cost or 0, *times, *counted)):
            raise ValueError("its time, tokens or cost are impossible")
        return call

    def to_json(self) -> dict[str, Any]:
        tokens = None if self.tokens is None else dict(vars(self.tokens))
        return {**vars(self), "tokens": tokens, "cost": None if self.cost is None else float(self.cost)}


@dataclass
class Totals:
    """The sums of a run's calls. ``cost`` does not include ``calls_of_unknown_cost``."""

    calls: int = 0
    tokens: Tokens = field(default_factory=Tokens)
    cost: Decimal = Decimal(0)
    calls_of_unknown_cost: int = 0
    calls_of_unknown_usage: int = 0
    seconds: float = 0.0
    retries: int = 0
    replayed: int = 0
    replayed_nearly: int = 0
    """Replayed calls whose request was not identical to the recorded one."""
    replay_misses: int = 0
    left_out: int = 0
    """Calls that are missing from the recording, or whose bodies are, because they would have made it too large, or
    because of a ``write_error``."""
    write_error: str | None = None
    """The first error of writing the recording or the account, such as a full disk. The totals are complete."""
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    withheld: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    """Why the gateway, or an unreachable provider, did not answer, and the errors that providers returned."""
    connections_refused: int = 0
    """Connections beyond the limit, which were closed."""
    budget_ended: str | None = None

    def add(self, call: Call) -> None:
        for name in call.withheld:
            self.withheld[_name_or_others(name, self.withheld)] += 1
        for name in call.dropped:
            self.dropped[_name_or_others(name, self.dropped)] += 1
        if call.error and (call.refused or (call.status or 0) >= 400):
            prefix = "" if call.refused else f"{call.provider} answered {call.status}: "
            reason = prefix + " ".join(call.error.split())
            self.refusals[_name_or_others(reason, self.refusals, _MAX_REFUSAL_LENGTH, _MAX_REFUSALS)] += 1
        self.retries += call.retries
        if call.error is not None or call.status is None or call.status >= 400:
            self.errors[str(call.status or "none")] += 1
        if call.kind not in ("generate", "embed"):
            return
        self.seconds += call.seconds
        if call.status is None or call.status >= 400:
            return
        self.calls += 1
        self.replayed += call.replayed
        self.replayed_nearly += call.replayed_nearly
        name = _name_or_others(call.answered_model or call.model, self.models)
        model = self.models.setdefault(
            name, {"provider": call.provider, "calls": 0, "input_tokens": 0, "output_tokens": 0, "cost": 0.0}
        )
        model["calls"] += 1
        if call.tokens is None:
            self.calls_of_unknown_usage += 1
        else:
            sums = {name: value + vars(call.tokens)[name] for name, value in vars(self.tokens).items()}
            self.tokens = Tokens(**sums)
            model["input_tokens"] += call.tokens.input
            model["output_tokens"] += call.tokens.output
        if call.cost is None:
            self.calls_of_unknown_cost += 1
            model["cost"] = None
        else:
            self.cost += call.cost
            if model["cost"] is not None:
                model["cost"] = round(model["cost"] + float(call.cost), 9)

    def to_json(self) -> dict[str, Any]:
        """Return the totals for ``run.json``; ``cost`` is null if the cost of a call is unknown."""
        values = {name: dict(value) if isinstance(value, Counter) else value for name, value in vars(self).items()}
        return {
            **values,
            "tokens": dict(vars(self.tokens)),
            "cost": None if self.calls_of_unknown_cost else float(self.cost),
            "known_cost": float(self.cost),
            "seconds": round(self.seconds, 3),
        }


def _name_or_others(name: str, names: Collection[str], length: int = _MAX_NAME_LENGTH, most: int = _MAX_NAMES) -> str:
    """Return the name, or ``others`` if there are too many: agents choose names, and the record must stay small."""
    return name[:length] if name[:length] in names or len(names) < most else "others"


class _File(io.FileIO):
    """A file whose writes are complete, or raise OSError: if the disk is almost full, a write can be short."""

    def write(self, content: Any, /) -> int:
        rest = memoryview(content)
        while rest:
            rest = rest[super().write(rest) :]
        return len(content)


class Ledger:
    """Writes a run's calls, with ``secrets`` removed. Use it from one thread only.

    If it cannot write, for example because the disk is full, the totals contain the error, and the run continues.
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        record: RecordLevel = "bodies",
        secrets: Iterable[str] = (),
        max_calls_bytes: int = MAX_CALLS_BYTES,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self.totals = Totals()
        self._is_full = False
        self._unpacked = 0
        self._max_calls_bytes, self._max_body_bytes = max_calls_bytes, max_body_bytes
        self._secrets = sorted({text for secret in secrets if secret for text in _spellings(secret)}, reverse=True)
        self._calls: _File | None = None
        self._bodies: ZstdFile | None = None
        self._bodies_file: _File | None = None
        if record == "off":
            return
        (run_dir / FOLDER).mkdir(parents=True, exist_ok=True)
        self._calls = _File(run_dir / CALLS, "a")
        if record == "bodies":
            from pytest_mlebench.io.compression import CompressionParameter, ZstdFile

            options: dict[int, int] = {
                CompressionParameter.compression_level: 3,
                CompressionParameter.window_log: _WINDOW_LOG,
                CompressionParameter.enable_long_distance_matching: 1,
            }
            self._bodies_file = _File(run_dir / BODIES, "a")
            self._bodies = ZstdFile(self._bodies_file, "w", options=options)

    def write(self, call: Call) -> None:
        """Record a call that has ended."""
        self.totals.add(call)
        if self._calls is None:
            return
        self._is_full = self._calls.tell() > self._max_calls_bytes
        if self._is_full:
            self.totals.left_out += 1
            return
        line = self.clean(_DUMPS(call.to_json()))
        self._is_full = not self._written(self._calls, self._calls, line.encode("utf-8", "replace") + b"\n")

    def write_bodies(self, number: int, bodies: Mapping[str, Any]) -> None:
        """Record the bodies of a call. A ``JsonText`` is not encoded again."""
        if self._bodies is None or self._bodies_file is None or self._is_full:
            return
        if self._bodies_file.closed:
            self.totals.left_out += 1
            return
        fields = (
            f", {_DUMPS(name)}: {value if isinstance(value, JsonText) else _DUMPS(value)}"
            for name, value in bodies.items()
        )
        content = self.clean(f'{{"number": {number}{"".join(fields)}}}\n').encode("utf-8", "replace")
        is_full = self._bodies_file.tell() > MAX_BODIES_BYTES or self._unpacked > MAX_UNPACKED_BYTES
        if len(content) > self._max_body_bytes or is_full:
            self.totals.left_out += 1
            return
        self._unpacked += len(content)
        if not self._written(self._bodies_file, self._bodies, content):
            self._bodies_file.close()  # what follows an incomplete block could not be read

    def close(self) -> None:
        for file in filter(None, (self._bodies, self._bodies_file, self._calls)):
            try:
                file.close()
            except OSError as error:
                self.note(error)
            except ValueError:  # the recording ended early
                pass

    def note(self, error: OSError) -> None:
        """Add an error of writing to the totals."""
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error  # without the account's path
        self.totals.write_error = self.totals.write_error or reason(cause)

    def _written(self, file: _File, writer: io.FileIO | ZstdFile, content: bytes) -> bool:
        """Write to a file; if this fails, leave the call out and the file as before, and return False."""
        size = file.tell()
        try:
            writer.write(content)
            writer.flush()
        except OSError as error:
            self.note(error)
            self.totals.left_out += 1
            with contextlib.suppress(OSError):
                file.seek(file.truncate(size))
            return False
        return True

    def clean(self, text: str) -> str:
        """Replace the secrets in a text."""
        for secret in self._secrets:
            text = text.replace(secret, "[secret]")
        return text

    def has_secret(self, text: str) -> bool:
        return any(secret in text for secret in self._secrets)


def _spellings(secret: str) -> set[str]:
    """Return a secret as it is, and as it is written in JSON."""
    return {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}


def read_calls(run_dir: Path, *, only_valid: bool = True) -> list[dict[str, Any]]:
    """Return the lines of a run's ledger; empty if there is none. Skips truncated lines.

    A ledger may come from someone else, so by default, lines that ``Call.from_json`` rejects are skipped, too.
    """
    try:
        with open_regular(run_dir / CALLS, follow_links=False) as file:
            lines = _lines(file.read, MAX_CALLS_BYTES + MAX_BODY_BYTES)
            parsed = (parse_object(line, depth=_MAX_DEPTH) for line in islice(lines, _MAX_LINES))
            found = [value for value in parsed if value is not None]
    except (OSError, ValueError):
        return []
    return [line for line in found if not only_valid or _is_call(line)]


def _is_call(line: Mapping[str, Any]) -> bool:
    try:
        Call.from_json(line)
    except ValueError:
        return False
    return True


def read_bodies(run_dir: Path) -> Iterator[dict[str, Any]]:
    """Yield the bodies of a run's calls, in the order in which the calls ended. Works for killed runs, too.

    A recording may come from someone else, so lines are skipped if their ``number`` is not an integer, or if they are
    larger than any that a gateway writes.
    """
    return (body for body, _ in read_sized_bodies(run_dir))


def read_sized_bodies(run_dir: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield what ``read_bodies`` yields, with the size of each line in bytes."""
    from pytest_mlebench.io.compression import DecompressionParameter, ZstdError, ZstdFile

    def read(size: int) -> bytes:
        try:
            return reader.read1(size)
        except (ZstdError, EOFError):  # what follows a truncated frame cannot be read
            return b""

    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(open_regular(run_dir / BODIES, follow_links=False))
        except (OSError, ValueError):
            return
        options: dict[int, int] = {DecompressionParameter.window_log_max: _MAX_WINDOW_LOG}
        reader = stack.enter_context(ZstdFile(file, options=options))
        for line in islice(_lines(read, MAX_UNPACKED_BYTES + MAX_BODY_BYTES), _MAX_LINES):
            if line.count(b"{") + line.count(b"[") <= _MAX_BRACKETS:
                value = parse_object(line, depth=_MAX_DEPTH)
                if value is not None and type(value.get("number")) is int:
                    yield value, len(line)


def _lines(read: Callable[[int], bytes], max_bytes: int) -> Iterator[bytes]:
    """Yield lines, except those larger than ``MAX_BODY_BYTES``, until ``max_bytes`` are read."""
    parts, size, total = list[bytes](), 0, 0
    while total < max_bytes and (chunk := read(1 << 20)):
        total += len(chunk)
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            if size + len(end) < MAX_BODY_BYTES:
                yield b"".join([*parts, end])
            parts, size = [], 0
        size += len(rest)
        if size < MAX_BODY_BYTES:
            parts.append(rest)
        else:
            parts = []
    yield b"".join(parts)


VOLATILE = frozenset(
    "stream stream_options user metadata store prompt_cache_key prompt_cache_retention safety_identifier "
    "client_metadata service_tier".split()
)
"""Top-level fields that do not change the question: how to send the answer, who asks, and what to cache."""
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
VOLATILE_TEXTS = {
    "date": r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?",
    "date in words": rf"(?:[A-Z][a-z]{{2,8}},? )?(?:{_MONTH} \d{{1,2}},? \d{{4}}|\d{{1,2}} {_MONTH} \d{{4}})",
    "clock": r"\d{1,3}:\d\d(?::\d\d)?(?:[.,]\d+)?",
    "duration": r"(?:\d+m ?\d+(?:\.\d+)?s|\d[\d,]{0,30}(?:\.\d+)?(?:e-?\d+)? ?(?:[mµun]?s|milliseconds?|secs?|seconds?"
    r"|mins?|minutes?|h|hrs?|hours?|days?)|an? (?:moment|second|minute|hour|day))(?!\w)",
    "rate": r"\d[\d.,]{0,30} ?(?:(?:it|steps?|samples?|rows?|batch(?:es)?)/s|s/it)(?!\w)",
    "UUID": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "address": r"0x[0-9a-f]{4,}",
    "digest": r"[0-9a-f]{16,}(?![\w/+=])",
    "temporary file": r"/tmp/[\w./-]+",
    "process": r"(?:pid|PID)[ =:]+\d+",
}
"""Regular expressions for the parts of otherwise identical questions that change each time."""
# No letter, digit, underscore or dot may precede a match, except the last letter of a JSON escape. A comma may, so
# lengths of numbers with commas are limited: lists of numbers would take quadratic time.
_VOLATILE = re.compile(rf"(?:(?<=\\[nrt])|(?<![\w.]))(?:{'|'.join(VOLATILE_TEXTS.values())})")
_MAX_QUOTED = 160


class Recording:
    """The questions and answers of an earlier run. Use it from one thread only."""

    def __init__(self, run_dir: Path) -> None:
        # Agents see this name, so it leaves out the competition, which may be hidden from them.
        self.run = run_dir.name.rpartition("_")[2]
        self._answers: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        self._asked: list[tuple[int, str, str]] = []
        self._given: set[int] = set()
        for body in sorted(read_bodies(run_dir), key=lambda body: int(body["number"])):
            if "response" not in body or not isinstance(path := body.get("path"), str):
                continue
            question = canonical(body.get("request"))
            same = without_volatile(question)
            for key in {f"{path} {question}", f"{path} {same}"}:
                self._answers[key].append(body)
            self._asked.append((body["number"], path, same))

    def find(self, path: str, request: Any) -> tuple[Mapping[str, Any], bool]:
        """Return the recorded answer, and whether its question differs from this one in ``VOLATILE_TEXTS``.

        A repeated question gets the next answer, or the last one if there are no more.
        Raises a Refusal that shows the first difference from the most similar recorded question.
        """
        question = canonical(request)
        same = without_volatile(question)
        exact = self._answers.get(f"{path} {question}")
        answers = exact or self._answers.get(f"{path} {same}")
        if not answers:
            raise Refusal("invalid", self._miss(path, same))
        answer = next((answer for answer in answers if id(answer) not in self._given), answers[-1])
        self._given.add(id(answer))
        return answer, not exact

    def _miss(self, path: str, question: str) -> str:
        same = [(number, asked) for number, known, asked in self._asked if known == path]
        if not same:
            return f"the recording of run {self.run} has no call to {path}"
        number, nearest = max(same, key=lambda entry: _similarity(entry[1], question))
        return f"the recording of run {self.run} has no such call; the nearest is call {number}: " + first_difference(
            json.loads(nearest), json.loads(question)
        )


def canonical(request: Any) -> str:
    """Return a request as JSON with sorted keys and without ``VOLATILE`` fields."""
    if isinstance(request, Mapping):
        request = {key: value for key, value in request.items() if key not in VOLATILE}
    return json.dumps(request, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def without_volatile(question: str) -> str:
    """Replace each of the ``VOLATILE_TEXTS`` in a canonical question by a placeholder."""
    return _VOLATILE.sub("<…>", question)


def first_difference(recorded: Any, asked: Any, where: str = "") -> str:
    """Describe where two requests first differ, with the value of each."""
    if isinstance(recorded, dict) and isinstance(asked, dict):
        for key in sorted(recorded.keys() | asked.keys()):
            if recorded.get(key, _ABSENT) != asked.get(key, _ABSENT):
                place = f"{where}.{key}" if where else key
                return first_difference(recorded.get(key, _ABSENT), asked.get(key, _ABSENT), place)
    if isinstance(recorded, list) and isinstance(asked, list):
        for index, (one, other) in enumerate(zip_longest(recorded, asked, fillvalue=_ABSENT)):
            if one != other:
                return first_difference(one, other, f"{where}[{index}]")
    if isinstance(recorded, str) and isinstance(asked, str):
        start = max(0, common_length(recorded, asked) - 20)
        recorded, asked = recorded[start:], asked[start:]
    return f"{where or 'the request'} was {_quoted(recorded)}, is {_quoted(asked)}"


def common_length(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return the length of the common prefix of two sequences."""
    low, high = 0, min(len(one), len(other))
    while low < high:  # comparing slices is much faster than comparing elements
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


_ABSENT = object()


def _quoted(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"


def _similarity(recorded: str, asked: str) -> tuple[int, float]:
    """Return how similar two requests are: the length of their common prefix, then the similarity of what follows."""
    common = common_length(recorded, asked)
    rest = slice(common, common + 400)
    return common, difflib.SequenceMatcher(None, recorded[rest], asked[rest], autojunk=False).quick_ratio()
