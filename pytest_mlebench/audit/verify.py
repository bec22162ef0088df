"""Verifying a bundle: every number that can be computed again is, and what the files say of each other must agree.

Whoever made a bundle could write its index anew after a change. What then still shows the change is that the submission
does not have the score, the ledger does not have the model, or the manifest not the limit. A change that is consistent
in all files at once shows only by the signature, or by the digest that was published.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_mlebench.audit.bundle import MADE_BY, MISSING_RUNS, TABLES, UNIQUE_KEYS, Bundle
from pytest_mlebench.audit.card import Card, Check, Result
from pytest_mlebench.audit.profile import ProfileLine, fairness_profile, setting_differences
from pytest_mlebench.audit.regrade import Regrader, differences, same_score
from pytest_mlebench.audit.signing import check as check_signature
from pytest_mlebench.audit.verify_claims import claims
from pytest_mlebench.catalog.competition import VERSIONS
from pytest_mlebench.data.verification import fingerprint
from pytest_mlebench.errors import UsageError, reason
from pytest_mlebench.json_values import loads
from pytest_mlebench.llm.ledger import CALLS, MAX_CALLS_BYTES, read_calls
from pytest_mlebench.llm.trajectory import TRAJECTORY
from pytest_mlebench.runs.group import RunGroup, read_group
from pytest_mlebench.runs.layout import RECORD, SUBMISSION
from pytest_mlebench.runs.manifest import Canonical, Manifest, model_differences
from pytest_mlebench.runs.record import RunRecord
from pytest_mlebench.runs.timeline import read_validation_score
from pytest_mlebench.units import pluralize

_MAX_JSON_BYTES = 64 << 20
_SLACK_SECONDS = 120.0
"""A run's own clock and those of its record are not the same."""
_SLACK_SHARE = 0.05
"""Of the time limit: ending an agent and collecting what it left takes a while."""
_TOLERANCE = 1e-6

Files = Callable[[RunGroup], Mapping[str, Any]]
"""What a group's own JSON files, by name, must hold according to its records."""


def verify(
    bundle: Bundle,
    regrader: Callable[[str], Regrader],
    *,
    files: Files,
    digest: str | None = None,
    allowed_signers: Path | None = None,
) -> Card:
    """Check an unpacked bundle with this machine's data.

    ``regrader`` makes that of a version of the benchmark, ``files`` computes the group's reports and tables, ``digest``
    is what the bundle's must be. Raises UsageError for what the caller got wrong.
    """
    checks = list(_origin(bundle, digest, allowed_signers))
    profile: tuple[ProfileLine, ...] = ()
    try:
        group = _read(bundle)
        found = list(_group_checks(bundle, group, regrader, files))
        profile = fairness_profile(group)
    except UsageError as error:
        checks.append(Check("records", Result.differs, "cannot be read", (str(error),)))
    except _STRANGE as error:  # values of the right type that no session writes
        checks.append(Check("records", Result.differs, "cannot be read", (f"{type(error).__name__}: {error}"[:300],)))
    else:
        checks += found
    left_out = tuple(f"{own.what}: {own.files} ({own.why})" for own in bundle.index.left_out)
    return Card(
        run_group=bundle.index.run_group, digest=bundle.digest, checks=tuple(checks), left_out=left_out, profile=profile
    )


_STRANGE = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError)


def _read(bundle: Bundle) -> RunGroup:
    """The group of a bundle, whose records are where they say they are. Raises UsageError, and ValueError."""
    own = [
        e for e in bundle.index.files if e.path.endswith(".json") and e.path.count("/") == e.path.endswith(f"/{RECORD}")
    ]
    if large := [entry.path for entry in own if entry.size > _MAX_JSON_BYTES]:
        raise ValueError(f"{large[0]} is larger than any record")
    for entry in own:
        _see_one_meaning(bundle.folder / entry.path)
    group = read_group(bundle.folder)
    if group.version not in VERSIONS:
        raise ValueError(f"there is no version {group.version[:20]!r} of the benchmark")
    folders = {path.parent.name for path in bundle.folder.glob(f"*/{RECORD}")}
    if elsewhere := [record.run_id for record in group.records if record.run_id not in folders]:
        raise ValueError(f"the record of the run {elsewhere[0][:100]!r} is in the folder of another")
    return group


