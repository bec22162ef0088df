"""Budgets: the maximum cost of a call is reserved before it is sent, and settled after it has ended.

The account is an SQLite file in the run group's folder, so it covers all workers, and sessions that resume the group.
If a process dies during a call, the full reservation counts as spent, because the provider may have charged the call.
No run can starve another: a run may use its share of ``--max-total-cost`` (see ``share_of``), and holds one turn of
``--llm-rpm`` at a time, so runs that wait take turns.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import NamedTuple

from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.processes import is_dead, owner_labels
from pytest_mlebench.io.values import as_object, loads

ACCOUNT = "llm-account.sqlite"
ACTIVE_SECONDS = 3600.0
"""A run that is idle for this long leaves its share to the others until its next call."""
LEASE_SECONDS = 6 * 3600.0
"""Longer than any call. Older reservations count as spent: their process may have died on another machine."""
_NANO = Decimal(10) ** 9
_MICRO = 10**6
_WAIT_SECONDS = 60.0
_MAX_AMOUNT = 1 << 62
"""Upper bound of stored amounts; SQLite's integers are hardly larger."""
_NOTHING = (0, 0, 0)
_TABLES = """
CREATE TABLE IF NOT EXISTS spent (run TEXT PRIMARY KEY, calls INTEGER, tokens INTEGER, cost INTEGER);
CREATE TABLE IF NOT EXISTS held (
    id INTEGER PRIMARY KEY, run TEXT, owner TEXT, since REAL, calls INTEGER, tokens INTEGER, cost INTEGER
);
CREATE TABLE IF NOT EXISTS active (run TEXT PRIMARY KEY, owner TEXT, seen REAL);
CREATE TABLE IF NOT EXISTS turns (id INTEGER PRIMARY KEY, name TEXT, at INTEGER);
"""


@dataclass(frozen=True, kw_only=True)
class BudgetLimits:
    """Limits for one run, and for all runs of a group together. None is unlimited. Costs are in US dollars.

    A field is named after its option. A new limit on calls, tokens or costs also needs an entry in ``Account.reserve``
    and ``Account._budgets``. A limit on another quantity also needs a column in the account.

    Raises UsageError for an amount that is negative, not finite, or a float: budgets are exact.
    """

    max_cost: Decimal | None = None
    max_tokens: int | None = None
    max_calls: int | None = None
    max_total_cost: Decimal | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            kinds = (int, Decimal) if "cost" in name else (int,)
            if value is not None and not (isinstance(value, kinds) and Decimal(value).is_finite() and value >= 0):
                expected = " or ".join(kind.__name__ for kind in kinds)
                raise UsageError(f"{name} must be a number of at least 0 ({expected}), not {value!r}")

    @property
    def need_prices(self) -> bool:
        return self.max_cost is not None or self.max_total_cost is not None

    def __bool__(self) -> bool:
        return any(value is not None for value in vars(self).values())


@dataclass(frozen=True)
class Left:
    """What is left of each budget; None if there is no such budget. ``cost`` is the smaller of the two cost budgets."""

    calls: int | None
    tokens: int | None
    cost: Decimal | None


@dataclass(frozen=True)
class Wait:
    """The call may fit after open calls end. ``left`` is what fits now; None if this run's own calls hold the rest."""

    left: Left | None = None


@dataclass(frozen=True)
class Exhausted:
    """The call does not fit, whatever open calls turn out to cost. This exhausts the run's budget permanently.

    ``share`` is the number of runs that share the budget.
    """

    option: str
    limit: str
    left: Left
    share: int = 1


class _Budget(NamedTuple):
    """One budget from a run's point of view: ``spent`` and ``held`` count against ``limit``.

    For a shared budget, the limits are this run's share: ``limit_now`` if the others' open calls cost all that they
    reserved, and ``limit`` if they turn out to cost nothing.
    """

    option: str
    limit: int
    limit_now: int
    spent: int
    held: int
    share: int = 1

    @property
    def now(self) -> int:
        return self.limit_now - self.spent - self.held

    @property
    def at_most(self) -> int:
        return self.limit - self.spent


