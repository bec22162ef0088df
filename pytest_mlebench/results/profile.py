"""The fairness profile of a run group: which aspects of its setting are canonical, differ or are unknown.

It depends only on the manifest, the records and the audit findings, so that it can be recomputed from a bundle.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from pytest_mlebench.catalog.competition import FIRST
from pytest_mlebench.defaults import TIME_LIMIT
from pytest_mlebench.io.units import format_duration, listed, pluralize
from pytest_mlebench.io.values import parse
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.manifest import Canonical, canonical_differences
from pytest_mlebench.records.outcome import TWIN_DATA, Limits, Outcome
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.results.findings import Findings, Verdict, in_words, measured, read_findings

_MAX_NAMED = 5
_ENOUGH_SEEDS = 3
"""Published results are means over at least this many seeds."""
_STRONG = 0.5
"""If the interval of the correlation between scores and familiarity is below this, a strong one is ruled out."""
_ENFORCED = ("none", "llm")


class State(StrEnum):
    """State of one aspect of the setting."""

    canonical = "canonical"
    difference = "differs (declared)"
    unknown = "unknown"


@dataclass(frozen=True)
class ProfileLine:
    """One aspect of a group's setting. ``detail`` may contain untrusted names from agents."""

    name: str
    state: State
    detail: str


def fairness_profile(group: RunGroup, audited: Findings | None = None) -> tuple[ProfileLine, ...]:
    """Return the profile of a run group, always with the same lines in the same order.

    ``audited`` has the audit findings; if it is None, they are read from the group.
    """
    return (
        *(ProfileLine(name, *assess(group)) for name, assess in _LINES.items()),
        ProfileLine("audit", *_audit(group, audited)),
    )


_Assessment = tuple[State, str]


def _version(group: RunGroup) -> _Assessment:
    if not group.records:
        return State.unknown, "no run has a record"
    versions = sorted({record.report.bench_version for record in group.records} | {group.version})
    if versions == [FIRST]:
        return State.canonical, "version 1, as published"
    return State.difference, f"version {listed([version.removeprefix('v') for version in versions])}"


def _data(group: RunGroup) -> _Assessment:
    kinds: dict[str, set[frozenset[tuple[str, str]]]] = {}
    for record in group.records:
        kinds.setdefault(record.competition_id, set()).add(frozenset(record.data.items()))
    total = pluralize(len(kinds), "competition")
    several = [id for id, found in sorted(kinds.items()) if len(found) > 1]
    different = {record.competition_id for record in group.records if record.data_verified is False}
    unverified = {record.competition_id for record in group.records if record.data_verified is None}
    undigested = sum(record.data.get("answers") is None for record in group.records)
    if twins := {record.competition_id for record in group.records if record.is_twin}:
        return State.difference, f"{TWIN_DATA}: {len(twins)} of {total}"
    if different:
        return State.difference, f"not the reference's data (synthetic or modified): {len(different)} of {total}"
    if several:
        return State.difference, f"runs of the same competition had different data: {_few(several)}"
    if unverified or not group.records:
        return State.unknown, f"never compared with the reference's checksums: {len(unverified)} of {total}"
    if undigested:
        return State.unknown, f"verified, but digests were not recorded for {pluralize(undigested, 'run')}"
    return State.canonical, f"verified against the reference's checksums, where available: {total}"


def _description(group: RunGroup) -> _Assessment:
    kinds = {record.description for record in group.records}
    if not kinds or None in kinds:
        return State.unknown, "which description the agents read was not recorded"
    texts = {
        "bundled": "our own description instead of the competition's pages",
        "obfuscated": "obfuscated: our own description, with the competition's name hidden",
    }
    if different := [text for kind, text in texts.items() if kind in kinds]:
        return State.difference, listed(different)
    return State.canonical, "the competition's own pages"


def _time(group: RunGroup) -> _Assessment:
    limits = [record.limits.get("time_limit") for record in group.records]
    known = [float(limit) for limit in limits if isinstance(limit, int | float) and math.isfinite(limit)]
    if not known or len(known) < len(limits):
        return State.unknown, "the time limit of some runs was not recorded"
    shown = listed([format_duration(limit) for limit in sorted(set(known))])
    if set(known) == {TIME_LIMIT}:
        return State.canonical, shown
    return State.difference, f"{shown} instead of {format_duration(TIME_LIMIT)}"


