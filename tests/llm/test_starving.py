"""An agent attacks resources shared by all runs through its gateway; calls of another run still pass."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from pytest_mlebench.llm.budget import Account, BudgetLimits
from pytest_mlebench.llm.gateway import Gateway
from pytest_mlebench.llm.ledger import read_calls
from tests.llm.conftest import Start
from tests.llm.talking import QUESTION, ask, head, until
from tests.llm.test_budgets import ASKED, OUTPUT, prices
from tests.llm.upstreams import Failure, Upstream

LIMITED = {**QUESTION, "max_completion_tokens": 100}


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that calls had to wait for their turns."""
    found: list[float] = []
    pace = Account.pace

    def noted(self: Account, name: str, per_minute: float) -> float:
        found.append(pause := pace(self, name, per_minute))
        return pause

    monkeypatch.setattr(Account, "pace", noted)
    return found


def ended(gateway: Gateway) -> int:
    """Number of ended calls, including failed ones."""
    return len(read_calls(gateway.run_dir))


def send_and_keep(stack: ExitStack, gateway: Gateway, body: Any) -> socket.socket:
    """Send a request without reading the response."""
    connection = socket.create_connection(("127.0.0.1", urlsplit(gateway.url).port or 0))
    stack.callback(connection.close)
    content = json.dumps(body).encode()
    connection.sendall(head(gateway, f"Content-Length: {len(content)}") + content)
    return connection


def ask_in_background(gateway: Gateway, body: Any, *, times: int = 1) -> list[threading.Thread]:
    def quietly() -> None:
        with suppress(OSError, http.client.HTTPException):
            ask(gateway, body)

    threads = [threading.Thread(target=quietly, daemon=True) for _ in range(times)]
    for thread in threads:
        thread.start()
    return threads


def test_600_immediately_cancelled_calls_delay_no_other_run(start: Start, pauses: list[float]) -> None:
    attacker, victim = start("attacker", rpm=1), start("victim", rpm=1)
    assert ask(attacker).status == 200
    with ExitStack() as stack:
        for _ in range(600):
            send_and_keep(stack, attacker, QUESTION)
        until(lambda: len(pauses) == 2)
    until(lambda: ended(attacker) == 601)
    ask_in_background(victim, QUESTION)
    until(lambda: len(pauses) == 3)
    assert pauses[2] <= 60


def test_calls_of_other_runs_are_interleaved_with_waiting_calls(start: Start, pauses: list[float]) -> None:
    attacker, victim = start("attacker", rpm=1), start("victim", rpm=1)
    assert ask(attacker).status == 200
    ask_in_background(attacker, QUESTION, times=30)
    until(lambda: len(pauses) == 2)
    ask_in_background(victim, QUESTION)
    until(lambda: len(pauses) == 3)
    assert 60 < pauses[2] <= 120


def test_retried_calls_take_one_turn_at_a_time(start: Start, upstream: Upstream, pauses: list[float]) -> None:
    attacker, victim = start("attacker", rpm=1, retries=5), start("victim", rpm=1)
    upstream.failures += [Failure(429, {"error": {"message": "x"}}, {"retry-after": "0"})] * 600
    ask_in_background(attacker, QUESTION, times=20)
    until(lambda: len(pauses) >= 2)
    ask_in_background(victim, QUESTION)
    until(lambda: len(pauses) == 3)
    assert pauses[2] <= 120


def test_a_cancelled_call_that_waited_for_its_turn_costs_nothing(
    start: Start, upstream: Upstream, tmp_path: Path, pauses: list[float]
) -> None:
    run = start(limits=BudgetLimits(max_cost=Decimal(100 + OUTPUT)), prices=prices(tmp_path), rpm=1)
    assert ask(run, LIMITED).status == 200
    with ExitStack() as stack:
        send_and_keep(stack, run, LIMITED)
        until(lambda: len(pauses) == 2)
    until(lambda: ended(run) == 2)
    assert len(upstream.seen) == 1
    other = start("run", limits=BudgetLimits(max_cost=Decimal(100 + OUTPUT)), prices=prices(tmp_path))
    assert ask(other, LIMITED).status == 200


