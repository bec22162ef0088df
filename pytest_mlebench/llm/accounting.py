"""A run's accounting: budgets are reserved before each call, and the ledger is written after it.

What may take long (the account's lock, long conversations) happens in one thread of its own, in order, and holds up no
stream. A short call of a run without an account is noted where it is: to change threads there and back takes longer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pytest_mlebench.llm.budget import Account, Over, Wait
from pytest_mlebench.llm.exchange import Exchange, Stage, json_object
from pytest_mlebench.llm.flavours import Endpoint, Refusal
from pytest_mlebench.llm.flavours.base import Expected
from pytest_mlebench.llm.ledger import JsonText, Ledger, Totals
from pytest_mlebench.llm.prices import Most, read_usage
from pytest_mlebench.llm.providers import Provider
from pytest_mlebench.llm.settings import GatewaySettings

LEAST_OUTPUT = 1024
"""An answer is limited to what a budget has left, but to no less than this."""
SHORT = 64 << 10
"""Bytes of a call that is noted at once."""
PAID = ("generate", "embed")
"""The kinds of calls that providers charge for."""
MAX_OPEN = 256
"""Calls of one run that are in progress at once; further ones wait."""
MAX_WAITING = 1024
"""Calls of one run that wait; further ones are refused."""
WAIT_SECONDS = 600.0
"""The longest that a call waits for a place, its turn or its budget; clients give up by then."""
_ZERO = Decimal(0)
_T = TypeVar("_T")


class Accounting:
    """Ledger and account of one run. ``secrets`` are kept out of what is written. Raises OSError."""

    def __init__(
        self, settings: GatewaySettings, run_dir: Path, account_folder: Path, *, secrets: Iterable[str]
    ) -> None:
        self._settings = settings
        self._thread = ThreadPoolExecutor(1, "llm-accounting")
        self._ledger = Ledger(run_dir, record=settings.record, secrets=secrets)
        self._account: Account | None = None
        self._in_thread = 0
        """How much the thread has to do; nothing else uses ledger and account meanwhile."""
        self._turn = asyncio.Lock()
        self._turns: dict[str, asyncio.Lock] = {}
        """One for each provider: a run holds one turn at a time, in which the others have theirs."""
        self._settled = asyncio.Event()
        self._places = asyncio.Semaphore(MAX_OPEN)
        self._placed: set[int] = set()
        """The calls that hold a place, by their numbers."""
        self._waiting = 0
        if settings.limits or settings.rpm is not None:
            self._account = self._thread.submit(Account, account_folder, run_dir.name, settings.limits).result()

    @property
    def totals(self) -> Totals:
        return self._ledger.totals

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

    async def reserve(self, exchange: Exchange, body: dict[str, Any]) -> None:
        """Reserve the most that a call can cost; wait while other calls hold what it needs. Raises Refusal."""
        flavour, call, account = exchange.flavour, exchange.call, self._account
        provider, endpoint = exchange.provider, exchange.endpoint
        assert account is not None and provider is not None and endpoint is not None
        if endpoint.kind == "other":
            raise Refusal("invalid", f"what {call.endpoint} costs is not known, so a budget cannot be held")

        def most() -> Most:
            expected = flavour.expected(endpoint, body, len(exchange.raw), exchange.admission)
            found = [self._most(provider, model, expected, exchange.context) for model in exchange.models]
            return max(found, key=lambda most: (most.cost or _ZERO, most.tokens))

        wanted = await self.do(most)
        async with _patience("other calls hold what is left of the budget"), self._turn:  # in order of arrival
            while True:
                self._settled.clear()
                got = await self.do(partial(self._take, exchange, account, wanted))
                if isinstance(got, int):
                    return
                if got.left is not None:
                    length = wanted.affordable(got.left.tokens, got.left.cost)
                    short = got.left.calls != 0 and LEAST_OUTPUT <= length < wanted.output // wanted.answers
                    if short and flavour.limit_output(
                        endpoint, body, length, provider.output_limit, exchange.admission
                    ):
                        call.output_limited = length
                        wanted = await self.do(most)
                        continue
                if isinstance(got, Over):
                    self.totals.budget_ended = f"{got.option}={got.limit}"
                    raise Refusal("budget", _ended(got))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._settled.wait(), 0.1)  # other workers' calls end unheard

    def _most(self, provider: Provider, model: str, expected: Expected, context: Mapping[str, str]) -> Most:
        """The most that a call of this model can cost. Raises Refusal where that is not known, but must be."""
        prices = self._settings.prices
        most = prices.most(provider, model, expected, context)
        unknown = self._settings.limits.need_prices and prices.unknown(provider, model, expected, context, most)
        if unknown:
            raise Refusal("invalid", f"{unknown}, so a budget cannot be held: add it with --prices")
        return most

    @staticmethod
    def _take(exchange: Exchange, account: Account, wanted: Most) -> int | Wait | Over:
        got = account.reserve(tokens=wanted.tokens, cost=wanted.cost)
        if isinstance(got, int):  # noted here, as the request may have been cancelled meanwhile
            exchange.reservation = got
        return got

    async def enter(self, exchange: Exchange) -> None:
        """Take a place among the run's calls in progress, until ``finish``; raises Refusal if too many wait."""
        if self._waiting >= MAX_WAITING:
            raise Refusal("overloaded", f"{MAX_WAITING} calls of this run wait already: ask fewer at once")
        self._waiting += 1
        try:
            async with _patience(f"{MAX_OPEN} calls of this run are in progress"):
                await self._places.acquire()
        finally:
            self._waiting -= 1
        self._placed.add(exchange.call.number)

    async def pace(self, provider: Provider, rpm: float) -> None:
        """Wait for the run's turn; one that is cancelled meanwhile gives it back. Raises Refusal."""
        account, name = self._account, provider.name
        assert account is not None
        async with (
            _patience(f"--llm-rpm={rpm:g} is shared by all runs", at_least=120 / rpm),
            self._turns.setdefault(name, asyncio.Lock()),
        ):
            try:
                await asyncio.sleep(await self.do(partial(account.pace, name, rpm)))
            except BaseException:
                await self.do(partial(account.give_back, name))
                raise

    async def finish(self, exchange: Exchange) -> None:
        """Settle and record a call, once."""
        if exchange.finished:
            return
        exchange.finished = True
        if exchange.call.number in self._placed:
            self._placed.remove(exchange.call.number)
            self._places.release()
        exchange.remember()
        exchange.call.seconds = round(exchange.elapsed(), 6)
        if self._account is None and not self._in_thread and exchange.size <= SHORT:
            self._note(exchange)
        else:
            await self.do(lambda: self._note(exchange))
            self._settled.set()

    def _note(self, exchange: Exchange) -> None:
        call, provider, endpoint = exchange.call, exchange.provider, exchange.endpoint
        if provider is not None and endpoint is not None and call.status is not None and call.status < 300:
            self._account_for(exchange, provider, endpoint, exchange.answer or {})
        if exchange.reservation is not None and self._account is not None:
            if not exchange.stage.costs:
                self._account.settle(exchange.reservation, calls=0, tokens=0, cost=_ZERO)
            else:  # what it used is not known if it was broken off: then what was reserved counts
                used = None if call.tokens is None else call.tokens.total
                self._account.settle(exchange.reservation, calls=1, tokens=used, cost=call.cost)
        self._ledger.write(call)
        if provider is not None and self._settings.record == "bodies":
            self._write_bodies(exchange)

    def _write_bodies(self, exchange: Exchange) -> None:
        call = exchange.call
        request = JsonText.of(exchange.raw) if exchange.is_read else None
        bodies: dict[str, Any] = {
            "path": exchange.path,
            "request": json_object(exchange.raw) if request is None else request,
        }
        if exchange.answer is not None:
            answer = JsonText.of(exchange.content) if exchange.content else None
            name = "response" if call.status is not None and call.status < 300 else "error"
            bodies[name] = exchange.answer if answer is None else answer
        if exchange.stream:
            bodies["stream"] = b"".join(exchange.stream).decode("utf-8", "replace")
        self._ledger.write_bodies(call.number, bodies)

    def _account_for(self, exchange: Exchange, provider: Provider, endpoint: Endpoint, answer: dict[str, Any]) -> None:
        """What a successful call used and cost, by what its answer says."""
        call, flavour = exchange.call, exchange.flavour
        call.answered_model = flavour.answered_model(answer)
        if endpoint.kind not in PAID:
            call.cost = _ZERO
            return
        whole = exchange.reader is None or exchange.stage is Stage.COMPLETE
        usage = read_usage(flavour.usage_of, endpoint.api, answer) if whole else None
        if usage is not None:
            call.tokens = usage.tokens
            context = dict(exchange.context)
            if isinstance(tier := answer.get("service_tier"), str):
                context["service_tier"] = tier
            known = not self._settings.prices.unpriced(provider, call.model, exchange.context)
            for model in filter(None, (call.answered_model, call.model)):
                if call.cost is None and known:
                    call.cost = self._settings.prices.cost(provider, model, usage, context)
        if call.replayed:
            call.cost = _ZERO


@contextlib.asynccontextmanager
async def _patience(why: str, *, at_least: float = 0) -> AsyncIterator[None]:
    """Within, a call waits; after ``WAIT_SECONDS`` it is refused, so that its agent learns why."""
    seconds = max(WAIT_SECONDS, at_least)
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise Refusal("overloaded", f"the call waited {seconds:g} s: {why}; try again later") from None


def _ended(over: Over) -> str:
    budget = f"the budget {over.option}={over.limit}"
    if over.share > 1:
        budget = f"this run's share of {budget}, which {over.share} active runs divide among themselves,"
    return f"{budget} is exhausted: the rest does not cover this call"
