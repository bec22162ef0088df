"""An index of run groups in SQLite, stored next to them. It is built from their files and updated when these change,
and contains no other data. An index that is missing, damaged or of another version is rebuilt."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.viewer.folder import changed_at, is_utf8, read, read_record
from pytest_mlebench.io.files import NotReadable
from pytest_mlebench.io.values import as_count, loads, parse
from pytest_mlebench.records.group import RunGroup, SplitAndCategory, runs_in_progress, runs_to_resume
from pytest_mlebench.records.manifest import Manifest
from pytest_mlebench.records.outcome import FAILURES, Outcome
from pytest_mlebench.records.record import GRADING_REPORT, MANIFEST, RECORD, RUNNING, RunKey, RunRecord
from pytest_mlebench.results import read_group

FILE = ".mlebench-view.sqlite3"
_VERSION = 6
_MAX_MANIFEST = 64 << 20
_TEXT = 500


@dataclass(frozen=True, kw_only=True)
class ListedRun:
    """A run that has a record, as shown in lists. ``reason`` is why it has no valid submission."""

    group_name: str
    run_id: str
    agent: str
    competition_id: str
    seed: int
    split: str
    category: str
    outcome: str
    score: float | None
    percentile: float | None
    lower_is_better: int
    indicative: int
    seconds: float
    cost: float | None
    calls: int | None
    tokens_in: int | None
    tokens_out: int | None
    models: str
    started_at: str
    ended_at: str
    ending: str
    reason: str
    bench_version: str
    submissions: int
    error: int
    firm: str = ""
    """Whether its medal is ``firm``, ``not firm`` or ``unknown``; empty without a medal."""
    score_low: float | None = None
    score_high: float | None = None
    latest: int = 1
    """0 if a later run has the same agent, competition and seed."""
    has_folder: int = 1
    """0 if it is only in a grading report."""

    @property
    def result(self) -> Outcome:
        return Outcome[self.outcome]


MEDALS = tuple(outcome.value for outcome in Outcome if outcome.medal)
FAILED = tuple(outcome.value for outcome in FAILURES)
FACETS = {
    "group": "group_name",
    "competition": "competition_id",
    "agent": "agent",
    "split": "split",
    "category": "category",
    "outcome": "outcome",
    "firm": "firm",
    "version": "bench_version",
}
"""What runs can be filtered by, with the column of each."""
ORDERS = {
    "ended": "ended_at",
    "outcome": f"instr('{' '.join(Outcome)}', outcome)",
    "competition": "competition_id",
    "agent": "agent",
    "group": "group_name",
    "split": "split",
    "category": "category",
    "seed": "seed",
    "score": "score",
    "beats": "percentile",
    "time": "seconds",
    "cost": "cost",
    "calls": "calls",
    "tokens": "coalesce(tokens_in, 0) + coalesce(tokens_out, 0)",
    "submissions": "submissions",
    "started": "started_at",
}
"""What runs can be sorted by, with the SQL expression of each."""
_CAN_BE_NULL = ("score", "percentile", "cost", "calls")
_SEARCHED = ("group_name", "competition_id", "agent", "models", "reason", "ending", "run_id")


@dataclass(frozen=True, kw_only=True)
class Search:
    """Which runs to find: ``facets`` has values by ``FACETS``, and every one of ``words`` must occur in a run's texts.

    For ``outcome``, ``medal`` and ``failure`` stand for several values. ``order`` is one of ``ORDERS``, with ``-``
    before it for descending order.
    """

    facets: Mapping[str, Sequence[str]]
    words: Sequence[str] = ()
    order: str = "-ended"


@dataclass(frozen=True, kw_only=True)
class Group:
    """A run group in a list. ``counts`` are its latest runs by outcome. ``problem`` is why it is unreadable."""

    name: str
    created_at: str = ""
    used: float = 0.0
    agents: Sequence[str] = ()
    splits: Sequence[str] = ()
    version: str = "v1"
    planned: int = 0
    finished: int = 0
    running: int = 0
    interrupted: int = 0
    counts: Mapping[str, int]
    cost: float | None = None
    """Cost of the models that finished runs called; None if they called none."""
    cost_is_complete: bool = True
    canonical: bool | None = None
    differences: Sequence[str] = ()
    title: str = ""
    models: Sequence[str] = ()
    seconds: float = 0.0
    """Total time of its finished runs."""
    broken: Sequence[str] = ()
    problem: str = ""
    is_graded_only: bool = False
    """It has only a grading report, so its runs have no folders."""

    @property
    def medals(self) -> int:
        return sum(self.counts.get(medal, 0) for medal in MEDALS)


_OF_RECORD = (*RunKey._fields, *SplitAndCategory._fields, "score", "seconds", "cost", "started_at", "ended_at")
_OF_REPORT = ("percentile", "bench_version", "score_low", "score_high")
_COLUMNS = tuple(field.name for field in fields(ListedRun))
_SCHEMA = f"""
create table groups (name text primary key, stamp text not null, about text not null);
create table runs (folder text not null, stamp text not null, {", ".join(_COLUMNS)},
    primary key (group_name, folder));
