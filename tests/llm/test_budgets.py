"""Budgets hold with many concurrent calls, many workers, and killed processes."""

from __future__ import annotations

import contextlib
import http.client
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors as genai_errors
from google.genai import types as genai_types

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.llm.accounting import GatewaySettings
from pytest_mlebench.llm.budget import ACCOUNT, Account, BudgetLimits, Exhausted, Wait
from pytest_mlebench.llm.gateway import Gateway
from pytest_mlebench.llm.ledger import read_calls
from pytest_mlebench.llm.prices import Prices
from pytest_mlebench.llm.providers import load_providers
from pytest_mlebench.records.record import Usage
from tests.llm.conftest import Start
from tests.llm.talking import QUESTION, ask, full_disk, until
from tests.llm.upstreams import REASONING, REPLY, Failure, Upstream

OUTPUT = len(REPLY.split()) + REASONING
ASKED = {**QUESTION, "max_completion_tokens": 100, "stream": True}


def prices(tmp_path: Path, **limits: float) -> Prices:
    """Only output costs: a dollar per token."""
    file = tmp_path / "prices.yaml"
    file.write_text(json.dumps({"gpt-4o": {"input": 0, "output": 1_000_000, **limits}}))
    return Prices.load(file)


def ask_often(gateway: Gateway, number: int, body: Any = ASKED) -> Counter[int]:
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(ask(gateway, body).status)) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Counter(statuses)


def test_of_64_concurrent_streams_only_the_budgeted_calls_are_paid(start: Start, upstream: Upstream) -> None:
    upstream.pause = 0.002
    gateway = start(limits=BudgetLimits(max_calls=10))
    assert ask_often(gateway, 64) == {200: 10, 402: 54}
    assert upstream.served == 10
    assert gateway.totals.budget_ended == "--max-calls=10"


def test_of_64_concurrent_streams_only_the_budgeted_dollars_are_paid(
    start: Start, upstream: Upstream, tmp_path: Path
) -> None:
    """Each call may cost $100 but costs its actual price; waiting calls get the amount that others leave."""
    gateway = start(limits=BudgetLimits(max_cost=Decimal(10 * OUTPUT + 99)), prices=prices(tmp_path))
    assert ask_often(gateway, 64) == {200: 10, 402: 54}
    assert gateway.totals.cost == 10 * OUTPUT
    assert upstream.most_open <= 3  # $100 of $219 for each call


def test_tokens_can_be_budgeted(start: Start, upstream: Upstream) -> None:
    gateway = start(limits=BudgetLimits(max_tokens=800))
    assert ask_often(gateway, 64)[200] > 10
    assert 500 < gateway.totals.tokens.total <= 800


def _worker(folder: str, file: str, environment: dict[str, str], ready: Any, counts: Any) -> None:
    os.environ.update(environment)
    settings = GatewaySettings(
        limits=BudgetLimits(max_total_cost=Decimal(240)), prices=Prices.load(Path(file)), record="calls"
    )
    run_dir = Path(folder) / f"run-{os.getpid()}"
    run_dir.mkdir()
    providers = [provider.located() for provider in settings.providers.values()]
    with Gateway(settings, providers, run_dir=run_dir, account_folder=Path(folder)) as gateway:
        ready.wait(300)
        counts.put(ask_often(gateway, 16))
        ready.wait(300)


@pytest.mark.full
def test_two_workers_share_the_sessions_budget(start: Start, upstream: Upstream, tmp_path: Path) -> None:
    """Each has a share of $120: after two calls of $12, the rest no longer covers $100."""
    prices(tmp_path)
    context = multiprocessing.get_context("spawn")
    counts, ready = context.Queue(), context.Barrier(2)
    folder = tmp_path / "group"
    folder.mkdir()
    given = (str(folder), str(tmp_path / "prices.yaml"), dict(os.environ), ready, counts)
    workers = [context.Process(target=_worker, args=given) for _ in range(2)]
    for worker in workers:
        worker.start()
    assert [counts.get(timeout=300) for _ in workers] == [{200: 2, 402: 14}] * 2
    for worker in workers:
        worker.join(30)
    assert upstream.served == 4
    assert (folder / ACCOUNT).exists()


