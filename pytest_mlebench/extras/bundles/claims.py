"""Checks the claims of a bundle besides its results: later grades, an audit's findings, a model's familiarity.

The scanners always read the bundle's code, logs and calls, whether or not it contains an audit, and later grades are
computed again. Models are not asked again, and programs are not compared with notebooks again: these claims must follow
from the stored data. Claims without evidence in the bundle are listed each time (see ``card.not_checked``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from pytest_mlebench._version import __version__
from pytest_mlebench.catalog.competition import VERSIONS
from pytest_mlebench.errors import reason, unusable
from pytest_mlebench.extras.audit.evidence import Case, case_of
from pytest_mlebench.extras.audit.familiarity import correlation, scores
from pytest_mlebench.extras.audit.judge import FOLDER, MAX_VOTES, recount
from pytest_mlebench.extras.audit.judge import SCANNER as JUDGE
from pytest_mlebench.extras.audit.plagiarism import SCANNER as PLAGIARISM
from pytest_mlebench.extras.audit.run import runs_of
from pytest_mlebench.extras.audit.scanners import audit
from pytest_mlebench.extras.bundles.bundle import ODD_NAMES, Bundle
from pytest_mlebench.extras.bundles.card import Check, CheckResult
from pytest_mlebench.io.units import listed, pluralize
from pytest_mlebench.io.values import read_json
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.outcome import Report
from pytest_mlebench.records.record import RECORD, SUBMISSION, RunKey, RunRecord
from pytest_mlebench.results.findings import (
    Correlation,
    Finding,
    Findings,
    JudgeAccount,
    MeasuredModel,
    Verdict,
    measured,
    read_findings,
)
from pytest_mlebench.runs.regrade import REGRADED, Regrader, Regrading, changes, differences, exceeded_limit

_READ_BY_SCANNERS = ("submissions", "ledgers", "recordings", "trajectories", "code", "logs", ODD_NAMES)
_TOLERANCE = 1e-4


def claims(bundle: Bundle, group: RunGroup, regrader: Callable[[str], Regrader]) -> tuple[list[Check], Findings]:
    """Check the bundle's claims besides its results. Also return the findings of a new audit, which ignores any audit
    in the bundle."""
    graders = regrader(group.version)
    checks: list[Check] = []
    if paths := sorted(bundle.folder.glob(REGRADED)):
        checks.append(_regradings(paths, bundle, group, regrader))
    claimed: Findings | None = None
    try:
        claimed = read_findings(bundle.folder)
    except (OSError, ValueError) as error:
        checks.append(Check("audit", CheckResult.differs, "its findings cannot be read", (reason(error),)))
    cases: list[Case] = []
    readers = [] if claimed is None or claimed.judge is None else [lambda run: cases.append(case_of(run))]
    again = audit(runs_of(group, graders), *readers)
    checks.append(_audited(again, bundle, group, graders))
    if claimed is not None:
        checks += _audit(claimed, again, cases, bundle, group, graders)
    elif (bundle.folder / FOLDER).is_dir():
        checks.append(Check.of("judge", ["it has a judge's votes, but no audit"], ""))
    try:
        found = measured(bundle.folder)
    except (OSError, ValueError) as error:
        checks.append(Check("familiarity", CheckResult.differs, "the measurements cannot be read", (reason(error),)))
        return checks, again
    if found:
        wrong = [text for model in found for text in _familiarity(model, group, graders)]
        checks.append(Check.of("familiarity", wrong, "scores and correlations follow from the measurements"))
    return checks, again


def _audited(again: Findings, bundle: Bundle, group: RunGroup, graders: Regrader) -> Check:
    """Check that the scanners had all their input. Their findings set the card's verdict, not this result."""
    unread = _unread(bundle)
    if unknown := sorted({r.competition_id[:100] for r in group.records if graders.dataset(r) is None}):
        unread = unread or f"the data of {listed(unknown[:5])} is missing here"
    detail = f"the scanners read the files of {pluralize(len(again.runs), 'run')}"
    return Check.of("evidence", (), detail, unchecked=unread)


def _unread(bundle: Bundle) -> str:
    left_out = [entry.what for entry in bundle.index.left_out if entry.what in _READ_BY_SCANNERS]
    return f"scanner input was left out: {listed(left_out)}" if left_out else ""


