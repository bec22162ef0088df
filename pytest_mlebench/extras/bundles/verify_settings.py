"""Checks the settings and times in a bundle against its sessions.

A session may change settings (``--allow-changes``) and then records how. The settings of each session follow from the
last ones and these changes, and each record must have those of its own session.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from pytest_mlebench.io.values import parse
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.manifest import (
    UNKNOWN,
    Canonical,
    Manifest,
    SessionRecord,
    canonical_differences,
    flatten,
    model_differences,
)
from pytest_mlebench.records.outcome import Ending, Hardware, Limits, Outcome
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.runs.run import used_permissions
from pytest_mlebench.sandbox.limits import describe

SLACK_SECONDS = 120.0
"""Maximum difference between the clocks of the machines that took part."""
_SLACK_SHARE = 0.05
"""Share of the time limit that a run may take longer, to end its agent and collect its files."""
_MAX_CHANGE, _MAX_CHANGES, _MAX_SEPARATORS = 4000, 1 << 20, 50
"""Maximum characters of a recorded change, of all, and number of places in one that may separate its values."""
_MAX_SETTINGS = 2_000_000
"""Maximum number of settings of all sessions that changed any."""


class _Period(NamedTuple):
    """A session: when its runs can have begun and ended, its machine, and its settings by path."""

    start: datetime
    end: datetime
    machine: Hardware
    settings: Mapping[str, Any]
    session: SessionRecord


def settings(group: RunGroup, made_at: str) -> Iterator[str]:
    """Yield contradictions between a group's settings, sessions and times. The bundle was created at ``made_at``."""
    manifest = group.manifest
    if manifest.run_by:
        yield from _imported(group)
        return
    try:
        until = _time(made_at)
    except ValueError:
        yield "the index does not say when the bundle was created"
        return
    if (until - datetime.now(UTC)).total_seconds() > SLACK_SECONDS:
        yield f"the bundle was created in the future: {made_at[:40]}"
    periods, wrong = _periods(manifest, until)
    yield from wrong
    if wrong:
        return
    for record in group.records:
        by_session = [list(_unlike(record, period)) for period in _sessions_of(record, periods)]
        closest = min(by_session, key=len, default=[])
        wrong = [*_times(record, periods), *closest, *_permissions(record)]
        wrong += _of_agent(record, manifest, group.version)
        yield from (f"{record.run_id}: {why}" for why in wrong)
    yield from _summaries(group)
    yield from _canonical(manifest, periods)


def _imported(group: RunGroup) -> Iterator[str]:
    """Yield claims of an imported group that only a session of this package can record."""
    manifest = group.manifest
    if manifest.sessions or manifest.canonical is not None or manifest.options:
        yield f"the runs are from {manifest.run_by}, but the manifest has sessions"
    for record in group.records:
        if record.sandbox.name or record.sandbox.connections or record.limits or record.permissions:
            yield f"{record.run_id}: it is from {manifest.run_by}, but its record has a sandbox, limits or permissions"
        span = _span(record)
        if span is None or not 0 <= record.seconds <= (span[1] - span[0]).total_seconds() + SLACK_SECONDS:
            yield f"{record.run_id}: its times contradict each other"
        yield from (f"{record.run_id}: {why}" for why in _of_agent(record, manifest, group.version))


def _span(record: RunRecord) -> tuple[datetime, datetime] | None:
    """Return the start and end of a run; None if they are not times."""
    try:
        return _time(record.started_at), _time(record.ended_at)
    except ValueError:
        return None