create table facets (group_name text not null, facet text not null, value, count integer not null,
    primary key (group_name, facet, value)) without rowid;
create index runs_by_end on runs (latest, ended_at);
create index runs_by_competition on runs (latest, competition_id, outcome, group_name);
pragma user_version = {_VERSION};
"""


class RunIndex:
    """The run groups directly below ``runs_dir``, or ``only`` one of them. Usable from any thread."""

    def __init__(self, runs_dir: Path, only: str | None = None) -> None:
        self.runs_dir = runs_dir
        self._only = only
        self._lock = threading.RLock()
        self._checked: dict[str, float] = {}
        self._reading = threading.Lock()
        self._passing = threading.Lock()
        self.left: int | None = None
        """How many groups are yet to be read for the first time; None if this is not known yet."""
        self.is_kept = True
        """Whether it is stored on disk, for the next start."""
        self._database = self._open()
        self._live = {group.name for group in self.groups() if group.running or group.interrupted}
        """Groups that had runs in progress when they were last checked."""

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def groups(self) -> list[Group]:
        """Return all groups, the most recently used first."""
        found = [_group(text) for (text,) in self._all("select about from groups")]
        return sorted(found, key=lambda group: (group.used, group.name), reverse=True)

    def group(self, name: str) -> Group | None:
        rows = self._all("select about from groups where name = ?", (name,))
        return _group(rows[0][0]) if rows else None

    def runs(self, *groups: str, competition: str | None = None) -> list[ListedRun]:
        """Return the latest runs of these groups (all if none is named), of one competition if it is given."""
        wanted, values = ["latest"], list[Any]()
        if groups:
            wanted.append(f"group_name in ({', '.join('?' * len(groups))})")
            values += groups
        if competition is not None:
            wanted.append("competition_id = ?")
            values.append(competition)
        return self._runs(" and ".join(wanted), values)

    def search(self, search: Search, *, start: int, count: int) -> tuple[list[ListedRun], int]:
        """Return ``count`` matching runs of all groups from ``start`` on, and the number of all matches."""
        where, values = _condition(search)
        term = ORDERS[search.order.removeprefix("-")]
        way = "desc" if search.order.startswith("-") else "asc"
        ((total,),) = self._all(f"select count(*) from runs where {where}", values)
        missing = f"{term} is null, " if term in _CAN_BE_NULL else ""
        order = f"{missing}{term} {way}, group_name, competition_id, agent, seed"
        return self._runs(f"{where} order by {order} limit ? offset ?", [*values, count, start]), total

    def facets(self) -> dict[str, list[tuple[str, int]]]:
        """Return the values of each facet, with the number of runs of each."""
        found: dict[str, list[tuple[str, int]]] = {name: [] for name in FACETS}
        for name, value, count in self._all("select facet, value, sum(count) from facets group by 1, 2 order by 1, 2"):
            found[name].append((value, count))
        return found

    def competitions(self) -> list[tuple[str, int, int, int]]:
        """Return each competition with the numbers of its runs, of those with a medal, and of its groups."""
        medals = ", ".join(f"'{medal}'" for medal in MEDALS)
        return self._all(
            f"select competition_id, count(*), sum(outcome in ({medals})), count(distinct group_name) "
            "from runs where latest group by competition_id order by competition_id"
        )

    def refresh(self, *, thorough: bool = False) -> None:
        """Update groups whose folder or manifest is newer, or that had runs in progress.

        ``thorough``: check each run of each group. Does nothing if another thread is updating the index.
        """
        if not self._passing.acquire(blocking=False):
            return
        try:
            names = self._names()
            known = dict(self._all("select name, stamp from groups"))
            for gone in known.keys() - set(names):
                self._write([(query, (gone,)) for query in _DELETIONS])
            changed = [name for name in names if thorough or self._is_due(name, known.get(name))]
            self.left = sum(name not in known for name in changed)
            for name in sorted(changed, key=lambda name: name in known):
                with self._reading:  # one by one, so that a request for one group need not wait for all
                    self._refresh_group(name)
                self.left -= name not in known
        finally:
            self._passing.release()

    def refresh_group(self, name: str) -> Group | None:
        """Update a group, and return it; None if there is no group of this name."""
        if name not in self._names():
            return None
        with self._reading:
            self._refresh_group(name)
        return self.group(name)

    def _names(self) -> list[str]:
        folders = [name for name in _folders(self.runs_dir) if not name.startswith(".")]
        return [name for name in folders if self._only in (None, name) and self._is_group(name)]

    def _is_group(self, name: str) -> bool:
        folder = self.runs_dir / name
        if (folder / MANIFEST).exists() or self._checked.get(name):
            return True
        with suppress(OSError):
            return any(folder.glob(f"*{GRADING_REPORT}")) or any(folder.glob(f"*/{RECORD}"))
        return False

    def _stamp(self, name: str) -> str:
        folder = self.runs_dir / name
        return f"{changed_at(folder)} {changed_at(folder / MANIFEST)}"

    def _is_due(self, name: str, stamp: str | None) -> bool:
        if stamp != self._stamp(name):
            return True
        return name in self._live and time.monotonic() - self._checked.get(name, 0.0) > 1

    def _refresh_group(self, name: str) -> None:
        folder = self.runs_dir / name
        stamp = self._stamp(name)
        known = dict(self._all("select folder, stamp from runs where group_name = ?", (name,)))
        statements: list[tuple[str, Sequence[Any]]] = []
        broken, seen, in_progress = list[str](), set[str](), False
        for run in _folders(folder):
            try:
                about = os.lstat(f"{folder}/{run}/{RECORD}")
            except OSError:
                in_progress = in_progress or (folder / run / RUNNING).exists()
                continue
            if known.get(run) != (version := f"{about.st_mtime_ns} {about.st_size}"):
                try:
                    record = read_record(folder, run)
                except (NotReadable, ValueError) as error:
                    broken.append(f"{run}/{RECORD} is not a run record: {str(error)[:_TEXT]}")
                    continue
                row = [run, version, *asdict(_run(name, run, record)).values()]
                statements.append((_INSERT, row))
            seen.add(run)
        graded, problem = _graded(folder) if not seen and not broken else (None, "")
        if graded is not None:
            broken += [text.removeprefix(f"{folder}/") for text in graded.broken]
            for record in graded.records:
                seen.add(record.run_id)
                listed = replace(_run(name, record.run_id, record), has_folder=0)
                statements.append((_INSERT, [record.run_id, "", *asdict(listed).values()]))
        statements += [
            ("delete from runs where group_name = ? and folder = ?", (name, run)) for run in known.keys() - seen
        ]
        found = runs_in_progress(folder) if in_progress else []
        running = sum(not run.interrupted for run in found)
        if statements:
            counted = [(_COUNTED.format(facet, column), (name,)) for facet, column in FACETS.items()]
            latest = [(_ALL_OLD, (name,)), (_LATEST, (name, name))]
            self._write([*statements, *latest, (_DELETE_FACETS, (name,)), *counted])
        done = {RunKey(run.agent, run.competition_id, run.seed) for run in self.runs(name)} if found else set()
        interrupted = len(runs_to_resume(found, done))
        group = self._about(name, running=running, interrupted=interrupted, broken=broken)
        group = replace(group, problem=group.problem or problem, is_graded_only=graded is not None)
        self._write([("insert or replace into groups values (?, ?, ?)", (name, stamp, json.dumps(asdict(group))))])
        self._checked[name] = time.monotonic()
        (self._live.add if running or interrupted else self._live.discard)(name)

    def _about(self, name: str, *, running: int, interrupted: int, broken: Sequence[str]) -> Group:
        runs = self.runs(name)
        folder = self.runs_dir / name
        manifest, problem = Manifest(), ""
        try:
            manifest = parse(Manifest, loads(read(folder, MANIFEST, size=_MAX_MANIFEST)[0]))
        except NotReadable:
            pass
        except (ValueError, UsageError) as error:
            problem = f"{MANIFEST} cannot be read: {str(error)[:_TEXT]}"
        noted = manifest.settings.get("competitions", {})
        priced = [run for run in runs if run.calls]
        title = manifest.options.get("--title")
        models = Counter(model for run in runs for model in run.models.split("\n") if model)
        keys = manifest.keys | {(run.agent, run.competition_id, run.seed) for run in runs}
        return Group(
            name=name,
            created_at=manifest.created_at or min((run.started_at for run in runs), default=""),
            used=(changed_at(folder / MANIFEST) or changed_at(folder)) / 1e9,
            agents=sorted({key[0] for key in keys}),
            splits=sorted(
                {run.split for run in runs} | {str(entry["split"]) for entry in noted.values() if "split" in entry}
            ),
            version=str(manifest.settings.get("bench_version") or next((run.bench_version for run in runs), "v1")),
            planned=len(keys),
            finished=len(runs),
            running=running,
            interrupted=interrupted,
            counts=dict(Counter(run.outcome for run in runs)),
            cost=sum(run.cost or 0.0 for run in priced) if priced else None,
            cost_is_complete=all(run.cost is not None for run in priced),
            canonical=None if manifest.canonical is None else manifest.canonical.is_canonical,
            differences=manifest.canonical.differences if manifest.canonical else (),
            title=title if isinstance(title, str) else "",
            models=[model for model, _ in models.most_common(5)],
            seconds=sum(run.seconds for run in runs),
            broken=broken[:20],
            problem=problem,
        )

    def _runs(self, where: str, values: Sequence[Any]) -> list[ListedRun]:
        rows = self._all(f"select {', '.join(_COLUMNS)} from runs where {where}", values)
        return [ListedRun(**dict(zip(_COLUMNS, row, strict=True))) for row in rows]

    def _all(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._lock:
            try:
                return self._database.execute(query, values).fetchall()
            except sqlite3.DatabaseError:
                self._rebuild()
                return self._database.execute(query, values).fetchall()

    def _write(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> None:
        with self._lock:
            try:
                self._run_all(statements)
            except sqlite3.DatabaseError:
                self._rebuild()
                self._run_all(statements)

    def _run_all(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> None:
        with self._database:
            for query, values in statements:
                self._database.execute(query, values)

    def _open(self) -> sqlite3.Connection:
        path = self.runs_dir / FILE
        for _ in range(2):
            if path.is_symlink():
                break
            try:
                return self._connected(path)
            except sqlite3.DatabaseError:
                for name in (FILE, f"{FILE}-journal", f"{FILE}-wal", f"{FILE}-shm"):
                    with suppress(OSError):
                        (self.runs_dir / name).unlink()
        self.is_kept = False
        return self._connected(":memory:")

    def _rebuild(self) -> None:
        """Start with an empty database, in memory if the disk fails."""
        self._database.close()
        with suppress(OSError):
            (self.runs_dir / FILE).unlink()
        self._checked.clear()
        self._database = self._open()

    def _connected(self, path: Path | str) -> sqlite3.Connection:
        database = sqlite3.connect(path, check_same_thread=False, timeout=5)
        try:
            database.execute("pragma cache_size = -8000")
            database.execute("pragma synchronous = off")  # it can be rebuilt
            (version,) = database.execute("pragma user_version").fetchone()
            if version not in (0, _VERSION):
                raise sqlite3.DatabaseError("of another version")
            if version and database.execute("pragma quick_check(1)").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("damaged")
            if not version:
                database.executescript(_SCHEMA)
            database.execute("select count(*) from groups").fetchone()
        except BaseException:
            database.close()
            raise
        return database


_INSERT = (
    f"insert or replace into runs (folder, stamp, {', '.join(_COLUMNS)}) "
    f"values ({', '.join('?' * (2 + len(_COLUMNS)))})"
)
_DELETE_FACETS = "delete from facets where group_name = ?"
_DELETIONS = ("delete from groups where name = ?", "delete from runs where group_name = ?", _DELETE_FACETS)
_COUNTED = (
    "insert into facets select group_name, '{0}', {1}, count(*) from runs where group_name = ? and latest group by {1}"
)
"""Counts the runs of a group by the values of a facet and its column. Lists of all runs show the sums."""
_ALL_OLD = "update runs set latest = 0 where group_name = ?"
_LATEST = """
update runs set latest = 1 where group_name = ? and folder in (select folder from (
    select folder, row_number() over (partition by agent, competition_id, seed order by started_at desc, run_id desc) k
    from runs where group_name = ?) where k = 1)
