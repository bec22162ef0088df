"""Verifies a bundle: recomputes its numbers, compares its files with each other, and audits its runs again.

Every claim is computed again from the evidence in the bundle, must agree with other claims, or is listed under ``not
checked``. A bundle cannot influence which. Data that was left out, or written by another version, cannot be checked,
which does not count as verified. ``docs/trust.md`` lists what no verification can find.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_mlebench import defaults
from pytest_mlebench.catalog.competition import VERSIONS, split_label
from pytest_mlebench.data.dataset import fingerprint
from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.audit.judge import FOLDER as JUDGE_FOLDER
from pytest_mlebench.extras.audit.programs import code_of
from pytest_mlebench.extras.bundles.bundle import MADE_BY, MISSING_RUNS, TABLES, UNIQUE_KEYS, Bundle
from pytest_mlebench.extras.bundles.bundle import check as check_signature
from pytest_mlebench.extras.bundles.card import Card, Check, CheckResult, not_checked
from pytest_mlebench.extras.bundles.claims import claims, why_not_graded
from pytest_mlebench.extras.bundles.verify_models import models
from pytest_mlebench.extras.bundles.verify_settings import settings
from pytest_mlebench.io.files import digest_of
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.io.values import as_object, loads
from pytest_mlebench.llm.trajectory import TRAJECTORY
from pytest_mlebench.records.group import RunGroup, runs_in_progress
from pytest_mlebench.records.outcome import Report, TimelinePoint
from pytest_mlebench.records.record import RECORD, SUBMISSION, RunRecord
from pytest_mlebench.results import read_group
from pytest_mlebench.results.findings import LOCAL, NOT_ISOLATED
from pytest_mlebench.results.profile import fairness_profile
from pytest_mlebench.runs.files import NOT_GRADED, FilesError, check_files, read_validation_score
from pytest_mlebench.runs.regrade import Regrader, differences, exceeded_limit, same_score
from pytest_mlebench.sandbox.collection import FOLDER as SNAPSHOTS

_MAX_JSON_BYTES = 64 << 20

Files = Callable[[RunGroup], Mapping[str, Any]]
"""Computes the expected content of a group's JSON files, by name, from its records."""


def verify(
    bundle: Bundle,
    regrader: Callable[[str], Regrader],
    *,
    files: Files,
    digest: str | None = None,
    allowed_signers: Path | None = None,
) -> Card:
    """Check an unpacked bundle with this machine's data.

    ``regrader`` returns the grader of a version of the benchmark, ``files`` computes the group's reports and tables,
    and ``digest`` is the expected one of the bundle. Raises UsageError for invalid arguments.
    """
    card = Card(
        run_group=bundle.index.run_group,
        digest=bundle.digest,
        checks=tuple(_origin(bundle, digest, allowed_signers)),
        left_out=tuple(f"{entry.what}: {entry.files} ({entry.why})" for entry in bundle.index.left_out),
        not_checked=tuple(not_checked(bundle, None)),
    )
    try:
        group = _read(bundle)
        graders = regrader(group.version)
        checks = list(_consistency(bundle, group, graders))
        same = "digests and verification match this machine's data"
        checks.append(Check.of("data", _data(group, graders), same))
        grades, again = _grades(bundle, group, graders)
        checks += [grades, _tables(bundle, group, again, files)]
        others, audited = claims(bundle, group, regrader)
        return replace(
            card,
            checks=(*card.checks, *checks, *others),
            profile=fairness_profile(group, audited),
            findings=audited,
            warnings=tuple(_warnings(group)),
            not_checked=tuple(not_checked(bundle, group)),
        )
    except _UNREADABLE as error:
        unread = Check("records", CheckResult.differs, "cannot be read", (_why(error),))
        return replace(card, checks=(*card.checks, unread))


