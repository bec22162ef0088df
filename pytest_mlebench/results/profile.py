"""The fairness profile of a run group: in which ways its setting is the canonical one, differs, or is not known.

It is drawn from manifest, records and the audit's findings alone, so that it can be computed again from a bundle.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from pytest_mlebench.catalog.competition import FIRST
from pytest_mlebench.defaults import TIME_LIMIT
from pytest_mlebench.io.units import format_duration, listed, pluralize
from pytest_mlebench.io.values import parse
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.manifest import Canonical, canonical_differences
from pytest_mlebench.records.outcome import TWIN_DATA, Limits, Outcome
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.results.findings import Findings, Verdict, in_words, measured, of_verdicts, read_findings

_NAMED = 5
_ENOUGH_SEEDS = 3
"""Published results are means over at least so many seeds."""
_STRONG = 0.5
"""A correlation between scores and familiarity that an interval must be below, for it to be ruled out."""
_ENFORCED = ("none", "llm")


class State(StrEnum):
    """What a line of the profile says of a setting."""

    canonical = "canonical"
    difference = "differs (declared)"
    unknown = "unknown"


@dataclass(frozen=True)
class ProfileLine:
    """One aspect of a group's fairness; ``detail`` may hold names that agents chose."""

    name: str
    state: State
    detail: str


def fairness_profile(group: RunGroup, audited: Findings | None = None) -> tuple[ProfileLine, ...]:
    """The profile of a run group, always with the same lines in the same order.

    ``audited`` is what an audit found; without it, the group's own is read.
    """
    return tuple(
        ProfileLine(name, *found)
        for name, found in (
            ("benchmark version", _version(group)),
            ("data", _data(group)),
            ("description", _description(group)),
            ("time", _time(group)),
            ("hardware", _hardware(group)),
            ("network", _network(group)),
            ("models called", _models(group)),
            ("provider tools", _provider_tools(group)),
            ("test-set feedback", _feedback(group)),
            ("external knowledge", _external(group)),
            ("familiarity", _familiarity(group)),
            ("seeds", _seeds(group)),
            ("sessions", _sessions(group)),
            ("audit", _audit(group, audited)),
        )
    )


_Found = tuple[State, str]


def _version(group: RunGroup) -> _Found:
    if not group.records:
        return State.unknown, "no run has a record"
    versions = sorted({record.report.bench_version for record in group.records} | {group.version})
    if versions == [FIRST]:
        return State.canonical, "version 1, as published"
    return State.difference, f"version {listed([version.removeprefix('v') for version in versions])}"


def _data(group: RunGroup) -> _Found:
    of = pluralize(len({record.competition_id for record in group.records}), "competition")
    digests = Counter(record.data.get("answers") for record in group.records)
    by_state = {
        state: sorted({r.competition_id for r in group.records if r.data_verified is state}) for state in (False, None)
    }
    several = [
        id
        for id in sorted({record.competition_id for record in group.records})
        if len({tuple(sorted(r.data.items())) for r in group.records if r.competition_id == id}) > 1
    ]
    if twins := {record.competition_id for record in group.records if record.twin}:
        return State.difference, f"{TWIN_DATA}: {len(twins)} of {of}"
    if by_state[False]:
        return State.difference, f"not the reference's (synthetic, or changed): {len(by_state[False])} of {of}"
    if several:
        return State.difference, f"runs of the same competition had different data: {_few(several)}"
    if by_state[None] or not group.records:
        return State.unknown, f"never compared with the reference's checksums: {len(by_state[None])} of {of}"
    if None in digests:
        return State.unknown, f"verified, but digests were not recorded of {pluralize(digests[None], 'run')}"
    return State.canonical, f"verified against checksums where the reference has them: {of}"


def _description(group: RunGroup) -> _Found:
    kinds = {record.description for record in group.records}
    if not kinds or None in kinds:
        return State.unknown, "which description agents read was not recorded"
    words = {
        "bundled": "our own words in place of the competition's pages",
        "obfuscated": "obfuscated: our own words, which hide the name of the competition",
    }
    if different := [text for kind, text in words.items() if kind in kinds]:
        return State.difference, listed(different)
    return State.canonical, "the competition's own pages"


def _time(group: RunGroup) -> _Found:
    limits = [record.limits.get("time_limit") for record in group.records]
    known = sorted({float(limit) for limit in limits if isinstance(limit, int | float) and math.isfinite(limit)})
    if not known or not all(isinstance(limit, int | float) and math.isfinite(limit) for limit in limits):
        return State.unknown, "the time limit of some runs was not recorded"
    shown = listed([format_duration(limit) for limit in known])
    if known == [TIME_LIMIT]:
        return State.canonical, shown
    return State.difference, f"{shown} instead of {format_duration(TIME_LIMIT)}"


