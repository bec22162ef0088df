"""Accounting for a run's calls in progress: reserves a budget before each call, and writes the ledger after it.

Slow work (waiting for the account's lock, recording long conversations) runs in order in a separate thread, so that it
delays no stream. A short call of a run without an account is recorded directly: switching threads would take longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pytest_mlebench.llm.api import API, Body, Endpoint, Provider, StreamReader, as_string, joined_texts, json_object
from pytest_mlebench.llm.budget import Account, BudgetLimits, Exhausted, Wait
from pytest_mlebench.llm.ledger import Call, JsonText, Ledger, RecordLevel
from pytest_mlebench.llm.prices import MaxUsage, Prices, read_usage
from pytest_mlebench.llm.providers import load_providers
from pytest_mlebench.llm.requests import Admission, Refusal

if TYPE_CHECKING:
    from aiohttp import web

MIN_OUTPUT = 1024
"""Answers are shortened to fit the remaining budget, but to no less than this many tokens."""
SHORT = 64 << 10
"""Maximum size of a call, in bytes, that is recorded without the accounting thread."""
CHARGED_KINDS = ("generate", "embed")
"""Kinds of calls that providers charge for."""
_MAX_IDS, _MAX_ID_LENGTH = 1000, 256
"""Limits for the ids that are remembered from one answer."""
_ZERO = Decimal(0)
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """A session's settings for its gateways. ``models`` are glob patterns; an empty tuple allows all models."""

    providers: Mapping[str, Provider] = field(default_factory=load_providers)
    record: RecordLevel = "bodies"
    limits: BudgetLimits = field(default_factory=BudgetLimits)
    models: tuple[str, ...] = ()
    prices: Prices = field(default_factory=lambda: Prices({}))
    retries: int = 0
    rpm: float | None = None
    allow_provider_tools: bool = False
    max_open: int = 256
    """Maximum number of one run's calls in progress; additional calls wait."""
    max_waiting: int = 1024
    """Maximum number of one run's waiting calls; additional calls are refused."""
    max_connections: int = 2048
    """Maximum number of one run's connections; additional ones are closed. This is enough for all calls in progress and
    waiting. More would let an agent use up the memory and the open files of the harness."""
    max_answer: int = 128 << 20
    """Maximum size of an answer, in bytes."""
    max_answers: int = 256 << 20
    """Maximum size of all answers in progress, in bytes. No agent needs this much, but a compressed answer from a
    malicious provider could otherwise fill the memory of the harness."""
    head_seconds: float = 30.0
    """Timeout for receiving the head of the first request on a connection."""
    body_seconds: float = 120.0
    """Timeout for receiving the body of a request."""
    wait_seconds: float = 600.0
    """Maximum time that a call waits for a slot, its turn or its budget; clients give up by then."""
    call_seconds: float = 2 * 3600.0
    """Timeout for an answer; ends streams that never finish."""
    read_seconds: float = 120.0
    """Timeout for the agent to read what has arrived. A stalled call would otherwise keep its reservation."""

    @classmethod
    def load(
        cls, *, providers: Iterable[Path], prices: Iterable[Path], limits: Mapping[str, float | None], **others: Any
    ) -> Self:
        """Create settings from options; ``limits`` are keyed by name, with costs in US dollars. Raises UsageError for
        an invalid file of providers or prices."""
        budget: dict[str, Any] = {
            name: Decimal(str(value)) if "cost" in name and value is not None else value
            for name, value in limits.items()
        }
        return cls(
            providers=load_providers(*providers),
            prices=Prices.load(*prices),
            limits=BudgetLimits(**budget),
            **others,
        )


class Stage(Enum):
    """The progress of a request."""

    RECEIVED = "received"
    SENT = "sent"
    """The provider may have started to answer, and to charge for it."""
    REFUSED = "refused"
    """The provider refused it, at no cost."""
    STREAMING = "streaming"
    """The client has received the start of the answer."""
    COMPLETE = "complete"