def _see_one_meaning(path: Path) -> None:
    """Raises ValueError for JSON in which a key comes twice: readers would take different values from it."""
    try:
        loads(path.read_bytes(), decoder=UNIQUE_KEYS)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error


def _group_checks(
    bundle: Bundle, group: RunGroup, regrader: Callable[[str], Regrader], files: Files
) -> Iterator[Check]:
    graders = regrader(group.version)
    yield _check("records", _records(bundle, group, graders), pluralize(len(group.records), "run"))
    yield _check("settings", _settings(group), "limits, agents, images, data and models agree with the records")
    yield _models(bundle, group)
    yield _check("data", _data(group, graders), "digests and verification are those of this machine's data")
    check, again = _grades(bundle, group, graders)
    yield check
    yield _tables(bundle, group, again, files)
    yield from claims(bundle, group, regrader)


def _check(name: str, found: Iterable[str], detail: str) -> Check:
    reasons = tuple(found)
    if reasons:
        return Check(name, Result.differs, pluralize(len(reasons), "difference"), reasons)
    return Check(name, Result.verified, detail)


def _origin(bundle: Bundle, digest: str | None, allowed_signers: Path | None) -> Iterator[Check]:
    count = pluralize(len(bundle.index.files), "file")
    if digest is not None and digest.lower() != bundle.digest:
        yield Check("index", Result.differs, "its digest is not the one that was given", (f"given: {digest}",))
    else:
        yield Check("index", Result.verified, f"{count}, each with the SHA-256 that the index says")
    if bundle.signature is not None:
        signature = check_signature(bundle.content, bundle.signature, allowed_signers)
        yield Check("signature", Result.verified if signature.is_good else Result.differs, signature.text)
    elif allowed_signers is not None:
        yield Check("signature", Result.differs, "it is not signed, and --allowed-signers asks for a signature")


def _records(bundle: Bundle, group: RunGroup, graders: Regrader) -> Iterator[str]:
    yield from (f"left out: {why}" for why in group.broken)
    recorded = {path.parent.name for path in bundle.folder.glob(f"*/{RECORD}")}
    if not group.manifest.keys:
        yield "the manifest does not say which runs were planned"
    for key in sorted(group.runs.keys() - group.planned):
        yield f"{_key(key)}: this run was not planned"
    for entry in bundle.index.files:
        run_dir, _, inside = entry.path.partition("/")
        if inside and run_dir not in recorded and inside.startswith(("submission/", "code/", "run.log")):
            yield f"{run_dir}: it left files, and has no record"
            recorded.add(run_dir)
    missing = group.planned - group.runs.keys()
    if len(missing) != sum(own.files for own in bundle.index.left_out if own.what == MISSING_RUNS):
        yield from (f"{_key(key)}: planned, and has no record" for key in sorted(missing))
    for record in group.records:
        yield from (f"{record.run_id}: {why}" for why in _record(record, bundle, group, graders))


def _key(key: Any) -> str:
    return f"{key.agent} on {key.competition_id}, seed {key.seed}"


def _record(record: RunRecord, bundle: Bundle, group: RunGroup, graders: Regrader) -> Iterator[str]:
    run_dir = bundle.folder / record.run_id
    raw = loads((run_dir / RECORD).read_bytes())
    written = json.loads(json.dumps(record.to_json()))
    for name in ("outcome", "last_change"):
        if isinstance(raw, dict) and name in raw and raw[name] != written[name]:
            yield f"{name.replace('_', ' ')} is {raw[name]!r:.100} and follows to be {written[name]!r:.100}"
    if record.run_group != bundle.index.run_group or group.manifest.run_group not in ("", record.run_group):
        yield f"it is of the run group {record.run_group[:100]!r}"
    if record.report.competition_id != record.competition_id:
        yield f"its grade is one of {record.report.competition_id[:100]}"
    if record.competition_id in graders.catalogue:
        competition = graders.catalogue[record.competition_id]
        if (record.split, record.category) != (competition.split_label, competition.category):
            yield f"it counts for {record.split[:50]} / {record.category[:50]}, which the competition is not of"
    try:
        lasted = datetime.fromisoformat(record.ended_at) - datetime.fromisoformat(record.started_at)
    except (ValueError, TypeError):
        yield "its times are none"
    else:
        if not 0 <= record.seconds <= lasted.total_seconds() + _SLACK_SECONDS:
            yield f"it took {record.seconds:g} s between times that are {lasted.total_seconds():g} s apart"
        limit = record.limits.get("time_limit")
        if isinstance(limit, int | float) and record.seconds > limit + max(_SLACK_SECONDS, _SLACK_SHARE * limit):
            yield f"it took {record.seconds:g} s with a time limit of {limit:g} s"
        if any(point.seconds > record.seconds + _SLACK_SECONDS for point in record.timeline):
            yield f"it took {record.seconds:g} s, and its timeline is longer"
    if (found := read_validation_score(run_dir)) != record.validation_score and _has(bundle, "submissions"):
        yield f"the agent expected the score {found}, and the record says {record.validation_score}"