def objections(bundle: Bundle, regrader: Callable[[str], Regrader], files: Files) -> list[str]:
    """Return why ``verify`` would reject a group that is to be packed, as far as this shows without grading again."""
    there = tuple(entry for entry in bundle.index.files if (bundle.folder / entry.path).is_file())
    bundle = replace(bundle, index=replace(bundle.index, files=there))
    try:
        group = _read(bundle)
        checks = list(_consistency(bundle, group, regrader(group.version)))
        checks.append(_tables(bundle, group, None, files, of_maker=True))
    except _UNREADABLE as error:
        return [_why(error)]
    return [f"{c.name}: {why}" for c in checks if c.result is CheckResult.differs for why in c.reasons]


def _warnings(group: RunGroup) -> Iterator[str]:
    """Yield the facts that a reader must know first."""
    local = sum(record.sandbox.name == LOCAL for record in group.records)
    if local:
        which = "" if local == len(group.records) else f" for {local} of {pluralize(len(group.records), 'run')}"
        yield f"local sandbox{which}: {NOT_ISOLATED}"
    silent = [r for r in group.records if not code_of(group.folder / r.run_id)[0]]
    silent = [record for record in silent if not (group.folder / record.run_id / TRAJECTORY).is_file()]
    if silent:
        of = pluralize(len(group.records), "run")
        yield f"{len(silent)} of {of} left neither code nor recorded model calls, so there was little to audit"
    if missing := len(group.planned - group.runs.keys()):
        yield f"{missing} of {pluralize(len(group.planned), 'planned run')} left no record"
    if any(session.changes for session in group.manifest.sessions):
        yield "settings were changed between the sessions of this group (--allow-changes)"


_UNREADABLE = (UsageError, ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError)
"""Errors of a group that cannot be read, or has values that no session writes."""


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"[:300]


def _read(bundle: Bundle) -> RunGroup:
    """Read a bundle's group, and check that each record is in its run's folder. Raises UsageError or ValueError."""
    entries = [
        e for e in bundle.index.files if e.path.endswith(".json") and e.path.count("/") == e.path.endswith(f"/{RECORD}")
    ]
    if large := [entry.path for entry in entries if entry.size > _MAX_JSON_BYTES]:
        raise ValueError(f"{large[0]} is larger than any record")
    for path in (bundle.folder / entry.path for entry in entries):
        try:
            loads(path.read_bytes(), decoder=UNIQUE_KEYS)
        except ValueError as error:
            raise ValueError(f"{path.name}: {error}") from error
    group = read_group(bundle.folder)
    if group.version not in VERSIONS:
        raise ValueError(f"there is no version {group.version[:20]!r} of the benchmark")
    folders = {path.parent.name for path in bundle.folder.glob(f"*/{RECORD}")}
    if elsewhere := [record.run_id for record in group.records if record.run_id not in folders]:
        raise ValueError(f"the record of the run {elsewhere[0][:100]!r} is in the folder of another run")
    return group


def _consistency(bundle: Bundle, group: RunGroup, graders: Regrader) -> Iterator[Check]:
    """Yield the checks that need neither data nor grading."""
    yield Check.of("records", _records(bundle, group, graders), pluralize(len(group.records), "run"))
    checked = Check.of(
        "settings",
        settings(group, bundle.index.made_at),
        "limits, agents, data, models and times agree with the records",
    )
    if (run_by := group.manifest.run_by) and checked.result is CheckResult.verified:
        why = f"the runs are from {run_by}, which records no sessions, limits or model calls to check"
        yield replace(checked, result=CheckResult.unchecked, detail="the runs were imported", reasons=(why,))
    else:
        yield checked
    if not run_by:
        yield models(bundle, group)


def _origin(bundle: Bundle, digest: str | None, allowed_signers: Path | None) -> Iterator[Check]:
    count = pluralize(len(bundle.index.files), "file")
    if digest is not None and digest.lower() != bundle.digest:
        found = f"you gave {digest}; the digest is not the SHA-256 of the file: `mlebench bundle` prints it"
        yield Check("index", CheckResult.differs, "it does not have the digest that you gave", (found,))
    else:
        yield Check("index", CheckResult.verified, f"{count}, each with the SHA-256 in the index")
    if bundle.signature is not None:
        is_good, text = check_signature(bundle.content, bundle.signature, allowed_signers)
        yield Check("signature", CheckResult.verified if is_good else CheckResult.differs, text)
    elif allowed_signers is not None:
        yield Check("signature", CheckResult.differs, "it is not signed, but --allowed-signers requires a signature")