def _regradings(paths: Sequence[Path], bundle: Bundle, group: RunGroup, regrader: Callable[[str], Regrader]) -> Check:
    wrong: list[str] = []
    lacking: list[str] = []
    count = 0
    for path in paths:
        try:
            claimed = read_json(path, Regrading)
        except (OSError, ValueError) as error:
            wrong.append(f"{path.name} cannot be read: {reason(error)}")
            continue
        count += len(claimed.runs)
        if claimed.run_group != group.name or claimed.bench_version not in VERSIONS:
            wrong.append(f"{path.name}: it is of another run group, or an unknown version of the benchmark")
            continue
        differ, lack = _regrading(claimed, bundle, group, regrader(claimed.bench_version))
        # Graders and their libraries change between versions, so grades may differ.
        same = claimed.versions.get("pytest-mlebench") == __version__
        (wrong if same else lacking).extend(f"{path.name}: {text}" for text in differ)
        lacking += [f"{path.name}: {text}" for text in lack]
    unchecked = "some cannot be graded again" if lacking else ""
    detail = f"{pluralize(count, 'submission')} graded again"
    return Check.of("later grades", wrong, detail, unchecked=unchecked, lacking=lacking)


def _regrading(claimed: Regrading, bundle: Bundle, group: RunGroup, graders: Regrader) -> tuple[list[str], list[str]]:
    """Return the differences in a group's later grades, and the runs that cannot be graded here."""
    wrong, lacking = list[str](), list[str]()
    records = {record.run_id: record for record in group.records}
    listed_runs = {run.run_id for run in claimed.runs} | claimed.not_graded.keys()
    for run_id in sorted(listed_runs - records.keys()):
        if not (bundle.folder / run_id / RECORD).is_file():  # the run may have been repeated since
            wrong.append(f"{run_id[:100]}: graded again, but not a run of the group")
    at = datetime.fromisoformat(claimed.regraded_at)
    for run_id, record in records.items():
        if run_id not in listed_runs and datetime.fromisoformat(record.ended_at) <= at:
            wrong.append(f"{run_id}: it had ended, but was not graded again")
    for run in claimed.runs:
        if run.run_id not in records:
            continue
        record = records[run.run_id]
        if RunKey(run.agent, run.competition_id, run.seed) != record.key or run.before != record.report:
            wrong.append(f"{run.run_id}: its first grade is not that of its record")
        if run.changes != changes(run.before, run.after):
            wrong.append(f"{run.run_id}: its changes do not follow from its grades")
        if (obstacle := why_not_graded(record, run.after, bundle, graders)) is not None:
            lacking.append(f"{run.run_id}: {obstacle}")
            continue
        report = graders.submission(record, bundle.folder / run.run_id)
        slow = exceeded_limit(run.after) or exceeded_limit(report)
        (lacking if slow else wrong).extend(f"{run.run_id}: {text}" for text in differences(run.after, report))
    return wrong, lacking


def why_not_graded(record: RunRecord, report: Report, bundle: Bundle, graders: Regrader) -> str | None:
    """Return why a submission with this ``report`` cannot be graded again; None if it can."""
    there = (bundle.folder / record.run_id / SUBMISSION).is_file()
    if report.submission_exists and not there and bundle.lacks("submissions"):
        return "its submission was left out"
    return graders.obstacle(record)


def _audit(
    claimed: Findings, again: Findings, cases: Sequence[Case], bundle: Bundle, group: RunGroup, graders: Regrader
) -> Iterator[Check]:
    """Compare an audit in the bundle with the new findings."""
    known = {record.run_id for record in group.records}
    wrong = [f"{run_id[:100]}: audited, but not a run of the group" for run_id in sorted(set(claimed.runs) - known)]
    noted = _counts(claimed.findings)
    for (run_id, scanner, verdict), count in sorted(_counts(again.findings).items()):
        if run_id in claimed.runs and count > noted[run_id, scanner, verdict]:
            wrong.append(f"{run_id}: {verdict} ({scanner}) is found again, but its audit does not have it")
    unread = _unread(bundle)
    detail = f"scanners find nothing more in {pluralize(len(claimed.runs), 'run')}"
    yield _found("audit", claimed, wrong, detail, unread)
    by_judge = [finding for finding in claimed.findings if finding.scanner == JUDGE]
    if claimed.judge is not None:
        if unknown := sorted(id for id in {r.competition_id for r in group.records} if graders.competition(id) is None):
            unread = unread or f"the competition {listed(unknown)} is missing here"
        # If anything that a judge read is missing here, none of its votes can be matched.
        wrong = [] if unread else list(_judge(claimed, claimed.judge, by_judge, cases, bundle.folder / FOLDER))
        yield _found("judge", claimed, wrong, "its findings follow from the stored votes", unread)
    elif by_judge or (bundle.folder / FOLDER).is_dir():
        yield Check.of("judge", ["it has votes or findings, but no account of the judge"], "")
    alike = [finding for finding in claimed.findings if finding.scanner == PLAGIARISM]
    if claimed.plagiarism is not None or alike:
        wrong = list(_plagiarism(claimed, alike))
        yield Check.of("plagiarism", wrong, "as many findings as its account says; nothing was compared again")