def test_a_silent_call_with_many_choices_does_not_hold_the_budget_of_others(
    start: Start, upstream: Upstream, tmp_path: Path
) -> None:
    limits = BudgetLimits(max_total_cost=Decimal(700))
    attacker, victim = (start(name, limits=limits, prices=prices(tmp_path)) for name in ("attacker", "victim"))
    refused = ask(attacker, {**LIMITED, "n": 6})
    assert refused.status == 402
    assert "this run's share of the budget --max-total-cost=$700, which is split among 2 active runs" in refused.message
    upstream.pause = 60
    ask_in_background(attacker, {**LIMITED, "n": 3})
    until(lambda: upstream.open == 1)
    upstream.pause = 0
    assert ask(victim, {**LIMITED, "n": 3}).status == 200


def test_a_new_runs_responses_are_limited_to_the_amount_left_by_a_silent_call(
    start: Start, upstream: Upstream, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"limits": BudgetLimits(max_total_cost=Decimal(10_000)), "prices": prices(tmp_path)}
    attacker = start("attacker", **settings)
    upstream.pause = 60
    ask_in_background(attacker, {**QUESTION, "max_completion_tokens": 8000})
    until(lambda: upstream.open == 1)
    upstream.pause = 0
    victim = start("victim", **settings)
    assert ask(victim, {**QUESTION, "max_completion_tokens": 4000}).status == 200
    assert upstream.seen[1].body["max_completion_tokens"] == 2000


def test_cancelled_huge_calls_cost_no_more_than_the_share(start: Start, upstream: Upstream, tmp_path: Path) -> None:
    """They may have been answered, so they count, but only against the attacker's share."""
    limits = BudgetLimits(max_total_cost=Decimal(400))
    attacker, victim = (start(name, limits=limits, prices=prices(tmp_path)) for name in ("attacker", "victim"))
    upstream.pause = 60
    for number in range(2):
        with ExitStack() as stack:
            send_and_keep(stack, attacker, LIMITED)
            until(lambda: upstream.open == 1)
        until(lambda number=number: ended(attacker) == number + 1)  # type: ignore[misc]
    upstream.pause = 0
    assert ask(attacker, LIMITED).status == 402
    assert [ask(victim, LIMITED).status for _ in range(2)] == [200, 200]


def test_a_slow_upload_holds_no_budget_and_no_turn(
    start: Start, upstream: Upstream, tmp_path: Path, pauses: list[float]
) -> None:
    settings: dict[str, Any] = {"limits": BudgetLimits(max_cost=Decimal(150)), "prices": prices(tmp_path), "rpm": 1}
    run = start(**settings)
    with ExitStack() as stack:
        for _ in range(50):
            connection = socket.create_connection(("127.0.0.1", urlsplit(run.url).port or 0))
            stack.callback(connection.close)
            connection.sendall(head(run, "Content-Length: 1000") + b'{"model":')
        assert ask(run, LIMITED).status == 200
    assert pauses == [0]