class Account:
    """What has been spent and reserved. Use it from one thread only. ``clock`` returns seconds since the epoch.

    Raises OSError if the account's file cannot be used.
    """

    def __init__(self, folder: Path, run: str, limits: BudgetLimits, *, clock: Callable[[], float] = time.time) -> None:
        self._run = run
        self._limits = limits
        self._clock = clock
        self._owner = json.dumps(owner_labels())
        self._open: set[int] = set()
        self._ended: dict[int, tuple[int, int | None, Decimal | None]] = {}
        """What calls used that are not settled yet: calls, tokens and cost by reservation."""
        self._turns: dict[str, int] = {}
        self._path = folder / ACCOUNT
        with self._errors(), ExitStack() as stack:
            connected = sqlite3.connect(self._path, timeout=_WAIT_SECONDS, isolation_level=None)
            self._database = stack.enter_context(closing(connected))
            # A killed process loses nothing; only a crash of the machine can lose data.
            self._database.execute("PRAGMA synchronous = OFF")
            self._database.executescript(_TABLES)
            with self._transaction():
                self._mark_active()
            stack.pop_all()

    def close(self) -> None:
        """Leave the run's share to others. Reservations of calls that are still open count as spent."""
        with closing(self._database):
            self._settle_ended()
            with self._transaction():
                for number in self._open:
                    self._count_as_spent("id = ?", number)
                self._database.execute("DELETE FROM active WHERE run = ? AND owner = ?", (self._run, self._owner))
            for name in list(self._turns):
                self.give_back(name)

    def reserve(self, *, tokens: int, cost: Decimal | None) -> int | Wait | Exhausted:
        """Reserve a call. Returns an id for ``settle``, or why it does not fit. Raises ValueError for a bad amount."""
        nano = _nano(cost or Decimal(0))
        if tokens < 0:
            raise ValueError(f"a call cannot use {tokens} tokens")
        self._settle_ended()
        wanted = {"--max-calls": 1, "--max-tokens": tokens, "--max-cost": nano, "--max-total-cost": nano}
        with self._transaction():
            self._mark_active()
            budgets = self._budgets()
            for budget in budgets:
                if wanted[budget.option] <= budget.now:
                    continue
                if wanted[budget.option] > budget.at_most:
                    left = _remaining(budgets, lambda budget: budget.at_most)
                    return Exhausted(budget.option, self._format_limit(budget.option), left, budget.share)
                fits_alone = wanted[budget.option] <= budget.limit_now - budget.spent
                return Wait(None if fits_alone else _remaining(budgets, lambda budget: budget.now))
            cursor = self._database.execute(
                "INSERT INTO held (run, owner, since, calls, tokens, cost) VALUES (?, ?, ?, 1, ?, ?)",
                (self._run, self._owner, self._clock(), min(tokens, _MAX_AMOUNT), min(nano, _MAX_AMOUNT)),
            )
            number = cursor.lastrowid
            assert number is not None
        self._open.add(number)
        return number

    def settle(self, reservation: int, *, calls: int, tokens: int | None, cost: Decimal | None) -> None:
        """Record what a call used. Unknown or invalid amounts count as they were reserved.

        If this raises OSError, such as on a full disk, the reservation counts until the account can be written again.
        """
        self._ended[reservation] = calls, tokens, cost
        self._settle_ended()

    def _settle_ended(self) -> None:
        if not self._ended:
            return
        with self._transaction():
            self._mark_active()
            for reservation, (calls, tokens, cost) in self._ended.items():
                row = self._database.execute("SELECT tokens, cost FROM held WHERE id = ?", (reservation,)).fetchone()
                if row is None:
                    continue
                self._database.execute("DELETE FROM held WHERE id = ?", (reservation,))
                used = row[0] if tokens is None or tokens < 0 else min(tokens, _MAX_AMOUNT)
                paid = row[1] if cost is None or not (cost.is_finite() and cost >= 0) else min(_nano(cost), _MAX_AMOUNT)
                self._spend(self._run, calls, used, paid)
        self._open -= self._ended.keys()
        self._ended.clear()

    def pace(self, name: str, per_minute: float) -> float:
        """Take the run's next turn: the first free one that keeps all workers together within this rate.

        Returns the seconds until then. A run must not take another turn before that time, or before giving it back.
        """
        gap = -int(-60 * _MICRO // per_minute)
        with self._transaction():
            turn = now = int(self._clock() * _MICRO)
            self._database.execute("DELETE FROM turns WHERE name = ? AND at <= ?", (name, now - gap))
            query = "SELECT at FROM turns WHERE name = ? ORDER BY at"
            taken = [at for (at,) in self._database.execute(query, (name,))]
            # Each turn of others can block up to two gaps. Later turns date from before the clock was set back.
            last = now + 2 * gap * len(taken)
            for at in (at for at in taken if at <= last):
                if at - turn >= gap:
                    break
                turn = at + gap
            cursor = self._database.execute("INSERT INTO turns (name, at) VALUES (?, ?)", (name, turn))
            self._database.execute("DELETE FROM turns WHERE name = ? AND at > ?", (name, last))
        assert cursor.lastrowid is not None
        self._turns[name] = cursor.lastrowid
        return (turn - now) / _MICRO

    def give_back(self, name: str) -> None:
        """Give back the run's turn, unless its time has passed and it may have been used."""
        number, now = self._turns.pop(name, None), int(self._clock() * _MICRO)
        with self._transaction():
            self._database.execute("DELETE FROM turns WHERE id = ? AND at > ?", (number, now))

    def _mark_active(self) -> None:
        self._database.execute("REPLACE INTO active VALUES (?, ?, ?)", (self._run, self._owner, self._clock()))

    def _spend(self, run: str, calls: int, tokens: int, cost: int) -> None:
        self._database.execute(
            "INSERT INTO spent VALUES (?, ?, ?, ?) ON CONFLICT (run) DO UPDATE SET "
            "calls = calls + excluded.calls, tokens = min(tokens + excluded.tokens, ?), "
            "cost = min(cost + excluded.cost, ?)",
            (run, calls, tokens, cost, _MAX_AMOUNT, _MAX_AMOUNT),
        )

    def _count_as_spent(self, condition: str, *values: object) -> None:
        query = f"SELECT run, calls, tokens, cost FROM held WHERE {condition}"
        for row in self._database.execute(query, values).fetchall():
            self._spend(*row)
        self._database.execute(f"DELETE FROM held WHERE {condition}", values)

    def _remove_dead(self) -> None:
        """Remove dead processes. Their reservations, and those of lost machines, count as spent."""
        owners = self._database.execute("SELECT owner FROM held UNION SELECT owner FROM active").fetchall()
        for (holder,) in owners:
            if _is_dead(holder):
                self._count_as_spent("owner = ?", holder)
                self._database.execute("DELETE FROM active WHERE owner = ?", (holder,))
        self._count_as_spent("abs(since - ?) > ?", self._clock(), LEASE_SECONDS)

    def _budgets(self) -> list[_Budget]:
        self._remove_dead()
        limits, spent, held = self._limits, self._amounts("spent"), self._amounts("held")
        run_spent, run_held = spent.get(self._run, _NOTHING), held.get(self._run, _NOTHING)
        cost = None if limits.max_cost is None else _nano(limits.max_cost)
        per_run = (("--max-calls", limits.max_calls), ("--max-tokens", limits.max_tokens), ("--max-cost", cost))
        budgets = [
            _Budget(option, limit, limit, used, reserved)
            for (option, limit), used, reserved in zip(per_run, run_spent, run_held, strict=True)
            if limit is not None
        ]
        if limits.max_total_cost is None:
            return budgets
        query = "SELECT run FROM active WHERE run <> ? AND abs(seen - ?) <= ?"
        others = [run for (run,) in self._database.execute(query, (self._run, self._clock(), ACTIVE_SECONDS))]
        total, cost_spent = _nano(limits.max_total_cost), {run: cost for run, (*_, cost) in spent.items()}
        cost_used = Counter(cost_spent) + Counter({run: cost for run, (*_, cost) in held.items()})
        share, share_now = (
            share_of(
                total - sum(cost for run, cost in costs.items() if run not in (self._run, *others)),
                (costs.get(run, 0) for run in others),
            )
            for costs in (cost_spent, cost_used)
        )
        budgets.append(_Budget("--max-total-cost", share, share_now, run_spent[2], run_held[2], 1 + len(others)))
        return budgets

    def _format_limit(self, option: str) -> str:
        value = vars(self._limits)[option.removeprefix("--").replace("-", "_")]
        return f"${float(value):g}" if "cost" in option else f"{value:,}"

    def _amounts(self, table: str) -> dict[str, tuple[int, int, int]]:
        """Return the calls, tokens and cost of each run."""
        amounts: dict[str, tuple[int, int, int]] = {}
        for run, *more in self._database.execute(f"SELECT run, calls, tokens, cost FROM {table}"):
            calls, tokens, cost = amounts.get(run, _NOTHING)
            amounts[run] = calls + more[0], tokens + more[1], cost + more[2]
        return amounts

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Context manager: take the write lock at once, because SQLite can fail to upgrade a read transaction."""
        with self._errors(), self._database:  # commits, or rolls back
            self._database.execute("BEGIN IMMEDIATE")
            yield

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Context manager that turns an error of SQLite into an OSError with the file's name."""
        try:
            yield
        except sqlite3.Error as error:
            raise OSError(f"the account of spending {self._path} cannot be used: {error}") from error


def share_of(total: int, others: Iterable[int]) -> int:
    """Return one run's equal share of ``total``, given what each of the ``others`` used.

    A run that used more than an equal share keeps that, and the rest is divided among the remaining runs.

    >>> share_of(90, [0, 0]), share_of(90, [50, 0]), share_of(90, [])
    (30, 20, 90)
    """
    used = sorted(others, reverse=True)
    while used and used[0] > total // (len(used) + 1):
        total -= used.pop(0)
    return total // (len(used) + 1)


def _is_dead(owner: str) -> bool:
    """Return whether the process with these labels has ended; False if it ran an earlier version."""
    try:
        return is_dead(as_object(loads(owner)))
    except ValueError:
        return False


def _remaining(budgets: Iterable[_Budget], amount: Callable[[_Budget], int]) -> Left:
    found = {budget.option: amount(budget) for budget in budgets}
    costs = [found[option] for option in ("--max-cost", "--max-total-cost") if option in found]
    cost = Decimal(min(costs)) / _NANO if costs else None
    return Left(found.get("--max-calls"), found.get("--max-tokens"), cost)


def _nano(cost: Decimal) -> int:
    """Convert US dollars to billionths of a dollar, rounded up."""
    if not (cost.is_finite() and cost >= 0):
        raise ValueError(f"a call cannot cost {cost}")
    return int((cost * _NANO).to_integral_value(ROUND_CEILING))
