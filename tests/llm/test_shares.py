"""No run can starve another: each has a share of the total budget and of the calls per minute."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import FrozenInstanceError
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.processes import LABEL, owner_labels
from pytest_mlebench.llm.budget import (
    ACCOUNT,
    ACTIVE_SECONDS,
    LEASE_SECONDS,
    Account,
    BudgetLimits,
    Exhausted,
    Left,
    Wait,
    share_of,
)

NANO = Decimal("0.000000001")
Open = Callable[..., Account]


class Clock:
    """A clock set by the test."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def account(tmp_path: Path, clock: Clock) -> Iterator[Open]:
    """Opens accounts of runs of one group."""
    runs: list[Account] = []

    def open(run: str = "a", **limits: Decimal | int) -> Account:
        runs.append(Account(tmp_path, run, BudgetLimits(**limits), clock=clock))  # type: ignore[arg-type]
        return runs[-1]

    yield open
    for run in runs:
        with suppress(OSError):  # closed by the test
            run.close()


def hold(account: Account, cost: int | str) -> int:
    got = account.reserve(tokens=0, cost=Decimal(cost))
    assert isinstance(got, int), got
    return got


def spend(account: Account, cost: int | str) -> None:
    account.settle(hold(account, cost), calls=1, tokens=0, cost=Decimal(cost))


def fits(account: Account, cost: int | str | Decimal) -> bool:
    """Whether a call of this cost would be admitted; holds nothing afterwards."""
    got = account.reserve(tokens=0, cost=Decimal(cost))
    if isinstance(got, int):
        account.settle(got, calls=0, tokens=0, cost=Decimal(0))
    return isinstance(got, int)


def holds_exactly(account: Account, cost: int | str) -> bool:
    return fits(account, cost) and not fits(account, Decimal(cost) + NANO)


# The total budget


def test_the_time_limits_are_one_hour_and_six_hours() -> None:
    assert (ACTIVE_SECONDS, LEASE_SECONDS) == (3600, 21_600)


def test_open_and_ended_calls_are_counted(account: Open) -> None:
    first = account(max_calls=3)
    reservations = [first.reserve(tokens=0, cost=None) for _ in range(3)]
    assert first.reserve(tokens=0, cost=None) == Wait()
    for reservation in reservations[:2]:
        assert isinstance(reservation, int)
        first.settle(reservation, calls=1, tokens=0, cost=None)
    assert first.reserve(tokens=0, cost=None) == Wait()
    assert isinstance(reservations[2], int)
    first.settle(reservations[2], calls=1, tokens=0, cost=None)
    assert first.reserve(tokens=0, cost=None) == Exhausted("--max-calls", "3", Left(0, None, None))
    assert isinstance(account("b", max_calls=1).reserve(tokens=0, cost=None), int)


def test_an_impossible_token_count_is_not_refunded(account: Open) -> None:
    first = account(max_tokens=100)
    reservation = first.reserve(tokens=60, cost=None)
    assert isinstance(reservation, int)
    first.settle(reservation, calls=1, tokens=-1, cost=None)
    assert first.reserve(tokens=41, cost=None) == Exhausted("--max-tokens", "100", Left(None, 40, None))


def test_unknown_usage_counts_as_reserved(account: Open) -> None:
    first = account(max_tokens=100)
    reservation = first.reserve(tokens=60, cost=None)
    assert isinstance(reservation, int)
    first.settle(reservation, calls=1, tokens=None, cost=None)
    assert first.reserve(tokens=41, cost=None) == Exhausted("--max-tokens", "100", Left(None, 40, None))


def test_a_closed_account_accepts_no_more_calls(account: Open) -> None:
    first = account()
    first.close()
    with pytest.raises(OSError, match=rf"{ACCOUNT} cannot be used: Cannot operate on a closed database"):
        first.reserve(tokens=0, cost=None)


def test_remaining_amounts_and_limits_are_immutable() -> None:
    for value in (BudgetLimits(), Left(1, 2, None), Wait(), Exhausted("--max-calls", "1", Left(1, 2, None))):
        with pytest.raises(FrozenInstanceError):
            setattr(value, "share", 2)  # noqa: B010 - mypy knows that it cannot be
    with pytest.raises(TypeError):
        BudgetLimits(Decimal(1))  # type: ignore[call-arg]