_KILLED = """
import sys
from decimal import Decimal
from pathlib import Path
from pytest_mlebench.llm.budget import BudgetLimits
from pytest_mlebench.llm.gateway import Gateway
from pytest_mlebench.llm.prices import Prices
from pytest_mlebench.llm.accounting import GatewaySettings
group, prices = map(Path, sys.argv[1:])
settings = GatewaySettings(limits=BudgetLimits(max_total_cost=Decimal(250)), prices=Prices.load(prices))
(group / "killed").mkdir(parents=True)
with Gateway(settings, [p.located() for p in settings.providers.values()], run_dir=group / "killed",
             account_folder=group) as gateway:
    print(gateway.url, gateway.token, flush=True)
    sys.stdin.read()
"""


def _ask_until_killed(gateway: Gateway) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException):
        ask(gateway, ASKED)


def test_spending_of_a_killed_session_still_counts(start: Start, upstream: Upstream, tmp_path: Path) -> None:
    prices(tmp_path)
    group = tmp_path / "group"
    command = [sys.executable, "-c", _KILLED, str(group), str(tmp_path / "prices.yaml")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url, token = process.stdout.readline().split()
    killed: Any = type("Killed", (), {"url": url, "token": token})
    assert ask(killed, ASKED).status == 200
    upstream.endless = True
    threading.Thread(target=_ask_until_killed, args=(killed,), daemon=True).start()
    until(lambda: upstream.open == 1)
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    upstream.endless = False

    # All calls are recorded except the one in progress, which counts with its maximum cost.
    (call,) = read_calls(group / "killed")
    assert call["cost"] == OUTPUT
    gateway = start("resumed", limits=BudgetLimits(max_total_cost=Decimal(250)), prices=prices(tmp_path))
    assert ask(gateway, ASKED).status == 200  # $12 and $100 are used
    assert ask(gateway, ASKED).status == 200
    limited = ask(gateway, {**ASKED, "max_completion_tokens": 150})
    assert limited.status == 402
    assert "--max-total-cost=$250" in limited.message


def test_an_account_that_cannot_be_used_is_an_error_of_the_next_run(start: Start, run_dir: Path) -> None:
    limits = BudgetLimits(max_calls=9)
    gateway = start(limits=limits)
    assert ask(gateway).status == 200
    (run_dir.parent / ACCOUNT).write_bytes(b"garbage" * 1000)
    gateway.close()
    assert gateway.totals.write_error is not None and gateway.totals.calls == 1
    ledger = gateway._accounting._ledger
    assert all(file is not None and file.closed for file in (ledger._calls, ledger._bodies_file, ledger._bodies))
    with pytest.raises(SandboxError, match=rf"cannot start: .*{ACCOUNT} cannot be used: file is not a database"):
        start(limits=limits)


def test_a_call_that_fails_costs_nothing(start: Start, upstream: Upstream, tmp_path: Path) -> None:
    gateway = start(limits=BudgetLimits(max_cost=Decimal(100), max_calls=1), prices=prices(tmp_path))
    upstream.failures += [Failure(500, {"error": {"message": "x"}}), Failure(429, {"error": {"message": "x"}})]
    assert [ask(gateway, ASKED).status for _ in range(3)] == [500, 429, 200]


def test_a_call_with_unknown_usage_costs_the_reserved_amount(start: Start, upstream: Upstream, tmp_path: Path) -> None:
    gateway = start(limits=BudgetLimits(max_cost=Decimal(150)), prices=prices(tmp_path))
    upstream.usage = False
    assert [ask(gateway, ASKED).status for _ in range(2)] == [200, 402]


def test_a_lost_response_costs_the_reserved_amount(start: Start, upstream: Upstream, tmp_path: Path) -> None:
    """The provider may have generated the response and charge for it."""
    gateway = start(limits=BudgetLimits(max_cost=Decimal(150)), prices=prices(tmp_path), call_seconds=0.3)
    upstream.pause = 1
    assert ask(gateway, {**ASKED, "stream": False}).status == 504
    upstream.pause = 0
    assert ask(gateway, ASKED).status == 402


@pytest.mark.parametrize(("lost", "then"), [(1, 502), (0, 200)])
def test_a_lost_response_is_not_retried_since_the_provider_may_charge_for_it(
    lost: int, then: int, start: Start, upstream: Upstream, tmp_path: Path
) -> None:
    gateway = start(retries=2, limits=BudgetLimits(max_cost=Decimal(150)), prices=prices(tmp_path))
    upstream.failures.append(Failure(503, {"error": {"message": "busy"}}, {"retry-after": "0"}))
    upstream.lost = lost
    assert [ask(gateway, ASKED).status for _ in range(2)] == [then, 402 if lost else 200]
    assert len(upstream.seen) == (2 if lost else 3)
    assert gateway.totals.calls == (0 if lost else 2)


def test_a_provider_that_cannot_be_reached_is_tried_again_at_no_cost(
    start: Start, upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_mlebench.llm.upstream._BACKOFF_SECONDS", 0.01)
    url = os.environ["OPENAI_BASE_URL"]
    monkeypatch.setenv("OPENAI_BASE_URL", "https://localhost:9/v1")
    limits = BudgetLimits(max_total_cost=Decimal(100))
    gateway = start(retries=2, limits=limits, prices=prices(tmp_path))
    assert ask(gateway, ASKED).status == 502
    gateway.close()
    assert read_calls(tmp_path / "group/run")[0]["retries"] == 2
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    assert ask(start("other", limits=limits, prices=prices(tmp_path)), ASKED).status == 200


def test_a_response_is_limited_to_the_remaining_budget(start: Start, upstream: Upstream, tmp_path: Path) -> None:
    gateway = start(limits=BudgetLimits(max_cost=Decimal(5000)), prices=prices(tmp_path, output_limit=100_000))
    assert ask(gateway, QUESTION).status == 200
    assert upstream.seen[0].body["max_completion_tokens"] == 5000
    assert read_calls(tmp_path / "group/run")[0]["output_limited"] == 5000
    assert ask(gateway, {**QUESTION, "max_tokens": 9000, "n": 2}).status == 200
    assert upstream.seen[1].body["max_tokens"] == (5000 - OUTPUT) // 2


def test_a_response_is_not_limited_if_the_budget_suffices(start: Start, upstream: Upstream) -> None:
    gateway = start(limits=BudgetLimits(max_cost=Decimal(1)))
    assert ask(gateway, QUESTION).status == 200
    assert upstream.seen[0].raw == json.dumps(QUESTION).encode()


def test_a_model_without_a_price_is_rejected_under_a_dollar_budget(start: Start, upstream: Upstream) -> None:
    gateway = start(limits=BudgetLimits(max_cost=Decimal(1)))
    answer = ask(gateway, {**QUESTION, "model": "nobody-knows"})
    assert answer.status == 400
    assert "--prices" in answer.message
    assert ask(start("other", limits=BudgetLimits(max_calls=1)), {**QUESTION, "model": "nobody-knows"}).status == 200


def test_a_document_of_unknown_length_is_reserved_with_the_whole_context_window(
    start: Start, upstream: Upstream
) -> None:
    """It may have a million tokens, which cost $2.50."""
    document = {"inlineData": {"mimeType": "application/pdf", "data": "AAAA"}}
    body = {"contents": [{"parts": [document]}], "generationConfig": {"maxOutputTokens": 100}}
    gateway = start(limits=BudgetLimits(max_cost=Decimal("2.5")))
    assert ask(gateway, body, path="/gemini/v1beta/models/gemini-2.5-pro:generateContent").status == 403
    assert upstream.seen == []


def test_own_limits_without_prices_keep_the_built_in_prices_and_checks(tmp_path: Path) -> None:
    from pytest_mlebench.llm.api import Expected

    (tmp_path / "own.yaml").write_text("gpt-4o: {context_window: 9000}")
    provider, own, built_in = load_providers()["openai"], Prices.load(tmp_path / "own.yaml"), Prices({})
    spoken = Expected(1000, 1000, media_output="audio")
    for expected, context in ((spoken, {}), (Expected(1000, 1000), {"service_tier": "unheard-of"})):
        most, known = own.most(provider, "gpt-4o", expected), built_in.most(provider, "gpt-4o", expected)
        why = own.unknown(provider, "gpt-4o", expected, context, most)
        assert "is unknown" in why and why == built_in.unknown(provider, "gpt-4o", expected, context, known)
        assert most.cost == known.cost
    assert own.most(provider, "gpt-4o", Expected(None, 1)).input == 9000


def test_an_exhausted_budget_is_reported_in_each_providers_format(start: Start, upstream: Upstream) -> None:
    gateway = start(limits=BudgetLimits(max_calls=0))
    answer = ask(gateway)
    assert (answer.status, answer.json["error"]["code"]) == (402, "insufficient_quota")
    assert answer.headers["x-should-retry"] == "false"
    messages = {"model": "claude-sonnet-4-6", "max_tokens": 9, "messages": []}
    answer = ask(gateway, messages, path="/anthropic/v1/messages")
    assert (answer.status, answer.json["error"]["type"]) == (402, "billing_error")
    answer = ask(gateway, {"contents": []}, path="/gemini/v1beta/models/gemini-2.5-pro:generateContent")
    assert (answer.status, answer.json["error"]["status"]) == (403, "PERMISSION_DENIED")
    assert upstream.seen == []


def test_no_client_retries_after_the_budget_is_exhausted(start: Start, run_dir: Path) -> None:
    gateway = start(limits=BudgetLimits(max_calls=0))
    openai_client = openai.OpenAI(base_url=f"{gateway.url}/openai/v1", api_key=gateway.token)
    anthropic_client = anthropic.Anthropic(base_url=f"{gateway.url}/anthropic", api_key=gateway.token)
    retried = genai_types.HttpRetryOptions(attempts=5)
    options = genai_types.HttpOptions(base_url=f"{gateway.url}/gemini", retry_options=retried)
    gemini_client = genai.Client(api_key=gateway.token, http_options=options)
    with openai_client, anthropic_client, closing(gemini_client):
        with pytest.raises(openai.APIStatusError, match="the budget --max-calls=0 is exhausted") as refused:
            openai_client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "x"}])
        assert not isinstance(refused.value, openai.RateLimitError)  # agents would wait and retry
        assert refused.value.code == "insufficient_quota"
        with pytest.raises(openai.APIStatusError, match="is exhausted"):
            openai_client.responses.create(model="gpt-4o", input="x", stream=True)
        with pytest.raises(anthropic.APIStatusError, match="is exhausted") as billing:
            anthropic_client.messages.create(
                model="claude-sonnet-4-6", max_tokens=9, messages=[{"role": "user", "content": "x"}]
            )
        assert not isinstance(billing.value, anthropic.RateLimitError)
        with pytest.raises(genai_errors.ClientError, match="is exhausted"):
            gemini_client.models.generate_content(model="gemini-2.5-pro", contents="x")
    assert len(read_calls(run_dir)) == 4


