"""A run's calls in progress and their accounting: a budget is reserved before each, the ledger is written after it.

What may take long (the account's lock, long conversations) happens in one thread of its own, in order, and holds up no
stream. A short call of a run without an account is noted where it is: to change threads there and back takes longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pytest_mlebench.llm.api import API, Body, Endpoint, Provider, StreamReader, json_object
from pytest_mlebench.llm.budget import Account, BudgetLimits, Over, Wait
from pytest_mlebench.llm.ledger import Call, JsonText, Ledger, RecordLevel
from pytest_mlebench.llm.prices import Most, Prices, read_usage
from pytest_mlebench.llm.providers import load_providers
from pytest_mlebench.llm.requests import Admission, Refusal

if TYPE_CHECKING:
    from aiohttp import web

LEAST_OUTPUT = 1024
"""An answer is limited to what a budget has left, but to no less than this."""
SHORT = 64 << 10
"""Bytes of a call that is noted at once."""
PAID = ("generate", "embed")
"""The kinds of calls that providers charge for."""
_MOST_IDS, _LONGEST_ID = 1000, 256
"""Of one answer."""
_ZERO = Decimal(0)
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """What a session sets for its gateways; ``models`` are globs, none of which allows all."""

    providers: Mapping[str, Provider] = field(default_factory=load_providers)
    record: RecordLevel = "bodies"
    limits: BudgetLimits = field(default_factory=BudgetLimits)
    models: tuple[str, ...] = ()
    prices: Prices = field(default_factory=lambda: Prices({}))
    retries: int = 0
    rpm: float | None = None
    allow_provider_tools: bool = False
    max_open: int = 256
    """Calls of one run that are in progress at once; further ones wait."""
    max_waiting: int = 1024
    """Calls of one run that wait; further ones are refused."""
    max_answer: int = 128 << 20
    """Bytes of an answer."""
    max_answers: int = 256 << 20
    """Bytes of all answers that are in progress. No agent needs as many; an answer that is unpacked on its way, from a
    malicious provider, would fill the memory of the harness."""
    head_seconds: float = 30.0
    """The longest that the head of a request may take to arrive."""
    body_seconds: float = 120.0
    """The longest that its body may take."""
    wait_seconds: float = 600.0
    """The longest that a call waits for a place, its turn or its budget; clients give up by then."""
    call_seconds: float = 2 * 3600.0
    """The longest that an answer may take, so that a stream without an end has one."""
    read_seconds: float = 120.0
    """The longest that an agent may take to read what has arrived: until then its call holds what it reserved."""

    @classmethod
    def load(
        cls, *, providers: Iterable[Path], prices: Iterable[Path], limits: Mapping[str, float | None], **others: Any
    ) -> Self:
        """What these options say; ``limits`` by their names, costs in US dollars. Raises UsageError for an invalid
        file of providers or prices."""
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
    """How far a request has come."""

    RECEIVED = "received"
    SENT = "sent"
    """The provider may have begun to answer, and to charge for it."""
    REFUSED = "refused"
    """By the provider, which costs nothing."""
    STREAMING = "streaming"
    """The client has the first part of the answer."""
    COMPLETE = "complete"


@dataclass(kw_only=True)
class Exchange:
    """A request on its way to a provider, its answer, as far as it came, and what else is known of it by now."""

    request: web.BaseRequest
    call: Call
    provider: Provider
    endpoint: Endpoint
    path: str
    """Below the provider's base URL."""
    query: Mapping[str, str]
    """The listed part of its own."""
    admission: Admission
    raw: bytes = b""
    body: Body | None = None
    """As the agent wrote it, then as it is sent; None until it is read, and for what is no JSON object."""
    models: list[str] = field(default_factory=list)
    """The model that is asked, and those that the provider may ask in its place."""
    context: dict[str, str] = field(default_factory=dict)
    """What the price depends on beside the model: tier, speed, place."""
    reservation: int | None = None
    stage: Stage = Stage.RECEIVED
    answer: Body | None = None
    content: bytes = b""
    """The whole answer, where it is no stream."""
    chunks: list[bytes] | None = None
    """The parts of a stream."""
    reader: StreamReader | None = None
    """Puts the stream together."""
    drop_usage: bool = False
    """Whether the client has not asked for the usage in a stream."""
    kept: int = 0
    """Bytes of the answer that are in memory."""
    noted: bool = False
    """Whether it is in the ledger."""
    started: float = field(default_factory=time.monotonic)

    @property
    def api(self) -> API:
        return self.provider.api

    @property
    def recorded(self) -> str:
        """How recordings name its path, whether it is answered in a stream or not."""
        return f"/{self.provider.name}{self.path}".replace(":streamGenerateContent", ":generateContent")

    def elapsed(self) -> float:
        return round(time.monotonic() - self.started, 6)

    def remember(self) -> None:
        """Put a stream together to its answer, and note the ids by which the run can speak of it from now on."""
        if self.reader is not None:
            self.answer = self.reader.answer()
        if self.answer is not None:
            ids = self.api.kept_by_provider(self.endpoint, self.answer)
            self.admission.received.update(id for id in islice(ids, _MOST_IDS) if len(id) <= _LONGEST_ID)