def test_amounts_are_exact_up_to_the_maximum_of_the_file(account: Open) -> None:
    first = account(max_tokens=1 << 63)
    reservation = first.reserve(tokens=1 << 62, cost=None)
    assert isinstance(reservation, int)
    first.settle(reservation, calls=1, tokens=1 << 62, cost=None)
    over = first.reserve(tokens=1 << 63, cost=None)
    assert isinstance(over, Exhausted)
    assert over.left.tokens == 1 << 62


def test_a_single_run_may_use_the_whole_total(account: Open) -> None:
    assert holds_exactly(account(max_total_cost=Decimal(90)), 90)


def test_active_runs_may_hold_equal_shares(account: Open) -> None:
    runs = [account(name, max_total_cost=Decimal(90)) for name in "abc"]
    assert all(holds_exactly(run, 30) for run in runs)
    over = runs[0].reserve(tokens=0, cost=Decimal(31))
    assert over == Exhausted("--max-total-cost", "$90", Left(None, None, Decimal(30)), 3)


def test_a_silent_call_of_one_run_does_not_delay_the_other(account: Open) -> None:
    """The attack: a call with many choices reserved most of the total and was never answered."""
    attacker, victim = (account(name, max_total_cost=Decimal(10)) for name in "ab")
    assert isinstance(attacker.reserve(tokens=0, cost=Decimal(9)), Exhausted)
    hold(attacker, 5)
    assert holds_exactly(victim, 5)


def test_many_concurrent_calls_hold_no_more_than_the_share(account: Open) -> None:
    attacker, victim = (account(name, max_total_cost=Decimal(10)) for name in "ab")
    held = [attacker.reserve(tokens=0, cost=Decimal(1)) for _ in range(100)]
    assert sum(isinstance(got, int) for got in held) == 5
    assert held[5:] == [Wait()] * 95
    assert holds_exactly(victim, 5)


def test_a_runs_spending_counts_against_its_share(account: Open) -> None:
    attacker, victim = (account(name, max_total_cost=Decimal(10)) for name in "ab")
    for _ in range(4):
        spend(attacker, 1)
    assert holds_exactly(attacker, 1)
    spend(attacker, 1)
    over = attacker.reserve(tokens=0, cost=NANO)
    assert isinstance(over, Exhausted)
    assert over.left.cost == 0
    assert holds_exactly(victim, 5)


def test_the_share_of_a_run_that_ended_goes_to_the_others(account: Open) -> None:
    first, second, third = (account(name, max_total_cost=Decimal(90)) for name in "abc")
    spend(first, 10)
    first.close()
    assert holds_exactly(second, 40)
    spend(second, 20)
    second.close()
    assert holds_exactly(third, 60)


def test_a_run_that_overused_its_share_while_alone_leaves_the_rest_to_new_runs(account: Open) -> None:
    first = account("a", max_total_cost=Decimal(90))
    spend(first, 50)
    second, third = (account(name, max_total_cost=Decimal(90)) for name in "bc")
    assert not fits(first, NANO)
    assert holds_exactly(second, 20) and holds_exactly(third, 20)
    third.close()
    assert holds_exactly(second, 40)
    assert not fits(first, NANO)
    second.close()
    assert holds_exactly(first, 40)


def test_a_new_run_gets_the_free_amount_at_once_and_is_told_how_much_it_is(account: Open) -> None:
    first = account("a", max_total_cost=Decimal(90))
    silent = hold(first, 80)
    second = account("b", max_total_cost=Decimal(90))
    assert second.reserve(tokens=0, cost=Decimal(20)) == Wait(Left(None, None, Decimal(10)))
    over = second.reserve(tokens=0, cost=Decimal(46))
    assert over == Exhausted("--max-total-cost", "$90", Left(None, None, Decimal(45)), 2)
    assert holds_exactly(second, 10)
    first.settle(silent, calls=0, tokens=0, cost=Decimal(0))
    assert holds_exactly(second, 45)