def _records(bundle: Bundle, group: RunGroup, graders: Regrader) -> Iterator[str]:
    yield from (f"left out: {why}" for why in group.broken)
    recorded = {path.parent.name for path in bundle.folder.glob(f"*/{RECORD}")}
    interrupted = {run.run_dir.name for run in runs_in_progress(group.folder) if run.key in group.planned}
    if not group.manifest.keys:
        yield "the manifest does not say which runs were planned"
    if len(group.manifest.keys) != len(group.manifest.runs):
        yield "the manifest plans a run twice"
    for key in sorted(group.runs.keys() - group.planned):
        yield f"{_key(key)}: this run was not planned"
    for entry in bundle.index.files:
        run_dir, _, inside = entry.path.partition("/")
        if inside and run_dir not in recorded | interrupted and run_dir != JUDGE_FOLDER:
            yield f"{run_dir[:100]}: it left files, but has no record"
            recorded.add(run_dir)
    missing = group.planned - group.runs.keys()
    if len(missing) != sum(left.files for left in bundle.index.left_out if left.what == MISSING_RUNS):
        yield from (f"{_key(key)}: planned, but has no record" for key in sorted(missing))
    for record in group.records:
        yield from (f"{record.run_id}: {why}" for why in _record(record, bundle, group, graders))


def _key(key: Any) -> str:
    return f"{key.agent} on {key.competition_id}, seed {key.seed}"


def _record(record: RunRecord, bundle: Bundle, group: RunGroup, graders: Regrader) -> Iterator[str]:
    run_dir = bundle.folder / record.run_id
    raw = as_object(loads((run_dir / RECORD).read_bytes()))
    written = json.loads(json.dumps(record.to_json()))
    for name in ("outcome", "last_change"):
        if raw.get(name) != written[name]:
            yield f"{name.replace('_', ' ')} is {raw.get(name)!r:.100}, but the record implies {written[name]!r:.100}"
    if not record.run_id.startswith(record.key.run_prefix):
        yield f"its directory name does not match a run of {_key(record.key)}"
    if record.run_group != bundle.index.run_group or group.manifest.run_group != record.run_group:
        yield (
            f"it belongs to the run group {record.run_group[:100]!r}, but this is {bundle.index.run_group[:100]!r} "
            "(`mlebench groups --rename` renames a group)"
        )
    if record.report.competition_id != record.competition_id:
        yield f"its grade is for {record.report.competition_id[:100]}"
    if record.competition_id in graders.catalogue:
        competition = graders.catalogue[record.competition_id]
        label = split_label(competition.split, competition.version, is_twin=bool(record.twin))
        if (record.split, record.category) != (label, competition.category):
            yield f"it counts for {record.split[:50]} / {record.category[:50]}, but its competition does not"
    if (found := read_validation_score(run_dir)) != record.validation_score and not bundle.lacks("submissions"):
        yield f"the agent expected the score {found}, but the record says {record.validation_score}"
    try:
        check_files(run_dir)
    except FilesError as error:
        yield str(error).removeprefix(f"{run_dir}/")


def _data(group: RunGroup, graders: Regrader) -> Iterator[str]:
    for record in group.records:
        dataset = graders.dataset(record)
        if dataset is None or not record.data or dict(record.data) != fingerprint(dataset):
            continue
        here = dataset.is_verified
        if here is not None and record.data_verified is not None and here is not record.data_verified:
            yield f"{record.run_id}: data_verified is {record.data_verified}, but {here} with the same data here"
        if record.synthetic_data not in (None, dataset.is_synthetic):
            yield f"{record.run_id}: synthetic_data is {record.synthetic_data}, but not with the same data here"