def _time(text: str) -> datetime:
    """Parse a time. Raises ValueError if it is not one, or has no time zone."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text[:40]!r} has no time zone")
    return found


def _periods(manifest: Manifest, until: datetime) -> tuple[list[_Period], list[str]]:
    """Return the sessions with their settings, and errors in them."""
    every = _settings_by_session(manifest)
    if isinstance(every, str):
        return [], [every]
    if not manifest.sessions:
        return [], ["the manifest has no session"]
    try:
        created, starts = _time(manifest.created_at), [_time(session.started_at) for session in manifest.sessions]
        ends = [None if session.ended_at is None else _time(session.ended_at) for session in manifest.sessions]
    except ValueError:
        return [], ["the times of the group or of its sessions are invalid"]
    wrong, periods = [], []
    if (created - starts[0]).total_seconds() > SLACK_SECONDS:
        wrong.append("the group was created after its first session")
    for number, (session, start, end) in enumerate(zip(manifest.sessions, starts, ends, strict=True)):
        later = starts[number + 1] if number + 1 < len(starts) else until
        # Jobs of a cluster continue without their session. So do the workers of a killed session, for a moment.
        last = until if session.cluster else end or later
        if (start - later).total_seconds() > SLACK_SECONDS or (end is not None and end < start):
            wrong.append(f"session {number + 1} begins after its end, the next session or the bundle")
        if session.workers < 1 or session.hardware is None:
            wrong.append(f"session {number + 1} had no worker, or no machine")
        else:
            periods.append(_Period(start, last, session.hardware, every[number], session))
        if end is not None and (end - until).total_seconds() > SLACK_SECONDS:
            wrong.append(f"session {number + 1} ended after the bundle was created")
    return periods, wrong


def _settings_by_session(manifest: Manifest) -> list[dict[str, Any]] | str:
    """Return the settings of each session by undoing the changes, last first; or an error in the changes."""
    current = dict(flatten(manifest.settings))
    found = [current]
    texts = sum(len(text) for session in manifest.sessions for text in session.changes)
    if texts > _MAX_CHANGES or len(current) * sum(bool(one.changes) for one in manifest.sessions) > _MAX_SETTINGS:
        return "the sessions have more changes of settings than any session writes"
    for number in range(len(manifest.sessions) - 1, -1, -1):
        before = dict(current) if manifest.sessions[number].changes else current
        for text in manifest.sessions[number].changes:
            change = _change(text)
            if number == 0 or change is None:
                return f"session {number + 1} has a change of settings that no session writes: {text[:100]!r}"
            path, was, now = change
            # A setting that was removed keeps its last value in the manifest.
            if now is not None and current.get(path) != now:
                return f"session {number + 1} changed {path[:100]} to {now!r:.60}, but the settings do not have that"
            before[path] = was
        if number:
            found.append(before)
        current = before
    return found[::-1]


def _change(text: str) -> tuple[str, Any, Any] | None:
    """Return the path, earlier value and later value of a change, as ``records.manifest.changes`` writes it."""
    path, _, rest = text[:_MAX_CHANGE].partition(" was ")
    for found in islice(re.finditer(", is ", rest), _MAX_SEPARATORS):
        try:
            return path, ast.literal_eval(rest[: found.start()]), ast.literal_eval(rest[found.end() :])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return None


def _times(record: RunRecord, periods: Sequence[_Period]) -> Iterator[str]:
    if (span := _span(record)) is None:
        yield "its times are invalid, or have no time zone"
        return
    lasted = (span[1] - span[0]).total_seconds()
    if lasted < 0:
        yield "it ended before it began"
    if not 0 <= record.seconds <= lasted + SLACK_SECONDS:
        yield f"it took {record.seconds:g} s between times that are {lasted:g} s apart"
    limit = record.limits.get("time_limit")
    if not isinstance(limit, int | float) or not math.isfinite(limit) or limit <= 0:
        yield "it has no time limit"
    elif record.seconds > limit + max(SLACK_SECONDS, _SLACK_SHARE * limit):
        yield f"it took {record.seconds:g} s with a time limit of {limit:g} s"
    elif record.ending is Ending.TIMED_OUT and record.seconds < (1 - _SLACK_SHARE) * limit - 1:
        yield f"it timed out after {record.seconds:g} s of {limit:g} s"
    if not _sessions_of(record, periods):
        yield "it ran outside the sessions of the group"
    previous = 0.0
    for point in record.timeline:
        if not previous <= point.seconds <= record.seconds + SLACK_SECONDS:
            yield f"it took {record.seconds:g} s, but its timeline is longer, or goes back in time"
            break
        previous = point.seconds


def _sessions_of(record: RunRecord, periods: Sequence[_Period]) -> list[_Period]:
    """Return the sessions that a run can belong to; several if clocks leave it open."""
    if (span := _span(record)) is None:
        return []
    slack = timedelta(seconds=SLACK_SECONDS)
    return [period for period in periods if period.start - span[0] <= slack and span[1] - period.end <= slack]


def _below(path: str, period: _Period) -> dict[str, Any]:
    """Return the settings of a session below a path, by the rest of their path."""
    prefix = f"{path} "
    return {name.removeprefix(prefix): value for name, value in period.settings.items() if name.startswith(prefix)}


def _unlike(record: RunRecord, period: _Period) -> Iterator[str]:
    limits = _below("limits", period)
    if any(record.limits.get(name) != limits.get(name) for name in record.limits.keys() | limits.keys()):
        yield "its limits differ from the manifest"
    agent = _below(f"agents {record.agent}", period)
    if not agent:
        yield f"the manifest lacks its agent {record.agent[:100]}"
        return
    defined = dict(flatten(record.agent_definition))
    defined.pop("until", None)
    agent.pop("digest", None)
    sandbox = agent.pop("sandbox", None)
    for name in sorted(agent.keys() | defined.keys()):
        if agent.get(name) != defined.get(name):
            yield f"{name[:100]} of its agent differs from the manifest"
    if record.agent_definition.get("until") != period.settings.get("until", record.agent_definition.get("until")):
        yield "it was told to continue until a time other than the manifest says"
    # An agent's sandbox is unknown if no container runtime answered; the local one needs none.
    known = sandbox not in (None, UNKNOWN) or record.sandbox.name == "local"
    if record.sandbox.name and known and record.sandbox.name != sandbox:
        yield f"it ran in the sandbox {record.sandbox.name[:50]}, but the manifest says {str(sandbox)[:50]}"
    yield from _sandbox(record, period)


def _sandbox(record: RunRecord, period: _Period) -> Iterator[str]:
    """Yield contradictions between the limits and network of a record's sandbox and those that the run was given."""
    account = record.sandbox
    if not account.name:
        return
    try:
        given = describe(parse(Limits, record.limits))
        applied = describe(parse(Limits, account.limits))
    except (ValueError, TypeError):
        yield "its limits, or those of its sandbox, are not numbers"
        return
    if account.limits.keys() != applied.keys() or not all(math.isfinite(value) for value in applied.values()):
        yield "the limits of its sandbox are not all numbers"
    for name, value in given.items():
        if applied.get(name) != value:
            yield f"its sandbox applied the {name} {applied.get(name)}, but the run was given {value}"
    machine = {"cpus": period.machine.cpus, "memory": period.machine.memory}
    for name, most in ({} if period.session.cluster else machine).items():
        if name in applied and name not in given and applied[name] > most:
            yield f"its sandbox applied more {name} than the machine has"
    noted = period.settings.get("network")
    expected = {"not enforced"} if account.name == "local" else {noted, "none"}
    if noted is not None and account.network and account.network not in expected:
        yield f"its network was {account.network[:50]!r}, but the manifest says {str(noted)[:50]!r}"
    if account.name == "local" and (account.image or account.container):
        yield "it ran in the local sandbox, but names a container or an image"


