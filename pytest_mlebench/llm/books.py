"""The books of a run: budgets are reserved in them before a call, and the ledger is written after it.

What may take long (the account's lock, long conversations) happens in one thread of its own, in order, and holds up no
stream. A short call of a run without an account is noted where it is: to change threads there and back takes longer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pytest_mlebench.llm.budget import Account, Over, Wait
from pytest_mlebench.llm.exchange import Exchange, json_object
from pytest_mlebench.llm.flavours import Endpoint, Refusal
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
_ZERO = Decimal(0)
_T = TypeVar("_T")


class Books:
    """Ledger and account of one run. ``secrets`` are kept out of what is written. Raises OSError."""

    def __init__(
        self, settings: GatewaySettings, run_dir: Path, account_folder: Path, *, secrets: Iterable[str]
    ) -> None:
        self._settings = settings
        self._thread = ThreadPoolExecutor(1, "llm-books")
        self._ledger = Ledger(run_dir, record=settings.record, secrets=secrets)
        self._account: Account | None = None
        self._in_thread = 0
        """How much the thread has to do; nothing else uses ledger and account meanwhile."""
        self._turn = asyncio.Lock()
        self._settled = asyncio.Event()
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
        """Do something in the books' thread."""
        self._in_thread += 1
        done = asyncio.get_running_loop().run_in_executor(self._thread, function)
        done.add_done_callback(self._left_thread)
        return await asyncio.shield(done)

    def _left_thread(self, _: object) -> None:
        self._in_thread -= 1

    async def reserve(self, exchange: Exchange, provider: Provider, endpoint: Endpoint, body: dict[str, Any]) -> None:
        """Reserve the most that a call can cost; wait while other calls hold what it needs. Raises Refusal."""
        flavour, call, account = exchange.flavour, exchange.call, self._account
        assert account is not None
        prices = self._settings.prices

        def most() -> Most:
            expected = flavour.expected(endpoint, body, len(exchange.raw))
            return prices.most(provider, call.model, expected, exchange.context)

        wanted = await self.do(most)
        if self._settings.limits.need_prices and wanted.cost is None:
            raise Refusal(
                "invalid", f"model {call.model} has no known price, so a budget cannot be held: add it with --prices"
            )
        async with self._turn:  # in the order in which they came
            while True:
                self._settled.clear()
                got = await self.do(partial(self._take, exchange, account, wanted))
                if isinstance(got, int):
                    return
                if isinstance(got, Wait):
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._settled.wait(), 0.1)  # other workers' calls end unheard
                    continue
                assert isinstance(got, Over)
                length = wanted.affordable(got.left.tokens, got.left.cost)
                short = got.option != "--max-calls" and LEAST_OUTPUT <= length < wanted.output // wanted.answers
                if short and flavour.limit_output(endpoint, body, length, provider.output_limit):
                    call.output_limited = length
                    wanted = await self.do(most)
                    continue
                self.totals.budget_ended = f"{got.option}={got.limit}"
                raise Refusal(
                    "budget",
                    f"the budget {got.option}={got.limit} has ended: what is left of it does not pay for this call",
                )

    @staticmethod
    def _take(exchange: Exchange, account: Account, wanted: Most) -> int | Wait | Over:
        got = account.reserve(tokens=wanted.tokens, cost=wanted.cost)
        if isinstance(got, int):  # noted here, as the request may have been cancelled meanwhile
            exchange.reservation = got
        return got

    async def pace(self, provider: Provider, rpm: float) -> None:
        account = self._account
        assert account is not None
        pause = await self.do(lambda: account.pace(provider.name, rpm))
        await asyncio.sleep(pause)

    async def finish(self, exchange: Exchange) -> None:
        """Settle and record a call, once."""
        if exchange.finished:
            return
        exchange.finished = True
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
            if exchange.failed or not exchange.sent:
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
        whole = exchange.reader is None or exchange.complete
        usage = read_usage(flavour.usage_of, endpoint.api, answer) if whole else None
        if usage is not None:
            call.tokens = usage.tokens
            context = dict(exchange.context)
            if isinstance(tier := answer.get("service_tier"), str):
                context["service_tier"] = tier
            for model in filter(None, (call.answered_model, call.model)):
                if call.cost is None:
                    call.cost = self._settings.prices.cost(provider, model, usage, context)
        if call.replayed:
            call.cost = _ZERO