def setting_differences(group: RunGroup) -> Canonical | None:
    """Recompute how the limits and machines of the group's sessions differ from the canonical ones.

    Returns None if the manifest does not record them.
    """
    try:
        limits = parse(Limits, group.manifest.settings.get("limits"))
    except ValueError:
        return None
    if not group.manifest.sessions or not math.isfinite(limits.time_limit):
        return None
    sandboxes = {str(agent.get("sandbox", "")) for agent in group.manifest.settings.get("agents", {}).values()}
    found: list[str] = []
    for session in group.manifest.sessions:
        if session.hardware is None or session.workers < 1:
            return None
        found += canonical_differences(limits, session.hardware, workers=session.workers, sandboxes=sandboxes)
    return Canonical.combine(None, found)


def _hardware(group: RunGroup) -> _Assessment:
    canonical = setting_differences(group) or group.manifest.canonical
    if canonical is None:
        return State.unknown, "the manifest does not record the machines of the runs"
    words = ("processor", "memory", "GPU", "container", "CPU")
    different = [text for text in canonical.differences if any(word in text for word in words)]
    return (State.difference, "; ".join(different)) if different else (State.canonical, "36 vCPU, 440 GB, one A10")


def _network(group: RunGroup) -> _Assessment:
    policies = {record.sandbox.network for record in group.records if record.sandbox.name}
    if not policies or "" in policies:
        return State.unknown, "the network policy of some runs was not recorded"
    connections = [connection for record in group.records for connection in record.sandbox.connections]
    hosts = {connection.host for connection in connections if connection.allowed}
    refused = sum(not connection.allowed for connection in connections)
    counts = f"; {pluralize(len(hosts), 'host')} reached, {pluralize(refused, 'connection')} refused"
    if policies <= set(_ENFORCED):
        return State.canonical, f"no network access except to models ({listed(sorted(policies))}){counts}"
    if "full" in policies:
        return State.difference, f"runs had open network access{counts}"
    return State.unknown, "not enforced, so what runs connected to is unknown"


def _has_model_calls(group: RunGroup) -> bool:
    return any(record.llm for record in group.records)


def _without_gateway(group: RunGroup) -> list[RunRecord]:
    """Runs that could reach models without the gateway: it was off, or the network was not restricted."""
    return [
        record for record in group.records if record.usage.gateway == "off" or record.sandbox.network not in _ENFORCED
    ]


def _models(group: RunGroup) -> _Assessment:
    calls: Counter[str] = Counter()
    for record in group.records:
        calls.update(record.models_called)
    shown = _few([f"{name} ({pluralize(count, 'call')})" for name, count in calls.most_common()])
    if any(record.usage.gateway == "replay" or record.usage.replayed for record in group.records):
        return State.difference, "model responses were replayed from a recording"
    if bypassing := _without_gateway(group):
        recorded = f"; through the gateway: {shown}" if calls else ""
        return State.unknown, f"{pluralize(len(bypassing), 'run')} could call models without the gateway{recorded}"
    return State.canonical, shown or "none"


def _provider_tools(group: RunGroup) -> _Assessment:
    if group.manifest.settings.get("allow_provider_tools"):
        return State.difference, "tools that providers run, such as web search, were allowed"
    if _without_gateway(group):
        return State.unknown, "agents could reach providers without the gateway"
    withheld: Counter[str] = sum((Counter(record.usage.withheld) for record in group.records), Counter())
    if withheld:
        return State.canonical, f"withheld: {_few([f'{name} × {n}' for name, n in withheld.most_common()])}"
    return State.canonical, "none used" if _has_model_calls(group) else "no model was called"


def _feedback(group: RunGroup) -> _Assessment:
    if any(not record.sandbox.name for record in group.records if record.outcome is not Outcome.error):
        return State.unknown, "what agents were told about their submissions was not recorded"
    if any(record.sandbox.name == "local" for record in group.records):
        return State.unknown, "without a container, agents could read the answers on the same machine"
    most = max((len(record.sandbox.validations) for record in group.records), default=0)
    points = sum(bool(record.timeline) for record in group.records)
    graded = f"; snapshots of {pluralize(points, 'run')} were graded afterwards" if points else ""
    checks = f"at most {pluralize(most, 'check')} per run"
    return State.canonical, f"none: the checker does not read the answers ({checks}){graded}"


