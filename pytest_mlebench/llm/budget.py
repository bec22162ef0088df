"""Budgets that hold: what a call can cost at most is reserved before it is sent, and settled when it has ended.

The account is a SQLite file in the run group's folder, so it counts over all workers, and sessions that resume the
group. Where a process died with calls open, these count with all that was reserved for them: they may have been paid.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

ACCOUNT = "llm-account.sqlite"
_NANO = Decimal(10) ** 9
_WAIT_SECONDS = 60.0
_MOST = 1 << 62
_TABLES = """
CREATE TABLE IF NOT EXISTS spent (run TEXT PRIMARY KEY, calls INTEGER, tokens INTEGER, cost INTEGER);
CREATE TABLE IF NOT EXISTS open (
    id INTEGER PRIMARY KEY, run TEXT, owner TEXT, calls INTEGER, tokens INTEGER, cost INTEGER
);
CREATE TABLE IF NOT EXISTS pace (name TEXT PRIMARY KEY, next REAL);
"""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a run may use, and all runs of a group together; None is unlimited. Costs in US dollars."""

    max_cost: Decimal | None = None
    max_tokens: int | None = None
    max_calls: int | None = None
    max_total_cost: Decimal | None = None

    @property
    def need_prices(self) -> bool:
        return self.max_cost is not None or self.max_total_cost is not None

    def __bool__(self) -> bool:
        return any(value is not None for value in vars(self).values())


@dataclass(frozen=True)
class Left:
    """What is left of each budget; None where there is no such budget. ``cost`` is the less of the two."""

    calls: int | None
    tokens: int | None
    cost: Decimal | None


@dataclass(frozen=True)
class Wait:
    """It may fit when calls that are open have ended."""


@dataclass(frozen=True)
class Over:
    """It does not fit, whatever open calls turn out to cost."""

    option: str
    limit: str
    left: Left


class Account:
    """What has been spent and reserved. To be used by one thread."""

    def __init__(self, folder: Path, run: str, limits: Limits) -> None:
        self._run = run
        self._limits = limits
        self._owner = owner()
        self._database = sqlite3.connect(folder / ACCOUNT, timeout=_WAIT_SECONDS, isolation_level=None)
        # Every process may be killed at any time; only the machine may not go down without a loss.
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.executescript(_TABLES)

    def close(self) -> None:
        self._database.close()

    def reserve(self, *, tokens: int, cost: Decimal | None) -> int | Wait | Over:
        """Reserve a call; returns a number to settle it by, or why not (yet)."""
        nano = _nano(cost or Decimal(0))
        with self._transaction():
            settled, opened = self._sums()
            for option, limit, spent, reserved, wanted in (
                ("--max-calls", self._limits.max_calls, settled[0], opened[0], 1),
                ("--max-tokens", self._limits.max_tokens, settled[1], opened[1], tokens),
                ("--max-cost", _nano(self._limits.max_cost), settled[2], opened[2], nano),
                ("--max-total-cost", _nano(self._limits.max_total_cost), settled[3], opened[3], nano),
            ):
                if limit is None or spent + reserved + (wanted or 0) <= limit:
                    continue
                if spent + (wanted or 0) <= limit:
                    return Wait()
                shown = f"${limit / 10**9:g}" if "cost" in option else f"{limit:,}"
                return Over(option, shown, self._left(settled))
            cursor = self._database.execute(
                "INSERT INTO open (run, owner, calls, tokens, cost) VALUES (?, ?, 1, ?, ?)",
                (self._run, self._owner, min(tokens, _MOST), min(nano or 0, _MOST)),
            )
            return int(cursor.lastrowid or 0)

    def settle(self, reservation: int, *, calls: int, tokens: int | None, cost: Decimal | None) -> None:
        """Note what a call really used; what is not known counts as it was reserved."""
        with self._transaction():
            row = self._database.execute("SELECT tokens, cost FROM open WHERE id = ?", (reservation,)).fetchone()
            if row is None:
                return
            self._database.execute("DELETE FROM open WHERE id = ?", (reservation,))
            used = row[0] if tokens is None else min(tokens, _MOST)
            paid = row[1] if cost is None else _nano(cost)
            self._spend(self._run, calls, used, paid or 0)

    def pace(self, name: str, per_minute: float) -> float:
        """Seconds to wait before the next call, so that all workers together keep to this many in a minute."""
        with self._transaction():
            now = time.time()
            row = self._database.execute("SELECT next FROM pace WHERE name = ?", (name,)).fetchone()
            # A clock that was set back must not stop everything.
            turn = max(now, row[0]) if row and row[0] < now + 3600 else now
            self._database.execute("REPLACE INTO pace VALUES (?, ?)", (name, turn + 60 / per_minute))
            return float(turn - now)

    def _spend(self, run: str, calls: int, tokens: int, cost: int) -> None:
        self._database.execute(
            "INSERT INTO spent VALUES (?, ?, ?, ?) ON CONFLICT (run) DO UPDATE SET "
            "calls = calls + excluded.calls, tokens = min(tokens + excluded.tokens, ?), "
            "cost = min(cost + excluded.cost, ?)",
            (run, calls, tokens, cost, _MOST, _MOST),
        )

    def _sums(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What was spent, and what is reserved: calls, tokens and cost of the run, cost of all."""
        for id, run, holder, calls, tokens, cost in self._database.execute("SELECT * FROM open").fetchall():
            if holder != self._owner and not is_alive(holder):
                self._database.execute("DELETE FROM open WHERE id = ?", (id,))
                self._spend(run, calls, tokens, cost)
        return self._sum("spent"), self._sum("open")

    def _sum(self, table: str) -> tuple[int, ...]:
        # TOTAL, as a sum of integers may overflow: it is a float, exact up to 9 million dollars.
        own = self._database.execute(
            f"SELECT total(calls), total(tokens), total(cost) FROM {table} WHERE run = ?", (self._run,)
        ).fetchone()
        (all,) = self._database.execute(f"SELECT total(cost) FROM {table}").fetchone()
        return tuple(int(value) for value in (*own, all))

    def _left(self, spent: tuple[int, ...]) -> Left:
        limits = self._limits
        costs = [
            limit - Decimal(used) / _NANO
            for limit, used in ((limits.max_cost, spent[2]), (limits.max_total_cost, spent[3]))
            if limit is not None
        ]
        return Left(
            None if limits.max_calls is None else limits.max_calls - spent[0],
            None if limits.max_tokens is None else limits.max_tokens - spent[1],
            min(costs, default=None),
        )

    def _transaction(self) -> _Transaction:
        return _Transaction(self._database)


class _Transaction:
    """Takes the file's lock at once: a transaction that began by reading could not be promoted."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._database.execute("COMMIT" if kind is None else "ROLLBACK")


def owner() -> str:
    """This process, distinguished from any other of this and other machines, of now and later."""
    return f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid())}"


def is_alive(owner: str) -> bool:
    """Whether a process that ``owner`` named still runs; of another machine's it is not known and assumed."""
    host, pid, started = owner.rsplit(":", 2)
    return host != socket.gethostname() or (_started(int(pid)) == started and started != "")


def _started(pid: int) -> str:
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def _nano(cost: Decimal | None) -> int | None:
    """Billionths of a dollar, rounded up."""
    return None if cost is None else int(-(-(cost * _NANO) // 1))