def test_own_calls_and_those_of_other_runs_are_distinguished(account: Open) -> None:
    """A run waits for its own calls, but amounts held by other runs only shorten its responses."""
    first = account("a", max_total_cost=Decimal(90))
    hold(first, 60)
    second = account("b", max_total_cost=Decimal(90))
    hold(second, 10)
    assert second.reserve(tokens=0, cost=Decimal(30)) == Wait()
    assert second.reserve(tokens=0, cost=Decimal(31)) == Wait(Left(None, None, Decimal(20)))
    spend(second, 5)
    assert second.reserve(tokens=0, cost=Decimal(25)) == Wait()
    assert second.reserve(tokens=0, cost=Decimal(26)) == Wait(Left(None, None, Decimal(15)))


def test_an_hour_without_a_call_leaves_the_share_to_others_until_the_next_call(account: Open, clock: Clock) -> None:
    idle, busy = (account(name, max_total_cost=Decimal(90)) for name in "ab")
    clock.now += ACTIVE_SECONDS
    assert holds_exactly(busy, 45)
    clock.now += 1
    assert holds_exactly(busy, 90)
    spend(busy, 60)
    assert holds_exactly(idle, 30)
    assert not fits(busy, 1)


def test_a_call_that_takes_more_than_an_hour_keeps_what_it_reserved(account: Open, clock: Clock) -> None:
    slow, other = (account(name, max_total_cost=Decimal(90)) for name in "ab")
    reservation = hold(slow, 45)
    clock.now += ACTIVE_SECONDS + 1
    assert holds_exactly(other, 45)
    slow.settle(reservation, calls=1, tokens=0, cost=Decimal(5))
    assert holds_exactly(other, 45)  # it is active again
    slow.close()
    assert holds_exactly(other, 85)


def test_calls_that_are_open_when_a_run_ends_count_as_reserved(account: Open) -> None:
    """Its process, a worker with more runs, stays alive."""
    ended, other = (account(name, max_total_cost=Decimal(90)) for name in "ab")
    spend(ended, 5)
    hold(ended, 10)
    settled = hold(ended, 15)
    ended.settle(settled, calls=0, tokens=0, cost=Decimal(0))
    ended.close()
    over = other.reserve(tokens=0, cost=Decimal(76))
    assert isinstance(over, Exhausted)
    assert over.left.cost == 75
    assert holds_exactly(other, 75)