def _of_agent(record: RunRecord, manifest: Manifest, version: str) -> Iterator[str]:
    if record.agent_definition and record.agent_definition.get("id") != record.agent:
        yield f"its agent is defined as {str(record.agent_definition.get('id'))[:100]!r}"
    if record.report.bench_version != version:
        yield f"it uses version {record.report.bench_version[:20]} of the benchmark"
    noted = manifest.settings.get("competitions", {}).get(record.competition_id)
    if noted is None:
        yield f"the manifest lacks its competition {record.competition_id[:100]}"
    elif (noted.get("split"), noted.get("category"), noted.get("version")) != (
        record.split, record.category, version) and noted.get("digest") is not None:  # fmt: skip
        yield "its competition has another split, category or version in the manifest"
    if not record.data and record.outcome is not Outcome.error:
        yield "it does not say which data it had"
    if record.ending is Ending.FINISHED and record.exit_code not in (0, None):
        yield f"it finished, but with exit code {record.exit_code}"
    if record.ending is Ending.BUDGET_ENDED and not record.usage.budget_ended:
        yield "it ran out of budget, but its model calls did not exhaust it"
    if record.description not in (None, "bundled", "obfuscated", "kaggle", "other"):
        yield f"its description is of an unknown kind: {record.description[:50]!r}"
    if record.description is not None and (record.description == "obfuscated") != (
        manifest.settings.get("description") == "obfuscated"
    ):
        yield "it read another kind of description than the manifest says"