"""


def _condition(search: Search) -> tuple[str, list[Any]]:
    wanted, values = ["latest"], list[Any]()
    for name, chosen in search.facets.items():
        several = {"medal": MEDALS, "failure": FAILED} if name == "outcome" else {}
        plain = [value for choice in chosen for value in several.get(choice, (choice,))]
        if plain:
            wanted.append(f"{FACETS[name]} in ({', '.join('?' * len(plain))})")
            values += plain
    for word in search.words:
        escaped = word.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
        wanted.append("(" + " or ".join(rf"{column} like ? escape '\'" for column in _SEARCHED) + ")")
        values += [f"%{escaped}%"] * len(_SEARCHED)
    return " and ".join(wanted), values


def _graded(folder: Path) -> tuple[RunGroup | None, str]:
    """Return a group that has neither records nor a manifest, from its grading report, or why it cannot be read."""
    if os.path.lexists(folder / MANIFEST):
        return None, ""
    try:
        return read_group(folder), ""
    except UsageError as error:
        return None, str(error).splitlines()[-1].replace(f"{folder}/", "")[:_TEXT]


def _group(text: str) -> Group:
    return Group(**json.loads(text))


def _run(group: str, folder: str, record: RunRecord) -> ListedRun:
    report, usage = record.report, record.usage
    same = {name: getattr(record, name) for name in _OF_RECORD} | {name: getattr(report, name) for name in _OF_REPORT}
    return ListedRun(
        **same,
        group_name=group,
        run_id=folder,
        outcome=record.outcome.value,
        lower_is_better=int(report.is_lower_better),
        indicative=int(report.thresholds == "indicative"),
        calls=as_count(usage.calls),
        tokens_in=as_count(usage.tokens.get("input")),
        tokens_out=as_count(usage.tokens.get("output")),
        models="\n".join(list(usage.models)[:10]),
        ending=record.ending.value,
        reason=(record.reason or "")[:_TEXT],
        submissions=len(record.timeline),
        error=int(record.error is not None),
        firm=report.firmness,
    )


def _folders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return list(filter(is_utf8, names))  # others have no URL