def _grades(bundle: Bundle, group: RunGroup, graders: Regrader) -> tuple[Check, RunGroup | None]:
    """Grade all submissions and snapshots again. Also return the group with these grades; None if any is missing."""
    wrong: list[str] = []
    lacking: list[str] = []
    again: list[RunRecord] = []
    for record in group.records:
        run_dir = bundle.folder / record.run_id
        if (obstacle := why_not_graded(record, record.report, bundle, graders)) is not None:
            lacking.append(f"{record.run_id}: {obstacle}")
            continue
        report = graders.submission(record, run_dir)
        again.append(replace(record, report=report))
        found = [*differences(record.report, report), *_certainty(record.report, report)]
        if found and (slow := exceeded_limit(record.report) or exceeded_limit(report)):
            lacking.append(f"{record.run_id}: {slow}, which depends on the machine")
        else:
            wrong += [f"{record.run_id}: {text}" for text in found]
        for text, is_unknown in _timeline(record, run_dir, graders, bundle.lacks("snapshots")):
            (lacking if is_unknown else wrong).append(f"{record.run_id}: {text}")
    points = [point for record in group.records for point in record.timeline if not _is_ungraded(point)]
    detail = f"{pluralize(len(again), 'submission')} graded again, {pluralize(len(points), 'snapshot')} too"
    unknown = sum(any(text.startswith(f"{record.run_id}: ") for text in lacking) for record in group.records)
    unchecked = f"{unknown} of {pluralize(len(group.records), 'run')}" if lacking or not group.records else ""
    check = Check.of("grades", wrong, detail, unchecked=unchecked, lacking=lacking)
    return check, None if lacking else replace(group, records=tuple(again))


def _certainty(recorded: Report, found: Report) -> Iterator[str]:
    if recorded.firm is not found.firm:
        yield f"firm {recorded.firm}, now {found.firm}"
    for name in ("score_low", "score_high"):
        if not same_score(getattr(recorded, name), getattr(found, name)):
            yield f"{name.replace('_', ' ')} {getattr(recorded, name)}, now {getattr(found, name)}"


def _is_ungraded(point: TimelinePoint) -> bool:
    return (point.error or "").startswith(NOT_GRADED)


def _timeline(
    record: RunRecord, run_dir: Path, graders: Regrader, snapshots_left_out: bool
) -> Iterator[tuple[str, bool]]:
    """Yield differences between a run's timeline and its files. The flag is True if one merely cannot be checked."""
    named = set()
    graded: dict[tuple[str, str], Report] = {}
    if len(record.timeline) > defaults.SNAPSHOTS + 1:
        yield f"its timeline has {len(record.timeline):,} points, more than any session takes", False
        return
    for point in record.timeline:
        parts = Path(point.file).parts
        named.add(point.file)
        path = run_dir / point.file
        if not (point.file == SUBMISSION or (len(parts) == 2 and parts[0] == SNAPSHOTS)) or ".." in parts:
            yield f"its timeline has the unexpected file {point.file[:100]!r}", False
        elif not path.is_file():
            # Only a file that the bundle leaves out on purpose may be absent. Its grade is then unknown.
            left_out = snapshots_left_out and parts[0] == SNAPSHOTS
            yield f"{point.file[:100]} of its timeline {'was left out' if left_out else 'is missing'}", left_out
        elif _is_ungraded(point):
            if point.score is not None or point.medal is not None or point.final:
                yield f"after {point.seconds:g} s it was not graded, but has a grade", False
        else:
            content = digest_of(path), path.suffix
            report = graded[content] if content in graded else graders.grade(record, path)
            graded[content] = report
            slow = bool(exceeded_limit(point) or exceeded_limit(report))
            yield from ((f"after {point.seconds:g} s its {text}", slow) for text in _regraded(point, report))
    final = [point for point in record.timeline if point.final]
    ends = record.timeline[-1:] if record.report.submission_exists else ()
    if tuple(final) != ends:
        yield "its timeline does not end with its submission", False
    for point in final:
        path, submission = run_dir / point.file, run_dir / SUBMISSION
        if not same_score(point.score, record.score) or point.medal != record.report.medal:
            yield "the end of its timeline has another score or medal", False
        elif path.is_file() and submission.is_file() and digest_of(path) != digest_of(submission):
            yield "the end of its timeline is not its submission", False
    for path in sorted(run_dir.glob(f"{SNAPSHOTS}/*")):
        if f"{SNAPSHOTS}/{path.name}" not in named and path.name != ".partial":
            yield f"its timeline does not have the snapshot {path.name[:100]}", False