def _has(bundle: Bundle, kind: str) -> bool:
    """Whether a kind of file was not left out by choice."""
    return all(own.what != kind for own in bundle.index.left_out)


def _settings(group: RunGroup) -> Iterator[str]:
    manifest = group.manifest
    changed = any(session.changes for session in manifest.sessions)
    limits = manifest.settings.get("limits")
    agents = manifest.settings.get("agents", {})
    for record in group.records:
        if limits is not None and not changed and dict(record.limits) != limits:
            yield f"{record.run_id}: its limits are not those of the manifest"
        noted = agents.get(record.agent)
        own = record.agent_definition
        if agents and noted is None:
            yield f"{record.run_id}: the manifest does not know its agent {record.agent[:100]}"
        elif noted is not None and not changed:
            wrong = sorted(name for name in noted.keys() & own.keys() if noted[name] != own[name])
            yield from (f"{record.run_id}: {name} of its agent is not that of the manifest" for name in wrong)
        if own and own.get("id") != record.agent:
            yield f"{record.run_id}: its agent is defined as {str(own.get('id'))[:100]!r}"
        if record.report.bench_version != group.version:
            yield f"{record.run_id}: it is of version {record.report.bench_version[:20]} of the benchmark"
    bare = replace(manifest, images={}, connections={}, data={}, models={})
    told = bare.summarised(group.records)
    yield from _contained("images", told.images, manifest.images, manifest)
    yield from _contained("connections", told.connections, manifest.connections, manifest)
    yield from _contained("data", told.data, manifest.data, manifest)
    if _is_closed(manifest) and {a: dict(o) for a, o in manifest.models.items()} != told.models:
        yield f"models: the manifest has {_counts(manifest.models)}, and the records have {_counts(told.models)}"
    if any(session.workers < 1 for session in manifest.sessions):
        yield "sessions: one had no worker"
    found = setting_differences(group)
    if found is not None and manifest.canonical is not None and not changed:
        every = Canonical.of_all(found, model_differences(manifest.settings))
        if set(every.differences) != set(manifest.canonical.differences):
            yield "canonical: what the manifest says of the setting does not follow from its limits and machines"
        if manifest.canonical.is_canonical != (not every.differences):
            yield "canonical: the manifest's verdict on the setting does not follow from its limits and machines"


def _is_closed(manifest: Manifest) -> bool:
    return bool(manifest.sessions) and manifest.sessions[-1].ended_at is not None


def _contained(
    name: str, told: Mapping[str, Mapping[str, Any]], noted: Mapping[str, Mapping[str, Any]], manifest: Manifest
) -> Iterator[str]:
    """What records say and a manifest does not; of an interrupted group the manifest may know less."""
    if not _is_closed(manifest):
        return
    for key, own in told.items():
        if any(noted.get(key, {}).get(inner) != value for inner, value in own.items()):
            yield f"{name}: what the manifest says of {key[:100]} is not what its records say"


def _counts(models: Mapping[str, Mapping[str, int]]) -> str:
    total: Counter[str] = Counter()
    for own in models.values():
        total.update(own)
    return ", ".join(f"{name[:60]} × {count}" for name, count in sorted(total.items())[:5]) or "none"