class Accounting:
    """Ledger and account of one run. ``secrets`` are kept out of what is written. Raises OSError."""

    def __init__(
        self, settings: GatewaySettings, run_dir: Path, account_folder: Path, *, secrets: Iterable[str]
    ) -> None:
        self._settings = settings
        self._thread = ThreadPoolExecutor(1, "llm-accounting")
        self._ledger = Ledger(run_dir, record=settings.record, secrets=secrets)
        self.totals = self._ledger.totals
        self._account: Account | None = None
        self._in_thread = 0
        """How much the thread has to do; nothing else uses ledger and account meanwhile."""
        self._turn = asyncio.Lock()
        self._turns: dict[str, asyncio.Lock] = {}
        """One for each provider: a run holds one turn at a time, in which the others have theirs."""
        self._settled = asyncio.Event()
        self._places = asyncio.Semaphore(settings.max_open)
        self._placed: set[int] = set()
        """The calls that hold a place, by their numbers."""
        self._waiting = 0
        self.has_budget = bool(settings.limits)
        if self.has_budget or settings.rpm is not None:
            self._account = self._thread.submit(Account, account_folder, run_dir.name, settings.limits).result()

    def close(self) -> None:
        if self._account is not None:
            self._thread.submit(self._account.close).result()
        self._thread.submit(self._ledger.close).result()
        self._thread.shutdown()

    async def do(self, function: Callable[[], _T]) -> _T:
        """Do something in the accounting thread."""
        self._in_thread += 1
        done = asyncio.get_running_loop().run_in_executor(self._thread, function)
        done.add_done_callback(self._left_thread)
        return await asyncio.shield(done)

    def _left_thread(self, _: object) -> None:
        self._in_thread -= 1

    async def reserve(self, exchange: Exchange) -> None:
        """Reserve the most that a call can cost; wait while other calls hold what it needs. Raises Refusal."""
        call, account, endpoint = exchange.call, self._account, exchange.endpoint
        assert account is not None
        if endpoint.kind == "other":
            raise Refusal("invalid", f"what {call.endpoint} costs is not known, so a budget cannot be held")
        most = partial(self._most, exchange)
        wanted = await self.do(most)
        async with self._patience("other calls hold what is left of the budget"), self._turn:  # in order of arrival
            while True:
                self._settled.clear()
                got = await self.do(partial(self._take, exchange, account, wanted))
                if isinstance(got, int):
                    return
                if got.left is not None:
                    length = wanted.affordable(got.left.tokens, got.left.cost)
                    short = got.left.calls != 0 and LEAST_OUTPUT <= length < wanted.output // wanted.answers
                    name, admission, body = exchange.provider.output_limit, exchange.admission, exchange.body or {}
                    if short and exchange.api.limit_output(endpoint, body, length, name, admission):
                        call.output_limited = length
                        wanted = await self.do(most)
                        continue
                if isinstance(got, Over):
                    self.totals.budget_ended = f"{got.option}={got.limit}"
                    raise Refusal("budget", _ended(got))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._settled.wait(), 0.1)  # no event tells that other workers' calls end

    def _most(self, exchange: Exchange) -> Most:
        """The most that a call can cost: that of the dearest model. Raises Refusal where that is unknown, but must not
        be."""
        prices, provider, context = self._settings.prices, exchange.provider, exchange.context
        size, admission = len(exchange.raw), exchange.admission
        expected = exchange.api.expected(exchange.endpoint, exchange.body or {}, size, admission)
        found = []
        for model in exchange.models:
            most = prices.most(provider, model, expected, context)
            unknown = self._settings.limits.need_prices and prices.unknown(provider, model, expected, context, most)
            if unknown:
                raise Refusal("invalid", f"{unknown}, so a budget cannot be held: add it with --prices")
            found.append(most)
        return max(found, key=lambda most: (most.cost or _ZERO, most.tokens))

    @staticmethod
    def _take(exchange: Exchange, account: Account, wanted: Most) -> int | Wait | Over:
        got = account.reserve(tokens=wanted.tokens, cost=wanted.cost)
        if isinstance(got, int):  # noted here, as the request may have been cancelled meanwhile
            exchange.reservation = got
        return got

    async def enter(self, exchange: Exchange) -> None:
        """Take a place among the run's calls in progress, until ``finish``; raises Refusal if too many wait."""
        if self._waiting >= self._settings.max_waiting:
            raise Refusal("overloaded", f"{self._waiting} calls of this run wait already: ask fewer at once")
        self._waiting += 1
        try:
            async with self._patience(f"{self._settings.max_open} calls of this run are in progress"):
                await self._places.acquire()
        finally:
            self._waiting -= 1
        self._placed.add(exchange.call.number)

    async def pace(self, provider: Provider, rpm: float) -> None:
        """Wait for the run's turn; one that is cancelled meanwhile gives it back. Raises Refusal."""
        account, name = self._account, provider.name
        assert account is not None
        async with (
            self._patience(f"--llm-rpm={rpm:g} is shared by all runs", at_least=120 / rpm),
            self._turns.setdefault(name, asyncio.Lock()),
        ):
            try:
                await asyncio.sleep(await self.do(partial(account.pace, name, rpm)))
            except BaseException:
                await self.do(partial(account.give_back, name))
                raise

    @contextlib.asynccontextmanager
    async def _patience(self, why: str, *, at_least: float = 0) -> AsyncIterator[None]:
        """Context manager: a call waits; after ``wait_seconds`` it is refused, so that its agent learns why."""
        seconds = max(self._settings.wait_seconds, at_least)
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise Refusal("overloaded", f"the call waited {seconds:g} s: {why}; try again later") from None

    async def finish(self, exchange: Exchange) -> None:
        """Settle and record a call, once."""
        if exchange.noted:
            return
        exchange.noted = True
        if exchange.call.number in self._placed:
            self._placed.remove(exchange.call.number)
            self._places.release()
        exchange.remember()
        exchange.call.seconds = round(exchange.elapsed(), 6)
        is_short = len(exchange.raw) + exchange.call.response_bytes <= SHORT
        if self._account is None and not self._in_thread and is_short:
            self._note(exchange)
        else:
            await self.do(partial(self._note, exchange))
            self._settled.set()

    async def refuse(self, call: Call) -> None:
        """Record a call that is none of what this gateway passes on."""
        await self.do(partial(self._ledger.write, call))

    def _note(self, exchange: Exchange) -> None:
        call = exchange.call
        if call.status is not None and call.status < 300:
            self._account_for(exchange)
        if exchange.reservation is not None and self._account is not None:
            if exchange.stage in (Stage.RECEIVED, Stage.REFUSED):
                self._account.settle(exchange.reservation, calls=0, tokens=0, cost=_ZERO)
            else:  # what it used is not known if it was broken off: then what was reserved counts
                used = None if call.tokens is None else call.tokens.total
                self._account.settle(exchange.reservation, calls=1, tokens=used, cost=call.cost)
        self._ledger.write(call)
        if self._settings.record == "bodies":
            self._write_bodies(exchange)

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
            bodies["stream"] = b"".join(exchange.chunks).decode("utf-8", "replace")
        self._ledger.write_bodies(call.number, bodies)

    def _account_for(self, exchange: Exchange) -> None:
        """What a successful call used and cost, by what its answer says."""
        call, api, answer = exchange.call, exchange.api, exchange.answer or {}
        provider, endpoint, prices = exchange.provider, exchange.endpoint, self._settings.prices
        call.answered_model = api.answered_model(answer)
        if endpoint.kind not in PAID:
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


def _ended(over: Over) -> str:
    budget = f"the budget {over.option}={over.limit}"
    if over.share > 1:
        budget = f"this run's share of {budget}, which {over.share} active runs divide among themselves,"
    return f"{budget} is exhausted: the rest does not cover this call"