def test_an_agent_that_does_not_read_its_stream_is_disconnected(
    start: Start, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.reply = " ".join(["word" * 2500] * 2000)
    run = start(limits=BudgetLimits(max_calls=1), read_seconds=0.2)
    with ExitStack() as stack:
        send_and_keep(stack, run, {**QUESTION, "stream": True})
        until(lambda: ended(run) == 1)
    (call,) = read_calls(tmp_path / "group/run")
    assert "the client read nothing for 0.2 s" in call["error"]


def test_a_run_has_a_bounded_number_of_calls_in_progress_and_waiting(start: Start, upstream: Upstream) -> None:
    run, other = (start(name, max_open=2, max_waiting=3) for name in ("attacker", "other"))
    upstream.pause = 60
    with ExitStack() as stack:
        for _ in range(5):
            send_and_keep(stack, run, QUESTION)
        until(lambda: upstream.open == 2)
        until(lambda: run._accounting._waiting == 3)
        refused = ask(run)
        assert (refused.status, refused.message) == (
            503,
            "3 calls of this run are already waiting: send fewer at once",
        )
        assert "x-should-retry" not in refused.headers
        messages = {"model": "claude-sonnet-4-6", "max_tokens": 9, "messages": []}
        refused = ask(run, messages, path="/anthropic/v1/messages")
        assert (refused.status, refused.json["type"]) == (503, "error")
        upstream.pause = 0
        assert ask(other).status == 200
    until(lambda: ended(run) == 7)
    assert upstream.most_open == 3
    assert [ask(run).status for _ in range(6)] == [200] * 6


def test_every_end_of_a_call_frees_its_slot(start: Start, upstream: Upstream) -> None:
    run = start(limits=BudgetLimits(max_tokens=10**6), models=("gpt-4o",), max_open=1)
    upstream.failures += [Failure(500, {"error": {"message": "x"}})]
    ends = [ask(run, body).status for body in (ASKED, {**QUESTION, "model": "x"}, b"{", QUESTION, {}, ASKED, QUESTION)]
    assert Counter(ends) == {200: 3, 400: 2, 404: 1, 500: 1}
    upstream.breaks_off = True
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        ask(run, ASKED)
    upstream.breaks_off = False
    assert ask(run).status == 200


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"max_open": 1}, "1 calls of this run are in progress"),
        ({"limits": BudgetLimits(max_calls=1)}, "other calls hold the rest of the budget"),
    ],
)
def test_a_call_that_waits_too_long_is_rejected(
    settings: dict[str, Any], why: str, start: Start, upstream: Upstream
) -> None:
    run = start(**settings, wait_seconds=0.3)
    upstream.pause = 60
    with ExitStack() as stack:
        send_and_keep(stack, run, QUESTION)
        until(lambda: upstream.open == 1)
        refused = ask(run)
        assert (refused.status, refused.message) == (503, f"the call waited 0.3 s: {why}; try again later")


def test_a_call_whose_turn_is_too_late_is_rejected_and_returns_the_turn(start: Start, pauses: list[float]) -> None:
    run = start(rpm=60, wait_seconds=2.5)  # one turn per second
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: ask(run), range(6)))
    refused = [answer for answer in answers if answer.status == 503]
    assert [answer.status for answer in answers if answer not in refused] == [200] * 3 and len(refused) == 3
    why = "the call waited 2.5 s: --llm-rpm=60 is shared by all runs; try again later"
    assert {answer.message for answer in refused} == {why}
    assert ask(run).status == 200
    assert pauses[-1] <= 1, "rejected calls hold no turn"


def test_a_gateway_closed_with_open_calls_records_their_cost_and_frees_the_rest(
    start: Start, upstream: Upstream, tmp_path: Path
) -> None:
    limits = BudgetLimits(max_total_cost=Decimal(210))
    ended = start("ended", limits=limits, prices=prices(tmp_path))
    upstream.pause = 60
    ask_in_background(ended, LIMITED)
    until(lambda: upstream.open == 1)
    ended.close()
    upstream.pause = 0
    other = start("other", limits=limits, prices=prices(tmp_path))
    assert [ask(other, LIMITED).status for _ in range(2)] == [200, 402]


def test_a_provider_that_reports_negative_usage_causes_no_refund(
    start: Start, upstream: Upstream, tmp_path: Path
) -> None:
    run = start(limits=BudgetLimits(max_cost=Decimal(150)), prices=prices(tmp_path))
    upstream.usage = {"prompt_tokens": -5, "completion_tokens": -1000, "total_tokens": -1005}
    assert [ask(run, LIMITED).status for _ in range(2)] == [200, 402]