def _models(bundle: Bundle, group: RunGroup) -> Check:
    """The ledgers against what the records say of models."""
    asked = [record for record in group.records if record.llm.get("calls")]
    if not _has(bundle, "ledgers"):
        detail = "the ledgers were left out" if asked else "no run called a model"
        return Check("models", Result.unchecked if asked else Result.verified, detail)
    wrong, lacking = [], []
    for record in group.records:
        path = bundle.folder / record.run_id / CALLS
        if not path.is_file() or path.stat().st_size > MAX_CALLS_BYTES:
            if record.llm.get("calls"):
                lacking.append(f"{record.run_id}: it has no ledger of its calls")
            continue
        calls = read_calls(path.parents[1])
        called, cost = _ledger(calls)
        if unknown := _steps_without_call(path.parents[1], calls):
            wrong.append(f"{record.run_id}: its trajectory has the call {unknown[0]}, which its ledger has not")
        if called != Counter(record.models_called):
            told = _counts({"": dict(called)})
            wrong.append(
                f"{record.run_id}: its ledger has {told}, and its record {_counts({'': record.models_called})}"
            )
        known = record.llm.get("known_cost") or 0.0
        if not abs(cost - known) <= _TOLERANCE * max(1.0, abs(cost)):  # NaN is no cost
            wrong.append(f"{record.run_id}: its ledger's calls cost ${cost:.6f}, and its record says ${known:.6f}")
    if wrong:
        return Check("models", Result.differs, pluralize(len(wrong), "difference"), tuple(wrong))
    if lacking:
        return Check("models", Result.unchecked, "calls were not recorded", tuple(lacking))
    return Check("models", Result.verified, f"ledgers of {pluralize(len(asked), 'run')} have the calls of the records")


def _steps_without_call(run_dir: Path, calls: Iterable[Mapping[str, Any]]) -> list[int]:
    """The numbers of calls that a run's trajectory has, and its ledger has not."""
    path = run_dir / TRAJECTORY
    if not path.is_file() or path.stat().st_size > _MAX_JSON_BYTES:
        return []
    known = {call.get("number") for call in calls}
    trajectory = loads(path.read_bytes())
    found = set()
    for step in trajectory.get("steps") or () if isinstance(trajectory, dict) else ():
        extra = step.get("extra") if isinstance(step, dict) else None
        number = extra.get("call") if isinstance(extra, dict) else None
        if isinstance(number, int) and number not in known:
            found.add(number)
    return sorted(found)


def _ledger(calls: Iterable[Mapping[str, Any]]) -> tuple[Counter[str], float]:
    """Answered calls by model, and what they cost, as ``llm.ledger.Totals`` counts them."""
    models: Counter[str] = Counter()
    cost = 0.0
    for call in calls:
        status = call.get("status")
        if call.get("kind") not in ("generate", "embed") or not isinstance(status, int) or status >= 400:
            continue
        name = str(call.get("answered_model") or call.get("model"))[:128]
        models[name if name in models or len(models) < 100 else "others"] += 1
        own = call.get("cost")
        cost += own if isinstance(own, int | float) else 0.0
    return models, cost


def _data(group: RunGroup, graders: Regrader) -> Iterator[str]:
    for record in group.records:
        dataset = graders.dataset(record.competition_id)
        if dataset is None or not record.data or dict(record.data) != fingerprint(dataset):
            continue
        here = dataset.is_verified
        if here is not None and record.data_verified is not None and here is not record.data_verified:
            yield f"{record.run_id}: data_verified is {record.data_verified}, and with the same data here {here}"


def _grades(bundle: Bundle, group: RunGroup, graders: Regrader) -> tuple[Check, RunGroup | None]:
    """Every submission and every snapshot graded anew, and the group with these grades; None if some have none."""
    wrong: list[str] = []
    lacking: list[str] = []
    again: list[RunRecord] = []
    snapshots = 0
    for record in group.records:
        run_dir = bundle.folder / record.run_id
        there = (run_dir / SUBMISSION).is_file()
        if record.report.submission_exists and not there and not _has(bundle, "submissions"):
            lacking.append(f"{record.run_id}: its submission was left out")
            continue
        if (obstacle := graders.obstacle(record)) is not None:
            lacking.append(f"{record.run_id}: {obstacle}")
            continue
        report = graders.submission(record, run_dir)
        again.append(replace(record, report=replace(report, submission_path=record.report.submission_path)))
        found = differences(record.report, report)
        if found and "grading takes" in f"{record.report.error}{report.error}":
            lacking.append(f"{record.run_id}: {report.error or record.report.error}, which depends on the machine")
        else:
            wrong += [f"{record.run_id}: {text}" for text in found]
        for number, text in _timeline(record, run_dir, graders):
            snapshots += number
            wrong += [f"{record.run_id}: {text}"] if text else []
    detail = f"{pluralize(len(again), 'submission')} graded anew, {pluralize(snapshots, 'snapshot')} too"
    if wrong:
        check = Check("grades", Result.differs, pluralize(len(wrong), "difference"), tuple(wrong))
    elif lacking or not group.records:
        check = Check("grades", Result.unchecked, f"{len(lacking)} of {len(group.records)} runs", tuple(lacking))
    else:
        check = Check("grades", Result.verified, detail)
    return check, None if lacking else replace(group, records=tuple(again))