@dataclass(kw_only=True)
class Exchange:
    """A request to a provider, its answer so far, and what else is known about the call."""

    request: web.BaseRequest
    call: Call
    provider: Provider
    endpoint: Endpoint
    path: str
    """Path below the provider's base URL."""
    query: Mapping[str, str]
    """The allowed query parameters."""
    admission: Admission
    raw: bytes = b""
    body: Body | None = None
    """First the agent's JSON object, then the one to send. None until it is read, and if it is invalid."""
    models: list[str] = field(default_factory=list)
    """The requested model, and the models that the provider may use instead."""
    context: dict[str, str] = field(default_factory=dict)
    """See ``prices.Context``."""
    reservation: int | None = None
    stage: Stage = Stage.RECEIVED
    answer: Body | None = None
    content: bytes = b""
    """The complete answer, if it is not streamed."""
    chunks: list[bytes] | None = None
    """The parts of a streamed answer."""
    reader: StreamReader | None = None
    """Assembles a streamed answer."""
    drop_usage: bool = False
    """Whether to remove the usage from the stream, because the client did not ask for it."""
    kept: int = 0
    """Bytes of the answer that are held in memory."""
    has_slot: bool = False
    """Whether it is one of the run's calls in progress, whose number is limited."""
    noted: bool = False
    """Whether it has been recorded."""
    started: float = field(default_factory=time.monotonic)

    @property
    def api(self) -> API:
        return self.provider.api

    @property
    def recorded(self) -> str:
        """The path in recordings, which is the same for streamed and other answers."""
        return f"/{self.provider.name}{self.path}".replace(":streamGenerateContent", ":generateContent")

    def elapsed(self) -> float:
        return round(time.monotonic() - self.started, 6)

    def feed(self, event: Body) -> None:
        """Add an event to a streamed answer. If the provider's events are too odd for the reader, their usage is
        unknown."""
        if self.reader is not None:
            with self._odd_events():
                self.reader.feed(event)

    @contextlib.contextmanager
    def _odd_events(self) -> Iterator[None]:
        try:
            yield
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            self.reader = None

    def remember(self) -> None:
        """Assemble a streamed answer, and remember the ids by which the run's later requests can refer to it."""
        if self.reader is not None:
            with self._odd_events():
                self.answer = self.reader.answer()
        if self.answer is not None:
            ids = self.api.stored_ids(self.endpoint, self.answer)
            self.admission.received.update(id for id in islice(ids, _MAX_IDS) if len(id) <= _MAX_ID_LENGTH)