def test_unlisted_models_are_rejected(start: Start, upstream: Upstream) -> None:
    gateway = start(models=("GPT-4o*", "anthropic/*"))
    assert ask(gateway).status == 200
    refused = ask(gateway, {**QUESTION, "model": "gpt-5"})
    assert (refused.status, refused.json["error"]["code"]) == (404, "model_not_found")
    assert ask(gateway, {**QUESTION, "models": ["gpt-4o", "gpt-5"]}).status == 400
    messages = {"model": "claude-sonnet-4-6", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
    assert ask(gateway, messages, path="/anthropic/v1/messages").status == 200
    body = {"contents": [{"parts": [{"text": "x"}]}]}
    assert ask(gateway, body, path="/gemini/v1beta/models/gemini-2.5-pro:generateContent").status == 404


def test_an_account_waits_for_open_calls_and_rejects_calls_that_never_fit(tmp_path: Path) -> None:
    account = Account(tmp_path, "run", BudgetLimits(max_tokens=100))
    first = account.reserve(tokens=60, cost=None)
    assert isinstance(first, int)
    assert account.reserve(tokens=60, cost=None) == Wait()
    over = account.reserve(tokens=101, cost=None)
    assert isinstance(over, Exhausted)
    assert (over.option, over.left.tokens) == ("--max-tokens", 100)
    account.settle(first, calls=1, tokens=40, cost=None)
    assert isinstance(account.reserve(tokens=60, cost=None), int)
    account.close()


@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
def test_a_call_that_cannot_be_settled_is_settled_later(tmp_path: Path, closed: bool) -> None:
    account = Account(tmp_path, "run", BudgetLimits(max_tokens=100))
    first = account.reserve(tokens=60, cost=None)
    assert isinstance(first, int)
    with full_disk(), pytest.raises(OSError, match="cannot be used"):
        account.settle(first, calls=1, tokens=40, cost=None)
    if closed:
        account.close()
        account = Account(tmp_path, "run", BudgetLimits(max_tokens=100))
    assert isinstance(account.reserve(tokens=61, cost=None), Exhausted)
    assert isinstance(account.reserve(tokens=60, cost=None), int)
    account.close()


def test_a_disk_that_is_full_at_the_end_is_no_error_of_the_run(start: Start, upstream: Upstream) -> None:
    gateway = start(limits=BudgetLimits(max_calls=2))
    assert ask(gateway).status == 200
    with full_disk():
        gateway.close()
    assert gateway.totals.write_error is not None and gateway.totals.calls == 1
    assert [ask(start(limits=BudgetLimits(max_calls=2))).status for _ in range(2)] == [200, 402]


def test_budgets_hold_on_a_full_disk(start: Start, upstream: Upstream) -> None:
    gateway = start(limits=BudgetLimits(max_calls=2))
    with ExitStack() as stack:
        upstream.on_request = lambda _: stack.enter_context(full_disk())
        assert ask(gateway).json["choices"][0]["message"]["content"] == REPLY
        answer = ask(gateway)
        assert (answer.status, answer.message) == (
            503,
            "the harness cannot write its account of spending, so no call is sent",
        )
    upstream.on_request = lambda _: None
    totals = gateway.totals.to_json()
    assert (upstream.served, totals["calls"]) == (1, 1)
    assert Usage.of(totals).write_error is not None
    assert [ask(gateway).status for _ in range(2)] == [200, 402]


def test_bundled_prices_bound_the_cost_of_a_call() -> None:
    from pytest_mlebench.llm.api import Expected

    provider = load_providers()["openai"]
    most = Prices({}).most(provider, "gpt-4o", Expected(1000, None))
    assert (most.input, most.output) == (1000, 16_384)
    assert most.cost == pytest.approx(Decimal("0.0025") + Decimal("0.16384"))
    assert Prices({}).most(provider, "gpt-4o", Expected(None, 0)).input == 128_000
    gemini = load_providers()["gemini"]
    for model in ("gemini-2.5-pro", "gemini-3.5-flash"):  # without a window in genai-prices, and with a rounded one
        assert Prices({}).most(gemini, model, Expected(None, 0)).input >= 1 << 20
    unknown = Prices({}).most(gemini, "gemini-2.5-pro", Expected(900_000, None))
    assert (unknown.input, unknown.output, unknown.input_cost) == (900_000, 65_536, Decimal("2.25"))
    cached = Prices({}).most(load_providers()["anthropic"], "claude-sonnet-4-6", Expected(1000, 0))
    assert cached.input_cost == Decimal("0.006")  # all of it cached for an hour: twice the input price