def setting_differences(group: RunGroup) -> Canonical | None:
    """How limits and machines of the group's sessions differ from the canonical ones, computed again.

    None where the manifest does not say them.
    """
    noted = group.manifest.settings.get("limits")
    sessions = group.manifest.sessions
    if (
        not isinstance(noted, dict)
        or not sessions
        or any(session.hardware is None or session.workers < 1 for session in sessions)
    ):
        return None
    try:
        limits = parse(Limits, noted)
    except ValueError:
        return None
    if not math.isfinite(limits.time_limit):
        return None
    sandboxes = {str(own.get("sandbox", "")) for own in group.manifest.settings.get("agents", {}).values()}
    found: list[str] = []
    for session in sessions:
        if session.hardware is not None:
            found += canonical_differences(limits, session.hardware, workers=session.workers, sandboxes=sandboxes)
    return Canonical.of_all(None, found)


def _hardware(group: RunGroup) -> _Found:
    canonical = setting_differences(group) or group.manifest.canonical
    if canonical is None:
        return State.unknown, "the manifest does not say which machines the runs had"
    words = ("processor", "memory", "GPU", "container", "CPU")
    different = [text for text in canonical.differences if any(word in text for word in words)]
    return (State.difference, "; ".join(different)) if different else (State.canonical, "36 vCPU, 440 GB, one A10")


def _network(group: RunGroup) -> _Found:
    policies = {record.sandbox.network for record in group.records if record.sandbox.name}
    if not policies or "" in policies:
        return State.unknown, "the network policy of some runs was not recorded"
    hosts = {made.host for record in group.records for made in record.sandbox.connections if made.allowed}
    refused = sum(not made.allowed for record in group.records for made in record.sandbox.connections)
    more = f"; {pluralize(len(hosts), 'host')} reached, {pluralize(refused, 'connection')} refused"
    if policies <= set(_ENFORCED):
        return State.canonical, f"nothing but models could be reached ({listed(sorted(policies))}){more}"
    if "full" in policies:
        return State.difference, f"runs could reach the open network{more}"
    return State.unknown, "not enforced: what runs reached is not known"


def _asked(group: RunGroup) -> bool:
    return any(record.llm for record in group.records)


def _past_gateway(group: RunGroup) -> list[RunRecord]:
    """Runs that could reach models on their own: without a gateway, or on a network that was not confined."""
    return [
        record for record in group.records if record.usage.gateway == "off" or record.sandbox.network not in _ENFORCED
    ]


def _models(group: RunGroup) -> _Found:
    calls: Counter[str] = Counter()
    for record in group.records:
        calls.update(record.models_called)
    shown = _few([f"{name} ({pluralize(count, 'call')})" for name, count in calls.most_common()])
    if any(record.usage.gateway == "replay" or record.usage.replayed for record in group.records):
        return State.difference, "answers of models are from a recording"
    if past := _past_gateway(group):
        through = f"; through it: {shown}" if calls else ""
        return State.unknown, f"{pluralize(len(past), 'run')} could call models on their own, past the gateway{through}"
    return State.canonical, shown or "none"


def _provider_tools(group: RunGroup) -> _Found:
    if group.manifest.settings.get("allow_provider_tools"):
        return State.difference, "tools that providers run, such as web search, were allowed"
    if _past_gateway(group):
        return State.unknown, "agents could reach providers past the gateway"
    withheld: Counter[str] = Counter()
    for record in group.records:
        withheld.update(record.usage.withheld)
    if withheld:
        return State.canonical, f"withheld: {_few([f'{name} × {n}' for name, n in withheld.most_common()])}"
    return State.canonical, "none was used" if _asked(group) else "no model was called"


def _feedback(group: RunGroup) -> _Found:
    if any(not record.sandbox.name for record in group.records if record.outcome is not Outcome.error):
        return State.unknown, "what agents were told about their submissions was not recorded"
    if any(record.sandbox.name == "local" for record in group.records):
        return State.unknown, "no container kept the agents from the answers on the same machine"
    most = max((len(record.sandbox.validations) for record in group.records), default=0)
    points = sum(bool(record.timeline) for record in group.records)
    graded = f"; snapshots of {pluralize(points, 'run')} were graded after their end" if points else ""
    return State.canonical, f"none: the checker sees no answers (at most {pluralize(most, 'check')} in a run){graded}"


def _external(group: RunGroup) -> _Found:
    opened = {made.host for r in group.records for made in r.sandbox.connections if made.allowed}
    if any(record.sandbox.network == "full" for record in group.records):
        return State.difference, f"runs could fetch data and weights ({pluralize(len(opened), 'host')} reached)"
    if not group.records or any(record.sandbox.network not in _ENFORCED for record in group.records):
        return State.unknown, "the network was not confined, so what runs fetched is not known"
    if _asked(group):
        return State.unknown, "what the models knew of the competitions was not measured"
    return State.canonical, "no network, no models"