class Accounting:
    """Ledger and account of one run. ``secrets`` are removed from all records. Raises OSError."""

    def __init__(
        self, settings: GatewaySettings, run_dir: Path, account_folder: Path, *, secrets: Iterable[str]
    ) -> None:
        self._settings = settings
        self._thread = ThreadPoolExecutor(1, "llm-accounting")
        self._account: Account | None = None
        self.has_budget = bool(settings.limits)
        if self.has_budget or settings.rpm is not None:
            self._account = self._thread.submit(Account, account_folder, run_dir.name, settings.limits).result()
        self._ledger = Ledger(run_dir, record=settings.record, secrets=secrets)
        self.totals = self._ledger.totals
        self._pending_jobs = 0
        """Number of unfinished jobs in the thread. While there are any, only the thread uses ledger and account."""
        self._reserving = asyncio.Lock()
        self._turns: dict[str, asyncio.Lock] = {}
        """One lock per provider: a run takes one turn at a time, so that other runs get theirs."""
        self._settled = asyncio.Event()
        self._slots = asyncio.Semaphore(settings.max_open)
        self._waiting = 0

    def close(self) -> None:
        with contextlib.ExitStack() as stack:  # closes everything, also if something fails
            stack.callback(self._thread.shutdown)
            stack.callback(lambda: self._thread.submit(self._ledger.close).result())
            if self._account is not None:
                try:
                    self._thread.submit(self._account.close).result()
                except OSError as error:  # open reservations count as spent once this process has ended
                    self._ledger.note(error)

    async def do(self, function: Callable[[], _T]) -> _T:
        """Run a function in the accounting thread."""
        self._pending_jobs += 1
        done = asyncio.get_running_loop().run_in_executor(self._thread, function)
        done.add_done_callback(self._job_done)
        return await asyncio.shield(done)

    async def _use_account(self, function: Callable[[], _T]) -> _T:
        try:
            return await self.do(function)
        except OSError as error:
            self._ledger.note(error)
            raise Refusal(
                "overloaded", "the harness cannot write its account of spending, so no call is sent"
            ) from error

    def _job_done(self, _: object) -> None:
        self._pending_jobs -= 1

    async def reserve(self, exchange: Exchange) -> None:
        """Reserve the maximum cost of a call. Waits while other calls hold the budget it needs. Raises Refusal."""
        call, account, endpoint = exchange.call, self._account, exchange.endpoint
        assert account is not None
        if endpoint.kind == "other":
            raise Refusal("invalid", f"the cost of {call.endpoint} is unknown, so a budget cannot be enforced")
        most = partial(self._most, exchange)
        wanted = await self.do(most)
        async with self._wait_limit("other calls hold the rest of the budget"), self._reserving:  # in order of arrival
            while True:
                self._settled.clear()
                got = await self._use_account(partial(self._take, exchange, account, wanted))
                if isinstance(got, int):
                    return
                if got.left is not None:
                    length = wanted.affordable(got.left.tokens, got.left.cost)
                    short = got.left.calls != 0 and MIN_OUTPUT <= length < wanted.output // wanted.answers
                    body = exchange.body or {}
                    if short and exchange.api.limit_output(endpoint, body, length, exchange.admission):
                        call.output_limited = length
                        wanted = await self.do(most)
                        continue
                if isinstance(got, Exhausted):
                    self.totals.budget_ended = f"{got.option}={got.limit}"
                    raise Refusal("budget", _exhausted(got))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._settled.wait(), 0.1)  # other workers' calls end without an event here

    def _most(self, exchange: Exchange) -> MaxUsage:
        """Return the most that a call can use, with its most expensive model. Raises Refusal if a price is required
        but unknown."""
        prices, provider, context = self._settings.prices, exchange.provider, exchange.context
        size, admission = len(exchange.raw), exchange.admission
        expected = exchange.api.expected(exchange.endpoint, exchange.body or {}, size, admission)
        found = []
        for model in exchange.models:
            most = prices.most(provider, model, expected, context)
            unknown = self._settings.limits.need_prices and prices.unknown(provider, model, expected, context, most)
            if unknown:
                raise Refusal("invalid", f"{unknown}, so a budget cannot be enforced: add it with --prices")
            found.append(most)
        return max(found, key=lambda most: (most.cost or _ZERO, most.tokens))

    @staticmethod
    def _take(exchange: Exchange, account: Account, wanted: MaxUsage) -> int | Wait | Exhausted:
        got = account.reserve(tokens=wanted.tokens, cost=wanted.cost)
        if isinstance(got, int):  # set here, because the request may be cancelled meanwhile
            exchange.reservation = got
        return got

    async def enter(self, exchange: Exchange) -> None:
        """Wait for a slot among the run's calls in progress; ``finish`` frees it. Raises Refusal if too many wait."""
        if self._waiting >= self._settings.max_waiting:
            raise Refusal("overloaded", f"{self._waiting} calls of this run are already waiting: send fewer at once")
        self._waiting += 1
        try:
            async with self._wait_limit(f"{self._settings.max_open} calls of this run are in progress"):
                await self._slots.acquire()
        finally:
            self._waiting -= 1
        exchange.has_slot = True

    async def pace(self, provider: Provider, rpm: float) -> None:
        """Wait for the run's turn. If cancelled, gives the turn back. Raises Refusal."""
        account, name = self._account, provider.name
        assert account is not None
        async with (
            self._wait_limit(f"--llm-rpm={rpm:g} is shared by all runs", at_least=120 / rpm),
            self._turns.setdefault(name, asyncio.Lock()),
        ):
            try:
                await asyncio.sleep(await self._use_account(partial(account.pace, name, rpm)))
            except BaseException:
                with contextlib.suppress(OSError):  # others wait longer
                    await self.do(partial(account.give_back, name))
                raise

    @contextlib.asynccontextmanager
    async def _wait_limit(self, why: str, *, at_least: float = 0) -> AsyncIterator[None]:
        """Context manager: refuse a call after ``wait_seconds`` (or ``at_least``, if longer), with the reason."""
        seconds = max(self._settings.wait_seconds, at_least)
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise Refusal("overloaded", f"the call waited {seconds:g} s: {why}; try again later") from None

    async def finish(self, exchange: Exchange) -> None:
        """Settle and record a call, unless this was done before."""
        if exchange.noted:
            return
        exchange.noted = True
        if exchange.has_slot:
            self._slots.release()
        exchange.remember()
        exchange.call.seconds = round(exchange.elapsed(), 6)
        is_short = len(exchange.raw) + exchange.call.response_bytes <= SHORT
        if self._account is None and not self._pending_jobs and is_short:
            self._record(exchange)
        else:
            await self.do(partial(self._record, exchange))
            self._settled.set()

    async def refuse(self, call: Call) -> None:
        """Record a call that the gateway does not pass on."""
        await self.do(partial(self._ledger.write, call))

    def _record(self, exchange: Exchange) -> None:
        call = exchange.call
        if call.status is not None and call.status < 300:
            self._account_for(exchange)
        try:
            self._settle(exchange)
        except OSError as error:  # the reservation still counts
            self._ledger.note(error)
        self._ledger.write(call)
        if self._settings.record == "bodies":
            self._write_bodies(exchange)

    def _settle(self, exchange: Exchange) -> None:
        call = exchange.call
        if exchange.reservation is None or self._account is None:
            return
        if exchange.stage in (Stage.RECEIVED, Stage.REFUSED):
            self._account.settle(exchange.reservation, calls=0, tokens=0, cost=_ZERO)
        else:  # if it was interrupted, its usage is unknown and the reservation counts
            used = None if call.tokens is None else call.tokens.total
            self._account.settle(exchange.reservation, calls=1, tokens=used, cost=call.cost)

    def _write_bodies(self, exchange: Exchange) -> None:
        call = exchange.call
        request = JsonText.of(exchange.raw) if exchange.body is not None else None
        bodies: dict[str, Any] = {
            "path": exchange.recorded,
            "request": json_object(exchange.raw) if request is None else request,
        }
        if exchange.answer is not None:
            text = JsonText.of(exchange.content) if exchange.content else None
            name = "response" if call.status is not None and call.status < 300 else "error"
            bodies[name] = exchange.answer if text is None else text
        if exchange.chunks:
            stream = self._ledger.clean(b"".join(exchange.chunks).decode("utf-8", "replace"))
            # A secret in several events cannot be replaced in them. A replay creates events from the response instead.
            if not self._has_split_secret(exchange, stream):
                bodies["stream"] = stream
        self._ledger.write_bodies(call.number, bodies)

    def _has_split_secret(self, exchange: Exchange, stream: str) -> bool:
        is_whole = (exchange.stage is Stage.COMPLETE or exchange.call.replayed) and exchange.call.tokens is not None
        if is_whole and not self._ledger.has_secret(json.dumps(exchange.answer)):
            return False  # much faster than joining the events
        return any(self._ledger.has_secret(text) for text in joined_texts(stream.encode()))

    def _account_for(self, exchange: Exchange) -> None:
        """Set the usage and cost of a successful call from its answer."""
        call, api, answer = exchange.call, exchange.api, exchange.answer or {}
        provider, endpoint, prices = exchange.provider, exchange.endpoint, self._settings.prices
        call.answered_model = as_string(answer.get("model") or answer.get("modelVersion"))[:256] or None
        if endpoint.kind not in CHARGED_KINDS:
            call.cost = _ZERO
            return
        whole = exchange.reader is None or exchange.stage is Stage.COMPLETE
        usage = read_usage(api.usage_of, endpoint.api, answer) if whole else None
        if usage is not None:
            call.tokens, detail = usage
            context = dict(exchange.context)
            if isinstance(tier := answer.get("service_tier"), str):
                context["service_tier"] = tier
            known = not prices.unpriced(provider, call.model, exchange.context)
            for model in filter(None, (call.answered_model, call.model)):
                if call.cost is None and known:
                    call.cost = prices.cost(provider, model, detail, context)
        if call.replayed:
            call.cost = _ZERO


def _exhausted(over: Exhausted) -> str:
    budget = f"the budget {over.option}={over.limit}"
    if over.share > 1:
        budget = f"this run's share of {budget}, which is split among {over.share} active runs,"
    return f"{budget} is exhausted: the rest does not cover this call"