KILLED = """
import os, signal, sys
from decimal import Decimal
from pathlib import Path
from pytest_mlebench.llm.budget import Account, BudgetLimits
account = Account(Path(sys.argv[1]), "killed", BudgetLimits(max_total_cost=Decimal(90)))
assert isinstance(account.reserve(tokens=0, cost=Decimal(30)), int)
account.pace("openai", 1)
account.pace("openai", 1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_worker_holds_no_share_and_its_open_calls_count_once(
    tmp_path: Path, account: Open, clock: Clock
) -> None:
    clock.now = time.time()
    first = account("a", max_total_cost=Decimal(90))
    assert subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)]).returncode == -9
    assert holds_exactly(first, 60)  # if it were active, both shares would be 45
    first.close()
    again = account("killed", max_total_cost=Decimal(90), max_calls=2)
    assert holds_exactly(again, 60)
    spend(again, 1)
    assert isinstance(again.reserve(tokens=0, cost=None), Exhausted)


@pytest.mark.parametrize(
    "owner",
    [
        json.dumps({**owner_labels(), f"{LABEL}pid": "4999999", **elsewhere})
        for elsewhere in ({f"{LABEL}host": "elsewhere"}, {f"{LABEL}pid-namespace": "pid:[1]"})
    ]
    + ["elsewhere:4999999:1"],
    ids=["machine", "namespace", "earlier version"],
)
def test_a_lost_worker_on_another_machine_holds_its_share_until_its_lease_expires(
    owner: str, account: Open, clock: Clock
) -> None:
    lost = account("lost", max_total_cost=Decimal(90))
    lost._owner = owner
    hold(lost, 20)
    first = account("a", max_total_cost=Decimal(90))
    assert holds_exactly(first, 45)
    clock.now += ACTIVE_SECONDS + 1
    assert holds_exactly(first, 70)
    clock.now += LEASE_SECONDS - ACTIVE_SECONDS - 1
    assert first.reserve(tokens=0, cost=Decimal(80)) == Wait(Left(None, None, Decimal(70)))
    clock.now += 1
    assert isinstance(first.reserve(tokens=0, cost=Decimal(80)), Exhausted)
    assert holds_exactly(first, 70)


@pytest.mark.parametrize("jump", [-10 * LEASE_SECONDS, -60.0, 60.0, 10 * LEASE_SECONDS])
def test_a_clock_jump_gives_no_run_more_than_the_total(account: Open, clock: Clock, jump: float) -> None:
    first, second = (account(name, max_total_cost=Decimal(90)) for name in "ab")
    spend(first, 10)
    open_call = hold(first, 20)
    clock.now += jump
    left = next(cost for cost in range(90, 0, -1) if fits(second, cost))
    assert left <= 60
    first.settle(open_call, calls=1, tokens=0, cost=Decimal(20))
    assert not fits(second, 61)
    assert fits(second, 45)


def test_settling_a_call_repeatedly_does_not_change_the_total(account: Open) -> None:
    first = account(max_total_cost=Decimal(90))
    reservation = hold(first, 30)
    for _ in range(3):
        first.settle(reservation, calls=0, tokens=0, cost=Decimal(0))
    spend(first, 10)
    for unknown in (reservation, 12345, -1):
        first.settle(unknown, calls=1, tokens=0, cost=Decimal(-50))
    assert holds_exactly(first, 80)


@pytest.mark.parametrize("cost", ["-1", "NaN", "sNaN", "Infinity", "-Infinity", "-1e-30"])
def test_an_invalid_cost_is_neither_reserved_nor_refunded(account: Open, cost: str) -> None:
    first = account(max_total_cost=Decimal(90))
    with pytest.raises(ValueError, match="cannot cost"):
        first.reserve(tokens=0, cost=Decimal(cost))
    assert holds_exactly(first, 90)
    first.settle(hold(first, 30), calls=1, tokens=0, cost=Decimal(cost))
    assert holds_exactly(first, 60)


def test_negative_tokens_are_neither_reserved_nor_refunded(account: Open) -> None:
    first = account(max_tokens=100)
    with pytest.raises(ValueError, match="cannot use -1 tokens"):
        first.reserve(tokens=-1, cost=None)
    reservation = first.reserve(tokens=60, cost=None)
    assert isinstance(reservation, int)
    first.settle(reservation, calls=1, tokens=-1000, cost=None)
    over = first.reserve(tokens=41, cost=None)
    assert over == Exhausted("--max-tokens", "100", Left(None, 40, None))
    assert isinstance(first.reserve(tokens=40, cost=None), int)


@pytest.mark.parametrize("huge", [1 << 62, 1 << 63, 10**40])
def test_amounts_that_overflow_only_exhaust_the_budget(account: Open, huge: int) -> None:
    first = account(max_calls=10)
    for _ in range(3):
        reservation = first.reserve(tokens=huge, cost=Decimal(huge))
        assert isinstance(reservation, int)
        first.settle(reservation, calls=1, tokens=huge, cost=Decimal(huge))
    second = account("b", max_calls=10, max_tokens=10, max_total_cost=Decimal(90))
    assert isinstance(second.reserve(tokens=0, cost=NANO), Exhausted)
    over = account("a", max_tokens=10**6).reserve(tokens=1, cost=None)
    assert isinstance(over, Exhausted)
    assert (over.option, over.limit) == ("--max-tokens", "1,000,000")


def test_the_smallest_costs_are_rounded_up_and_count(account: Open) -> None:
    first = account(max_total_cost=10 * NANO)
    for _ in range(10):
        first.settle(hold(first, "1e-30"), calls=1, tokens=0, cost=Decimal("1e-30"))
    assert not fits(first, "1e-30")


@pytest.mark.parametrize("option", ["max_cost", "max_total_cost"])
@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("Infinity"), Decimal(-1), 0.5, "1", -1])
def test_an_invalid_limit_is_rejected(option: str, value: Decimal) -> None:
    with pytest.raises(UsageError, match=rf"{option} must be a number of at least 0 \(int or Decimal\), not"):
        BudgetLimits(**{option: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["max_tokens", "max_calls"])
@pytest.mark.parametrize("value", [Decimal(1), 1.5, -1])
def test_a_limit_on_counts_is_a_whole_number(option: str, value: int) -> None:
    with pytest.raises(UsageError, match=rf"{option} must be a number of at least 0 \(int\), not"):
        BudgetLimits(**{option: value})  # type: ignore[arg-type]


def test_limits_report_whether_any_is_set_and_whether_they_need_prices() -> None:
    assert not BudgetLimits()
    assert not BudgetLimits().need_prices
    for limits in (BudgetLimits(max_calls=0), BudgetLimits(max_tokens=0)):
        assert limits
        assert not limits.need_prices
    for limits in (BudgetLimits(max_cost=Decimal(0)), BudgetLimits(max_total_cost=Decimal(0))):
        assert limits
        assert limits.need_prices


@given(left=st.integers(0, 1000), used=st.lists(st.integers(0, 400), max_size=6))
def test_a_share_is_the_largest_that_leaves_the_others_theirs(left: int, used: list[int]) -> None:
    total = sum(used) + left
    share = share_of(total, used)
    assert 0 <= sum(max(one, share) for one in used) + share <= total
    assert sum(max(one, share + 1) for one in used) + share + 1 > total  # a larger share would not fit


def test_an_exceeded_total_leaves_no_share() -> None:
    assert share_of(-1, []) == -1
    assert share_of(10, [20, 1]) == -11


def test_a_share_is_rounded_down() -> None:
    assert (share_of(11, [5]), share_of(11, [6]), share_of(11, [])) == (5, 5, 11)


class _Model:
    """A model of the account: reserved and spent amounts, computed independently."""

    def __init__(self, folder: Path, names: str, total: int) -> None:
        self.total = total
        self.limits = BudgetLimits(max_total_cost=Decimal(total), max_calls=40, max_tokens=600, max_cost=Decimal(60))
        self.clock = Clock()
        self.folder = folder
        self.open_runs = {name: self.open(name) for name in names}
        self.held: dict[str, dict[int, int]] = {name: {} for name in names}
        self.spent = dict.fromkeys(names, 0)
        self.calls = dict.fromkeys(names, 0)

    def open(self, name: str) -> Account:
        return Account(self.folder, name, self.limits, clock=self.clock)

    def used(self, name: str) -> int:
        return self.spent[name] + sum(self.held[name].values())

    def reserve(self, name: str, amount: int) -> None:
        got = self.open_runs[name].reserve(tokens=amount * 10, cost=Decimal(amount))
        others = [other for other in self.open_runs if other != name]
        finished = sum(map(self.used, self.spent)) - sum(map(self.used, self.open_runs))
        share = share_of(self.total - finished, map(self.used, others))
        allowed = self.used(name) + amount <= min(share, 60) and self.calls[name] + len(self.held[name]) < 40
        assert isinstance(got, int) == allowed, got
        if isinstance(got, int):
            self.held[name][got] = amount
        elif isinstance(got, Wait):
            assert any(any(held.values()) for held in self.held.values())
        else:
            later = share_of(self.total - finished, (self.spent[other] for other in others))
            assert self.spent[name] + amount > min(later, 60) or self.calls[name] >= 40

    def settle(self, name: str, share: int | None) -> None:
        if self.held[name]:
            reservation, amount = self.held[name].popitem()
            used = 0 if share is None else amount * share // 100
            self.open_runs[name].settle(
                reservation, calls=share is not None, tokens=used * 10, cost=Decimal(used) if share != 100 else None
            )
            self.spent[name] += used
            self.calls[name] += share is not None

    def close(self, name: str) -> None:
        self.open_runs.pop(name).close()
        self.spent[name] += sum(self.held[name].values())
        self.calls[name] += len(self.held[name])
        self.held[name].clear()


@given(
    total=st.integers(1, 100),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["reserve", "reserve", "settle", "cancel", "close"]),
            st.sampled_from("abcd"),
            st.integers(0, 40),
            st.sampled_from([0, 50, 100]),
        ),
        max_size=30,
    ),
)
def test_for_any_order_of_calls_the_total_and_the_shares_hold(
    total: int, steps: list[tuple[str, str, int, int]]
) -> None:
    with TemporaryDirectory() as folder:
        model = _Model(Path(folder), "abcd", total)
        for step, name, amount, share in steps:
            if name not in model.open_runs:
                model.open_runs[name] = model.open(name)
            elif step == "reserve":
                model.reserve(name, amount)
            elif step == "close":
                model.close(name)
            else:
                model.settle(name, share if step == "settle" else None)
            assert sum(map(model.used, model.spent)) <= total
        for name in list(model.open_runs):
            while model.held[name]:
                model.settle(name, None)
        for name in list(model.open_runs)[1:]:
            model.close(name)
        for name in model.open_runs:
            left = min(total - sum(model.spent.values()), 60 - model.spent[name])
            assert fits(model.open_runs[name], left) == (model.calls[name] < 40)
            assert not fits(model.open_runs[name], left + 1)
            model.open_runs[name].close()


# Calls per minute


def test_turns_rotate_regardless_of_a_runs_number_of_calls(account: Open) -> None:
    attacker, victim = account("a"), account("b")
    assert attacker.pace("openai", 60) == 0
    assert attacker.pace("openai", 60) == 1
    assert victim.pace("openai", 60) == 2
    assert account("c").pace("openai", 60) == 3


def test_600_turns_taken_and_returned_delay_no_run(account: Open) -> None:
    """The attack: cancelled calls kept their turns, so that turns of other runs were ten minutes away."""
    attacker, victim = account("a"), account("b")
    attacker.pace("openai", 60)
    for _ in range(600):
        assert attacker.pace("openai", 60) == 1
        attacker.give_back("openai")
    assert victim.pace("openai", 60) == 1


def test_a_turn_that_is_due_cannot_be_returned(account: Open, clock: Clock) -> None:
    first = account()
    assert first.pace("openai", 60) == 0
    first.give_back("openai")
    assert first.pace("openai", 60) == 1
    clock.now += 1
    first.give_back("openai")
    assert first.pace("openai", 60) == 1
    first.give_back("openai")
    first.give_back("openai")
    assert first.pace("openai", 60) == 1


def test_a_turn_of_another_provider_is_not_returned(account: Open) -> None:
    first, second = account("a"), account("b")
    first.pace("openai", 60)
    assert first.pace("openai", 60) == 1
    assert first.pace("anthropic", 60) == 0
    first.give_back("anthropic")
    first.give_back("gemini")
    assert second.pace("openai", 60) == 2


def test_a_returned_gap_is_filled_at_the_usual_pace(account: Open) -> None:
    first, second, third = (account(name) for name in "abc")
    assert [run.pace("openai", 60) for run in (first, second, third)] == [0, 1, 2]
    second.give_back("openai")
    assert first.pace("openai", 60) == 1
    assert second.pace("openai", 60) == 3


def test_a_gap_too_short_for_a_call_stays_empty(account: Open, clock: Clock) -> None:
    first, second, third = (account(name) for name in "abc")
    assert first.pace("openai", 60) == 0
    clock.now += 0.5
    assert second.pace("openai", 60) == 0.5
    assert third.pace("openai", 60) == 1.5
    second.give_back("openai")
    clock.now += 0.75
    assert second.pace("openai", 60) == 1.75


def test_a_run_that_ends_returns_its_turn(account: Open) -> None:
    first, second = account("a"), account("b")
    second.pace("openai", 60)
    assert first.pace("openai", 60) == 1
    first.close()
    assert second.pace("openai", 60) == 1


def test_a_gap_between_two_turns_can_be_used(account: Open, clock: Clock) -> None:
    runs = [account(name) for name in "abcd"]
    assert [run.pace("openai", 60) for run in runs] == [0, 1, 2, 3]
    runs[1].give_back("openai")
    assert runs[0].pace("openai", 60) == 1


def test_a_turn_is_only_as_late_as_the_gaps_before_it_require(account: Open, clock: Clock) -> None:
    """Turns offset by half a gap leave a space between them that is too short."""
    first, second, third = (account(name) for name in "abc")
    first.pace("openai", 60)
    assert second.pace("openai", 60) == 1
    clock.now -= 0.75
    assert third.pace("openai", 60) == 2.75
    clock.now -= 3.26
    assert third.pace("openai", 60) == 0


def test_turns_too_far_in_the_future_are_discarded(account: Open, clock: Clock) -> None:
    first, second = account("a"), account("b")
    first.pace("openai", 60)
    clock.now -= 2.5
    assert second.pace("openai", 60) == 0
    clock.now += 2
    assert second.pace("openai", 60) == 0


def test_turns_are_distinguished_by_microseconds(account: Open, clock: Clock) -> None:
    first = account()
    assert first.pace("openai", 60_000_000 / 3) == 0
    assert first.pace("openai", 60_000_000 / 3) == 0.000003


def test_turns_of_a_killed_worker_expire(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)])
    first = Account(tmp_path, "a", BudgetLimits())
    assert first.pace("openai", 1) <= 120
    first.close()


def test_a_clock_that_was_set_back_does_not_stop_the_runs(account: Open, clock: Clock) -> None:
    first, second = account("a"), account("b")
    first.pace("openai", 60)
    clock.now -= 3600
    assert second.pace("openai", 60) == 0
    assert first.pace("openai", 60) == 1
    clock.now += 7200
    assert second.pace("openai", 60) == 0


def test_turns_with_fractional_intervals_are_never_early(account: Open, clock: Clock) -> None:
    first = account()
    turns = [first.pace("openai", 7) for _ in range(8)]
    assert turns[0] == 0
    assert turns[7] >= 60
    assert turns[7] < 60.001


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.floats(0, 3)), max_size=20),
    st.sampled_from([1.0, 7.0, 60.0, 1000.0]),
)
def test_in_any_order_turns_keep_their_distance_and_waits_are_bounded(
    steps: list[tuple[str, bool, float]], per_minute: float
) -> None:
    gap = 60 / per_minute
    with TemporaryDirectory() as folder, ExitStack() as stack:
        clock, taken, pending = Clock(), list[float](), dict[str, float]()
        runs = {name: Account(Path(folder), name, BudgetLimits(), clock=clock) for name in "abc"}
        for run in runs.values():
            stack.callback(run.close)
        for name, gives_back, seconds in steps:
            clock.now += seconds * gap
            if name in pending and pending[name] > clock.now and gives_back:
                runs[name].give_back("openai")
                taken.remove(pending.pop(name))
                continue
            if pending.get(name, 0) > clock.now:
                clock.now = pending[name]  # it waits for its turn and uses it
            pause = runs[name].pace("openai", per_minute)
            assert 0 <= pause <= 2 * gap * len(runs) + 0.001
            pending[name] = clock.now + pause
            assert all(abs(pending[name] - other) >= gap - 0.00001 for other in taken)
            taken.append(pending[name])


# Processes


_LOOKING = """
import sys
from decimal import Decimal
from pathlib import Path
from pytest_mlebench.llm.budget import Account, BudgetLimits
account = Account(Path(sys.argv[1]), "other", BudgetLimits(max_total_cost=Decimal(90)))
assert isinstance(account.reserve(tokens=0, cost=Decimal(1)), int)
account.close()
"""


def test_a_process_in_another_namespace_does_not_take_this_one_for_dead(
    tmp_path: Path, account: Open, clock: Clock
) -> None:
    inside = ["unshare", "--map-root-user", "--pid", "--fork", "--mount-proc", sys.executable, "-c"]
    if subprocess.run([*inside, ""], capture_output=True).returncode != 0:
        pytest.skip("this user may not create a process namespace")
    clock.now = time.time()
    first = account("a", max_total_cost=Decimal(90))
    open_call = hold(first, 30)
    subprocess.run([*inside, _LOOKING, str(tmp_path)], check=True)
    first.settle(open_call, calls=1, tokens=0, cost=Decimal(1))
    assert holds_exactly(first, 88)