def _external(group: RunGroup) -> _Assessment:
    hosts = {c.host for record in group.records for c in record.sandbox.connections if c.allowed}
    if any(record.sandbox.network == "full" for record in group.records):
        return State.difference, f"runs could fetch data and weights ({pluralize(len(hosts), 'host')} reached)"
    if not group.records or any(record.sandbox.network not in _ENFORCED for record in group.records):
        return State.unknown, "the network was not restricted, so what runs downloaded is unknown"
    if _has_model_calls(group):
        return State.unknown, "the models' knowledge of the competitions was not measured"
    return State.canonical, "no network, no models"


def _familiarity(group: RunGroup) -> _Assessment:
    """Whether scores correlate with a base model's familiarity with the competitions' texts."""
    try:
        found = measured(group.folder)
    except (OSError, ValueError):
        return State.unknown, "the measurements cannot be read"
    if not found:
        return State.unknown, "not measured: see `mlebench familiarity`"
    shown = [(model, correlation) for model in found for correlation in model.correlations]
    if not shown:
        return State.unknown, "measured, but no agent has scores on enough competitions"
    detail = _few(f"{one.agent} with {model.model}: {in_words(one)}" for model, one in shown)
    if ours := sum(model.own_descriptions or 0 for model in found):
        return State.unknown, f"{detail}; includes {pluralize(ours, 'text')} of ours, which no model was trained on"
    if any(one.low > 0 for _, one in shown):
        return State.difference, f"scores rise with a model's familiarity with the texts ({detail})"
    if all(-1 <= one.low <= one.r <= one.high < _STRONG for _, one in shown):
        return State.canonical, f"scores do not correlate strongly with a model's familiarity with the texts ({detail})"
    return State.unknown, f"too few competitions to tell ({detail})"


def _seeds(group: RunGroup) -> _Assessment:
    results = {key for key, record in group.runs.items() if record.outcome is not Outcome.error}
    missing = len(group.planned - results)
    seeds: dict[tuple[str, str], set[int]] = {}
    for key in group.planned | group.runs.keys():
        seeds.setdefault((key.agent, key.competition_id), set()).add(key.seed)
    if missing:
        return State.difference, f"{missing} of {pluralize(len(group.planned), 'planned run')} without a result"
    if len({frozenset(used) for used in seeds.values()}) > 1:
        return State.difference, "not every competition was run with the same seeds"
    if not group.manifest.keys:
        return State.unknown, "the planned runs were not recorded"
    count = min(map(len, seeds.values()), default=0)
    complete = f"{pluralize(count, 'seed')}, all complete"
    return (State.canonical if count >= _ENOUGH_SEEDS else State.difference), complete


def _sessions(group: RunGroup) -> _Assessment:
    if not group.manifest.sessions:
        return State.unknown, "the sessions were not recorded"
    changed = [text for session in group.manifest.sessions for text in session.changes]
    if changed:
        return State.difference, f"settings were changed between sessions: {_few(changed)}"
    return State.canonical, "all runs had the same settings"


def _audit(group: RunGroup, audited: Findings | None) -> _Assessment:
    with suppress(OSError, ValueError):
        if (found := audited or read_findings(group.folder)) is not None:
            counts = Counter(found.verdicts.get(record.run_id) for record in group.records)
            if counts[None]:
                return State.unknown, f"{pluralize(counts[None], 'run')} of {len(group.records)} not audited"
            words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
            clean = set(counts) <= {Verdict.clean}
            return (State.canonical if clean else State.difference), words or "no run"
        return State.unknown, "not audited: see `mlebench audit`"
    return State.unknown, "the audit's findings cannot be read"


_LINES: Mapping[str, Callable[[RunGroup], _Assessment]] = {
    "benchmark version": _version,
    "data": _data,
    "description": _description,
    "time": _time,
    "hardware": _hardware,
    "network": _network,
    "models called": _models,
    "provider tools": _provider_tools,
    "test-set feedback": _feedback,
    "external knowledge": _external,
    "familiarity": _familiarity,
    "seeds": _seeds,
    "sessions": _sessions,
}


def _few(names: Iterable[str]) -> str:
    shown = [name[:128] for name in islice(names, _MAX_NAMED + 1)]
    return ", ".join(shown if len(shown) <= _MAX_NAMED else [*shown[:_MAX_NAMED], "…"])