def _permissions(record: RunRecord) -> Iterator[str]:
    """Yield permissions that were not granted, or contradict the sandbox. Records of earlier versions have none."""
    if not record.permissions:
        return
    granted, used = record.permissions.get("granted"), record.permissions.get("used")
    if not isinstance(granted, dict) or not isinstance(used, dict):
        yield "its permissions are not valid"
        return
    secrets = used.get("secrets", [])
    if used != used_permissions(record.sandbox, secrets):
        yield "the permissions that it used do not follow from its sandbox and its connections"
    allowed, trusted = granted.get("allow_secrets", []), granted.get("trust_agents", [])
    if not isinstance(secrets, list) or any(name not in allowed for name in secrets):
        yield "it used secrets that the user did not grant"
    if used.get("no_isolation") and not record.permissions.get("bundled") and record.agent not in trusted:
        yield "it ran without isolation, which the user did not grant"


def _summaries(group: RunGroup) -> Iterator[str]:
    """Yield where manifest and records disagree. Replaced attempts may add values, interrupted groups may lack some."""
    manifest = group.manifest
    summaries = manifest.with_records(group.records)
    closed = manifest.sessions[-1].ended_at is not None and not manifest.sessions[-1].cluster
    for name in ("images", "connections", "data"):
        noted = getattr(manifest, name)
        for key, own in getattr(summaries, name).items():
            known = noted.get(key, {})
            differs = known != own if name == "data" else any(known.get(one) != value for one, value in own.items())
            if differs and (closed or any(one in known and known[one] != value for one, value in own.items())):
                yield f"{name}: the manifest and the records disagree on {key[:100]}"
    for agent, used in summaries.permissions.items():
        known = manifest.permissions.get(agent, {})
        missing = [name for name, own in used.items() if not _includes(known.get(name), own)]
        if missing and (closed or known):
            yield f"permissions: the manifest lacks {', '.join(missing)[:100]} that runs of {agent[:100]} used"
    models = {agent: dict(own) for agent, own in manifest.models.items()}
    if (closed or models) and models != summaries.models:
        yield f"models: the manifest has {counts(manifest.models)}, but the records have {counts(summaries.models)}"


def _includes(known: object, used: object) -> bool:
    if isinstance(used, list) and isinstance(known, list):
        return all(one in known for one in used)
    return known == used


def counts(models: Mapping[str, Mapping[str, int]]) -> str:
    """Return the calls by model, such as ``gpt-5 × 12, o3 × 2``."""
    total: Counter[str] = Counter()
    for by_model in models.values():
        total.update(by_model)
    return ", ".join(f"{name[:60]} × {count}" for name, count in sorted(total.items())[:5]) or "none"


def _canonical(manifest: Manifest, periods: Iterable[_Period]) -> Iterator[str]:
    """Check that the manifest's verdict on the setting follows from all sessions."""
    every = Canonical.combine(None, ())
    for period in periods:
        sandboxes = {str(value) for name, value in _below("agents", period).items() if name.endswith(" sandbox")}
        try:
            parsed = parse(Limits, _below("limits", period))
            if not math.isfinite(parsed.time_limit):
                raise ValueError("there is no time limit")
            found = canonical_differences(parsed, period.machine, workers=period.session.workers, sandboxes=sandboxes)
        except (ValueError, TypeError) as error:
            yield f"limits: they are not valid: {str(error)[:100]}"
            return
        every = Canonical.combine(every, [*found, *model_differences(period.settings)])
    if manifest.canonical is None:
        yield "canonical: the manifest does not say how the setting differs from the canonical one"
    elif set(every.differences) != set(manifest.canonical.differences) or (
        every.is_canonical != manifest.canonical.is_canonical
    ):
        yield "canonical: the manifest's verdict on the setting does not follow from its limits and machines"
