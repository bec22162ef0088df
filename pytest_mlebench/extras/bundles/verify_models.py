"""Checks model calls in a bundle: records against ledgers, and ledgers against recordings and trajectories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_mlebench.extras.audit.programs import MAX_TRAJECTORY_BYTES, read_trajectory
from pytest_mlebench.extras.bundles.bundle import Bundle
from pytest_mlebench.extras.bundles.card import Check, CheckResult
from pytest_mlebench.extras.bundles.verify_settings import SLACK_SECONDS, counts
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.io.values import as_object
from pytest_mlebench.llm.ledger import BODIES, CALLS, MAX_CALLS_BYTES, Call, Totals, read_bodies, read_calls
from pytest_mlebench.llm.trajectory import TRAJECTORY
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.run_details import conversations, steps_of

_TOLERANCE = 1e-6
_NOT_IN_LEDGERS = ("replay_misses", "budget_ended", "left_out", "write_error", "connections_refused")
_GATEWAYS = (None, "on", "off", "replay")


def models(
    bundle: Bundle, group: RunGroup, *, max_calls: int = MAX_CALLS_BYTES, max_trajectory: int = MAX_TRAJECTORY_BYTES
) -> Check:
    """Compare the ledgers with the records. Ledgers and trajectories that are too large are not read."""
    asked = [record for record in group.records if record.llm.get("calls")]
    if bundle.lacks("ledgers"):
        return Check("models", CheckResult.unchecked, "the ledgers were left out")
    wrong, lacking, unread = list(_gateways(group)), list[str](), list[str]()
    for record in group.records:
        path = bundle.folder / record.run_id / CALLS
        if path.is_file() and path.stat().st_size <= max_calls:
            trajectory = read_trajectory(path.parents[1], max_trajectory)
            found = [f"{record.run_id}: {why}" for why in _run(record, path.parents[1], bundle, trajectory)]
            # A run that was ended from outside has a ledger, but its record has no counts. On a full disk, calls are
            # counted that the ledger lacks.
            lost = record.llm.get("write_error") and record.llm.get("left_out")
            (wrong if (record.sandbox.name or record.llm) and not lost else lacking).extend(found)
            if trajectory is None and (path.parents[1] / TRAJECTORY).exists():
                unread.append(f"{record.run_id}: its trajectory cannot be read, or is too large to be compared")
        elif record.llm.get("calls") or (path.parents[1] / BODIES).exists():
            lacking.append(f"{record.run_id}: it has no ledger of its calls")
        elif any(record.llm.get(name) for name in ("known_cost", "cost", "models")):
            wrong.append(f"{record.run_id}: it has costs or models without a call")
    detail = f"ledgers of {pluralize(len(asked), 'run')} match the calls of the records"
    unchecked = "calls were not recorded" if lacking else "trajectories cannot be compared" if unread else ""
    return Check.of("models", wrong, detail, unchecked=unchecked, lacking=[*lacking, *unread])


def _gateways(group: RunGroup) -> Iterator[str]:
    """Yield the runs that used another gateway than their group."""
    options = group.manifest.options
    one_session = len(group.manifest.sessions) == 1  # the manifest has the last session's options
    for record in group.records:
        gateway = record.llm.get("gateway")
        if gateway not in _GATEWAYS or (gateway is None and record.llm):
            yield f"{record.run_id}: its gateway was {str(gateway)[:50]!r}"
        elif gateway == "off" and len(record.llm) > 1:
            yield f"{record.run_id}: it had no gateway, but its record counts calls"
        elif gateway is not None and one_session:
            expected = "replay" if options.get("--llm-replay") else options.get("--llm-gateway", gateway)
            if gateway != expected:
                yield f"{record.run_id}: its gateway was {gateway}, but that of the group {str(expected)[:50]}"


def _run(record: RunRecord, run_dir: Path, bundle: Bundle, trajectory: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield contradictions between a run's record, ledger, recording and trajectory."""
    lines = read_calls(run_dir, only_valid=False)
    numbers = [line.get("number") for line in lines]
    if len(set(map(str, numbers))) < len(numbers) or not all(type(number) is int for number in numbers):
        yield "its ledger has calls without a unique number"
    try:
        calls = [Call.from_json(line) for line in lines]
    except ValueError:
        yield "its ledger has a call that no gateway writes"
        return
    totals = Totals()
    for call in calls:
        totals.add(call)
    if record.llm.get("gateway") == "off" and calls:
        yield "it had no gateway, but has a ledger of one"
    yield from _unlike(totals, record)
    if calls and not all(0 <= call.seconds <= record.seconds + SLACK_SECONDS for call in calls):
        yield "a call took longer than the run, or a negative time"
    steps = (step for one in conversations(trajectory or {}) for step in steps_of(one))
    in_steps = (as_object(step.get("extra")).get("call") for step in steps)
    if unknown := {number for number in in_steps if type(number) is int} - set(numbers):
        yield f"its trajectory has the call {min(unknown)}, which its ledger lacks"
    answered = {call.number for call in calls if call.kind == "generate" and (call.status or 999) < 400}
    if (run_dir / BODIES).is_file():
        recorded = {body.get("number") for body in read_bodies(run_dir)}
        if answered and not answered & recorded:
            yield "its recording is empty, but its ledger has answered calls"
        if stray := {str(number) for number in recorded - set(numbers)}:
            yield f"its recording has the call {min(stray)[:50]}, which its ledger lacks"
    elif (run_dir / TRAJECTORY).is_file() and not bundle.lacks("recordings"):
        yield "it has a trajectory, but no recording to build it from"
    call_counts = [point.calls for point in record.timeline if point.calls is not None]
    if call_counts != sorted(call_counts) or any(not 0 <= number <= totals.calls for number in call_counts):
        yield "its timeline counts other calls than its ledger"
    costs = [point.cost for point in record.timeline if point.cost is not None]
    if costs != sorted(costs) or any(not 0 <= cost <= float(totals.cost) + _TOLERANCE for cost in costs):
        yield "its timeline counts other costs than its ledger"


def _unlike(totals: Totals, record: RunRecord) -> Iterator[str]:
    """Yield the totals that differ between a record and its ledger."""
    recorded, found = record.llm, totals.to_json()
    called = {name: counted["calls"] for name, counted in totals.models.items()}
    if called != record.models_called:
        yield f"its ledger has {counts({'': called})}, but its record {counts({'': record.models_called})}"
    required = ("calls", "tokens", "known_cost", "models") if totals.calls else ()
    for name, value in found.items():
        if name in _NOT_IN_LEDGERS or (name not in recorded and name not in required):
            continue
        # Seconds are a sum of rounded times.
        if not _same(recorded.get(name), value, tolerance=1.0 if name == "seconds" else _TOLERANCE):
            what = "cost" if name == "known_cost" else name.replace("_", " ")
            yield f"{what}: its ledger has {value!r:.100}, but its record {recorded.get(name)!r:.100}"


def _same(one: Any, other: Any, *, tolerance: float = _TOLERANCE) -> bool:
    """Return whether two JSON values are equal except for rounding. NaN equals nothing."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= tolerance * max(1.0, abs(other))
    return bool(one == other)