def _found(name: str, claimed: Findings, wrong: Sequence[str], detail: str, unread: str) -> Check:
    """Return the check of an audit. Differences from an audit by another version cannot be checked."""
    if claimed.version != __version__ and wrong:
        why = f"audited by version {claimed.version[:20]}, but this is {__version__}"
        return Check(name, CheckResult.unchecked, why, tuple(wrong))
    return Check.of(name, wrong, detail, unchecked=unread)


def _judge(
    claimed: Findings, account: JudgeAccount, noted: Sequence[Finding], cases: Sequence[Case], folder: Path
) -> Iterator[str]:
    if not 0 < account.votes <= MAX_VOTES:
        yield f"invalid number of votes on each part: {account.votes}"
        return
    try:
        again, incomplete = recount(account, [case for case in cases if case.run_id in claimed.runs], folder)
    except OSError as error:
        yield f"its votes cannot be read: {unusable(error)}"
        return
    for run_id in sorted(set(incomplete) - set(account.incomplete)):
        yield f"{run_id}: judged completely, but votes on parts of it are missing"
    counts, found = (Counter(map(_outcome, findings)) for findings in (noted, again))
    yield from (f"{run}: {text}, but no votes for it" for run, text in sorted((counts - found).keys()))
    yield from (f"{run}: {text}, but its audit does not have it" for run, text in sorted((found - counts).keys()))


def _outcome(finding: Finding) -> tuple[str, str]:
    """Return the run, the question and the votes of a finding, without the reason that one vote gave."""
    return finding.run_id, f"{finding.verdict}: {finding.text.partition(' votes): ')[0]}"


def _plagiarism(claimed: Findings, alike: Sequence[Finding]) -> Iterator[str]:
    counts = Counter(finding.run_id for finding in alike)
    noted = claimed.plagiarism.pairs if claimed.plagiarism is not None else {}
    for run_id in sorted(counts.keys() | (noted.keys() & set(claimed.runs))):
        if counts[run_id] != noted.get(run_id, 0):
            yield f"{run_id[:100]}: {pluralize(counts[run_id], 'finding')}, but {noted.get(run_id, 0)} were counted"


def _counts(findings: Iterable[Finding]) -> Counter[tuple[str, str, Verdict]]:
    return Counter((finding.run_id, finding.scanner, finding.verdict) for finding in findings)


def _familiarity(claimed: MeasuredModel, group: RunGroup, graders: Regrader) -> Iterator[str]:
    computed, _ = scores(group.records, graders.competition)
    stated = [(agent, one.competition_id, score) for one in claimed.competitions for agent, score in one.scores.items()]
    for agent, id, score in stated:
        value = computed.get(agent, {}).get(id)
        if value is None or not abs(value - score) <= _TOLERANCE:
            yield f"{claimed.model[:100]}: {agent[:100]} on {id[:100]}: {score}, but {value} follows from the records"
    by_agent = {one.agent: one for one in claimed.correlations}
    for agent in sorted({agent for agent, _, _ in stated} | by_agent.keys()):
        if not _is_same(by_agent.get(agent), correlation(agent, claimed.competitions)):
            yield f"{claimed.model[:100]}: the correlation of {agent[:100]} does not follow from the scores"


def _is_same(one: Correlation | None, other: Correlation | None) -> bool:
    if one is None or other is None:
        return one is other
    pairs = ((one.r, other.r), (one.low, other.low), (one.high, other.high))
    return one.competitions == other.competitions and all(abs(a - b) <= _TOLERANCE for a, b in pairs)