def _timeline(record: RunRecord, run_dir: Path, graders: Regrader) -> Iterator[tuple[int, str]]:
    """For each point of a run's timeline that has a file: 1, and how its grade differs, if it does."""
    for point in record.timeline:
        parts = Path(point.file).parts
        if not parts or parts[0] not in ("snapshots", "submission") or ".." in parts:
            yield 0, f"its timeline has the file {point.file[:100]!r}"
            continue
        path = run_dir / point.file
        if not path.is_file() or (point.error or "").startswith("not graded"):
            continue
        report = graders.grade(record, path)
        same = same_score(point.score, report.score) and point.medal == report.medal
        yield 1, "" if same else f"after {point.seconds:g} s its score was {point.score}, and is {report.score}"
    final = [point for point in record.timeline if point.final]
    if final and not same_score(final[-1].score, record.score):
        yield 0, "the end of its timeline is not its score"


def _tables(bundle: Bundle, group: RunGroup, again: RunGroup | None, files: Files) -> Check:
    wrong = []
    for recomputed in (group, *([again] if again is not None else [])):
        for name, values in files(recomputed).items():
            path = bundle.folder / name
            if not path.is_file():
                continue
            try:
                told = loads(path.read_bytes())
            except (OSError, ValueError) as error:
                wrong.append(f"{name} cannot be read: {reason(error)}")
                continue
            if bundle.index.made_by != MADE_BY:  # another version may know other columns
                values = _common(values, told)
                told = _common(told, values)
            found = next(_unequal(told, loads(json.dumps(values)), ""), None)
            if found is not None:
                wrong.append(f"{name}: {found}")
    lost = [name for name in (TABLES,) if not (bundle.folder / name).is_file()]
    wrong += [f"{name} is missing" for name in lost]
    return _check("tables", dict.fromkeys(wrong), "reports, tables and statistics computed again are the same")


_IGNORED = ("created_at", "submission_path", "error")
"""When and where something was graded, and a text that may name a path."""


def _common(values: Any, other: Any) -> Any:
    """The values without the keys that the other ones lack."""
    if isinstance(values, Mapping) and isinstance(other, Mapping):
        return {key: _common(value, other[key]) for key, value in values.items() if key in other}
    if isinstance(values, list | tuple) and isinstance(other, list | tuple) and len(values) == len(other):
        return [_common(one, two) for one, two in zip(values, other, strict=True)]
    return values


def _unequal(told: Any, found: Any, path: str) -> Iterator[str]:
    """Where two JSON values differ."""
    if isinstance(told, Mapping) and isinstance(found, Mapping):
        for key in sorted(told.keys() | found.keys()):
            if key not in _IGNORED:
                yield from _unequal(told.get(key), found.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(told, Sequence) and isinstance(found, Sequence) and not isinstance(told, str):
        if len(told) != len(found):
            yield f"{path} has {len(told)} entries, and {len(found)} follow from the records"
        for number, (one, other) in enumerate(zip(told, found, strict=False)):
            yield from _unequal(one, other, f"{path}[{number}]")
    elif isinstance(told, float | int) and isinstance(found, float | int) and type(told) is not bool:
        if told != found and abs(told - found) > 2e-5 * max(1.0, abs(found)):
            yield f"{path} is {told}, and {found} follows from the records"
    elif told != found:
        yield f"{path} is {told!r:.100}, and {found!r:.100} follows from the records"