def _familiarity(group: RunGroup) -> _Found:
    """Whether scores follow what a base model knows of the competitions' texts."""
    try:
        found = measured(group.folder)
    except (OSError, ValueError):
        return State.unknown, "what was measured cannot be read"
    if not found:
        return State.unknown, "not measured: see `mlebench familiarity`"
    shown = [(own, one) for own in found for one in own.correlations]
    if not shown:
        return State.unknown, "measured, but no agent has scores on enough competitions"
    detail = _few(f"{one.agent} with {own.model}: {in_words(one)}" for own, one in shown)
    if ours := sum(own.own_descriptions or 0 for own in found):
        return State.unknown, f"{detail}; {pluralize(ours, 'text')} read were our own, which no model was trained on"
    if any(one.low > 0 for _, one in shown):
        return State.difference, f"scores are higher where a model knows the texts ({detail})"
    if all(-1 <= one.low <= one.r <= one.high < _STRONG for _, one in shown):
        return State.canonical, f"scores do not follow what a model knows of the texts ({detail})"
    return State.unknown, f"too few competitions to tell ({detail})"


def _seeds(group: RunGroup) -> _Found:
    results = {key for key, record in group.runs.items() if record.outcome is not Outcome.error}
    missing = len(group.planned - results)
    seeds: dict[tuple[str, str], set[int]] = {}
    for key in group.planned | group.runs.keys():
        seeds.setdefault((key.agent, key.competition_id), set()).add(key.seed)
    if missing:
        return State.difference, f"{missing} of {pluralize(len(group.planned), 'planned run')} without a result"
    if len({frozenset(own) for own in seeds.values()}) > 1:
        return State.difference, "not every competition was run with the same seeds"
    if not group.manifest.keys:
        return State.unknown, "which runs were planned was not recorded"
    count = min(map(len, seeds.values()), default=0)
    complete = f"{pluralize(count, 'seed')}, all complete"
    return (State.canonical if count >= _ENOUGH_SEEDS else State.difference), complete


def _sessions(group: RunGroup) -> _Found:
    if not group.manifest.sessions:
        return State.unknown, "the sessions were not recorded"
    changed = [text for session in group.manifest.sessions for text in session.changes]
    if changed:
        return State.difference, f"settings were changed between sessions: {_few(changed)}"
    return State.canonical, "all runs had the same settings"


def _audit(group: RunGroup, audited: Findings | None) -> _Found:
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


def _few(names: Iterable[str]) -> str:
    shown = list(_first(names, _NAMED + 1))
    return ", ".join(shown if len(shown) <= _NAMED else [*shown[:_NAMED], "…"])


def _first(names: Iterable[str], number: int) -> Iterator[str]:
    for count, name in enumerate(names):
        if count == number:
            return
        yield name[:128]


class Result(StrEnum):
    """What checking the files came to, the best result first."""

    verified = "agrees"
    unchecked = "cannot be checked"
    differs = "differs"


@dataclass(frozen=True)
class Check:
    """One line of the card: what was checked, and each reason why it differs or cannot be checked."""

    name: str
    result: Result
    detail: str
    reasons: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, name: str, wrong: Iterable[str], detail: str, *, unchecked: str = "", lacking: Iterable[str] = ()
    ) -> Check:
        """The result, by what is ``wrong``; ``unchecked`` says why it cannot be checked, ``lacking`` for what."""
        if differences := tuple(wrong):
            return cls(name, Result.differs, pluralize(len(differences), "difference"), differences)
        return (
            cls(name, Result.unchecked, unchecked, tuple(lacking)) if unchecked else cls(name, Result.verified, detail)
        )


@dataclass(frozen=True, kw_only=True)
class Card:
    """What is known of a bundle. ``profile`` is empty and ``findings`` is None where its group cannot be read.

    ``findings`` are those of the audit that verifying runs itself, ``warnings`` stand above everything else, and
    ``not_checked`` names every claim of the bundle that was not, or cannot be, checked.
    """

    run_group: str
    digest: str
    checks: tuple[Check, ...]
    left_out: tuple[str, ...]
    profile: tuple[ProfileLine, ...]
    findings: Findings | None = None
    warnings: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()

    @property
    def result(self) -> Result:
        """The worst of all checks."""
        return max((check.result for check in self.checks), key=list(Result).index)

    @property
    def violations(self) -> int:
        """Runs with a violation."""
        return 0 if self.findings is None else sum(v is Verdict.violation for v in self.findings.verdicts.values())

    @property
    def verdict(self) -> str:
        """In one word: ``differs``, ``cannot be checked``, ``violations``, ``look`` or ``verified``."""
        if self.result is not Result.verified:
            return self.result.value
        found = set() if self.findings is None else set(self.findings.verdicts.values())
        return "violations" if self.violations else "look" if Verdict.look in found else "verified"

    @property
    def headline(self) -> str:
        """What a reader must know, for example ``files are consistent and scores reproduce; 3 of 3 runs have
        violations``."""
        own = [check.name for check in self.checks if check.result is self.result]
        if self.result is Result.verified:
            files = "files are consistent and scores reproduce"
        else:
            files = f"{self.result} ({', '.join(own) if len(own) < 4 else f'{len(own)} checks'})"
        audited = "not audited" if self.findings is None else of_verdicts(self.findings.verdicts.values())
        return f"{files}; {audited}"