def _regraded(recorded: TimelinePoint, found: Report) -> Iterator[str]:
    if not same_score(recorded.score, found.score):
        yield f"score was {recorded.score}, now {found.score}"
    elif recorded.medal != found.medal:
        yield f"medal was {recorded.medal}, now {found.medal}"
    elif (recorded.error is None) != (found.error is None):
        yield f"error was {recorded.error!r:.100}, now {found.error!r:.100}"


def _tables(bundle: Bundle, group: RunGroup, again: RunGroup | None, files: Files, *, of_maker: bool = False) -> Check:
    """Compare reports and tables with recomputed ones. ``of_maker``: the group is being packed, without tables yet."""
    wrong, other = list[str](), list[str]()
    for recomputed in (group, *([again] if again is not None else [])):
        for name, values in files(recomputed).items():
            path = bundle.folder / name
            if not path.is_file():
                continue
            recorded, computed = loads(path.read_bytes()), loads(json.dumps(values))
            if bundle.index.made_by != MADE_BY:  # another version may know other columns
                common = _common(recorded, computed), _common(computed, recorded)
                if common != (recorded, computed):
                    other.append(f"{name}: only one of the two versions writes some of its values")
                recorded, computed = common
            found = next(_unequal(recorded, computed, ""), None)
            if found is not None:
                wrong.append(f"{name}: {found}")
    if not of_maker and not (bundle.folder / TABLES).is_file():
        wrong.append(f"{TABLES} is missing")
    unchecked = f"made by {bundle.index.made_by[:50]}, but this is {MADE_BY}" if other else ""
    same = "recomputed reports, tables and statistics are the same"
    return Check.of("tables", dict.fromkeys(wrong), same, unchecked=unchecked, lacking=dict.fromkeys(other))


_IGNORED = ("created_at", "submission_path", "error")
"""Keys that are not compared: when and where something was graded, and a text that may contain a path."""


def _common(values: Any, other: Any) -> Any:
    """Return the values without the keys that the other ones lack."""
    if isinstance(values, Mapping) and isinstance(other, Mapping):
        return {key: _common(value, other[key]) for key, value in values.items() if key in other}
    if isinstance(values, list | tuple) and isinstance(other, list | tuple) and len(values) == len(other):
        return [_common(one, two) for one, two in zip(values, other, strict=True)]
    return values


def _unequal(recorded: Any, found: Any, path: str) -> Iterator[str]:
    if isinstance(recorded, Mapping) and isinstance(found, Mapping):
        for key in sorted(recorded.keys() | found.keys()):
            if key not in _IGNORED:
                yield from _unequal(recorded.get(key), found.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(recorded, list) and isinstance(found, list):
        if len(recorded) != len(found):
            yield f"{path} has {len(recorded)} entries, but {len(found)} follow from the records"
        for number, (one, other) in enumerate(zip(recorded, found, strict=False)):
            yield from _unequal(one, other, f"{path}[{number}]")
    elif type(recorded) in (int, float) and type(found) in (int, float):  # bool is a subclass of int
        if not math.isclose(recorded, found, rel_tol=2e-5, abs_tol=2e-5):
            yield f"{path} is {recorded}, but {found} follows from the records"
    elif type(recorded) is not type(found) or recorded != found:
        yield f"{path} is {recorded!r:.100}, but {found!r:.100} follows from the records"
