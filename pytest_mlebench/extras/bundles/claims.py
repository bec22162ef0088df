"""What a bundle says beside its results, found again: later grades, an audit's findings, the familiarity of a model.

The scanners always read the bundle's code, logs and calls, whether or not it has an audit, and later grades are given
anew. Neither are models asked again, nor programs compared with notebooks: what was said of these must follow from what
was kept. Claims for which a bundle holds no evidence are named each time (see ``card.not_checked``).
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
from pytest_mlebench.records.record import RECORD, SUBMISSION, RunKey
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
from pytest_mlebench.runs.regrade import REGRADED, Regrader, Regrading, changes, differences, took_too_much

_READ_BY_SCANNERS = ("submissions", "ledgers", "recordings", "trajectories", "code", "logs", ODD_NAMES)
_TOLERANCE = 1e-4


def claims(bundle: Bundle, group: RunGroup, regrader: Callable[[str], Regrader]) -> tuple[list[Check], Findings]:
    """A check of each thing that the bundle says beside its results, and what an audit finds that this runs itself,
    whatever an audit in the bundle says."""
    graders = regrader(group.version)
    checks: list[Check] = []
    if paths := sorted(bundle.folder.glob(REGRADED)):
        checks.append(_regradings(paths, bundle, group, regrader))
    told: Findings | None = None
    try:
        told = read_findings(bundle.folder)
    except (OSError, ValueError) as error:
        checks.append(Check("audit", CheckResult.differs, "its findings cannot be read", (reason(error),)))
    cases: list[Case] = []
    readers = [] if told is None or told.judge is None else [lambda run: cases.append(case_of(run))]
    again = audit(runs_of(group, graders), *readers)
    checks.append(_audited(again, bundle, group, graders))
    if told is not None:
        checks += _audit(told, again, cases, bundle, group, graders)
    elif (bundle.folder / FOLDER).is_dir():
        checks.append(Check.of("judge", ["a judge's votes are there, and no audit"], ""))
    try:
        found = measured(bundle.folder)
    except (OSError, ValueError) as error:
        checks.append(Check("familiarity", CheckResult.differs, "what was measured cannot be read", (reason(error),)))
        return checks, again
    if found:
        wrong = [text for own in found for text in _familiarity(own, group, graders)]
        checks.append(Check.of("familiarity", wrong, "scores and correlations follow from what was measured"))
    return checks, again


def _audited(again: Findings, bundle: Bundle, group: RunGroup, graders: Regrader) -> Check:
    """Whether the scanners had all that they read. What they find is no difference, but the card's verdict."""
    unread = _unread(bundle)
    if unknown := sorted({r.competition_id[:100] for r in group.records if graders.dataset(r) is None}):
        unread = unread or f"the data of {listed(unknown[:5])} is not here"
    detail = f"the scanners read what {pluralize(len(again.runs), 'run')} left"
    return Check.of("evidence", (), detail, unchecked=unread)


def _unread(bundle: Bundle) -> str:
    left_out = [own.what for own in bundle.index.left_out if own.what in _READ_BY_SCANNERS]
    return f"what scanners read was left out: {listed(left_out)}" if left_out else ""


def _regradings(paths: Sequence[Path], bundle: Bundle, group: RunGroup, regrader: Callable[[str], Regrader]) -> Check:
    wrong: list[str] = []
    lacking: list[str] = []
    count = 0
    for path in paths:
        try:
            told = read_json(path, Regrading)
        except (OSError, ValueError) as error:
            wrong.append(f"{path.name} cannot be read: {reason(error)}")
            continue
        count += len(told.runs)
        if told.run_group != group.name or told.bench_version not in VERSIONS:
            wrong.append(f"{path.name}: it is of another run group, or of no version of the benchmark")
            continue
        differ, lack = _regrading(told, bundle, group, regrader(told.bench_version))
        # Graders and what they call change: then nobody can say.
        same = told.versions.get("pytest-mlebench") == __version__
        (wrong if same else lacking).extend(f"{path.name}: {text}" for text in differ)
        lacking += [f"{path.name}: {text}" for text in lack]
    unchecked = "some cannot be given anew" if lacking else ""
    detail = f"{pluralize(count, 'submission')} graded anew"
    return Check.of("later grades", wrong, detail, unchecked=unchecked, lacking=lacking)


def _regrading(told: Regrading, bundle: Bundle, group: RunGroup, graders: Regrader) -> tuple[list[str], list[str]]:
    """What differs in a group's later grades, and what cannot be graded here."""
    wrong, lacking = list[str](), list[str]()
    records = {record.run_id: record for record in group.records}
    listed_runs = {run.run_id for run in told.runs} | told.not_graded.keys()
    for run_id in sorted(listed_runs - records.keys()):
        if not (bundle.folder / run_id / RECORD).is_file():  # it may have been done again since
            wrong.append(f"{run_id[:100]}: graded again, and no run of the group")
    at = datetime.fromisoformat(told.regraded_at)
    for run_id, record in records.items():
        if run_id not in listed_runs and datetime.fromisoformat(record.ended_at) <= at:
            wrong.append(f"{run_id}: it had ended, and was not graded again")
    for run in told.runs:
        if run.run_id not in records:
            continue
        record = records[run.run_id]
        if RunKey(run.agent, run.competition_id, run.seed) != record.key or run.before != record.report:
            wrong.append(f"{run.run_id}: its first grade is not that of its record")
        if run.changes != changes(run.before, run.after):
            wrong.append(f"{run.run_id}: how its grades differ does not follow from them")
        run_dir = bundle.folder / run.run_id
        obstacle = graders.obstacle(record)
        if run.after.submission_exists and bundle.lacks("submissions") and not (run_dir / SUBMISSION).is_file():
            obstacle = "its submission was left out"
        if obstacle is not None:
            lacking.append(f"{run.run_id}: {obstacle}")
            continue
        report = graders.submission(record, run_dir)
        slow = took_too_much(run.after) or took_too_much(report)
        (lacking if slow else wrong).extend(f"{run.run_id}: {text}" for text in differences(run.after, report))
    return wrong, lacking


def _audit(
    told: Findings, again: Findings, cases: Sequence[Case], bundle: Bundle, group: RunGroup, graders: Regrader
) -> Iterator[Check]:
    """An audit in the bundle against what was found here."""
    known = {record.run_id for record in group.records}
    wrong = [f"{run_id[:100]}: audited, and no run of the group" for run_id in sorted(set(told.runs) - known)]
    noted = _counts(told.findings)
    for (run_id, scanner, verdict), count in sorted(_counts(again.findings).items()):
        if run_id in told.runs and count > noted[run_id, scanner, verdict]:
            wrong.append(f"{run_id}: {verdict} ({scanner}) is found again, and its audit does not have it")
    unread = _unread(bundle)
    detail = f"scanners find nothing more in {pluralize(len(told.runs), 'run')}"
    yield _found("audit", told, wrong, detail, unread)
    by_judge = [own for own in told.findings if own.scanner == JUDGE]
    if told.judge is not None:
        if unknown := sorted(id for id in {r.competition_id for r in group.records} if graders.competition(id) is None):
            unread = unread or f"there is no competition {listed(unknown)} here"
        # Where something of what a judge read is not here, none of its votes is found.
        wrong = [] if unread else list(_judge(told, told.judge, by_judge, cases, bundle.folder / FOLDER))
        yield _found("judge", told, wrong, "its findings follow from the votes that were kept", unread)
    elif by_judge or (bundle.folder / FOLDER).is_dir():
        yield Check.of("judge", ["its votes or findings are there, and no account of it"], "")
    alike = [own for own in told.findings if own.scanner == PLAGIARISM]
    if told.plagiarism is not None or alike:
        wrong = list(_plagiarism(told, alike))
        yield Check.of("plagiarism", wrong, "as many findings as its account says; nothing was compared again")


def _found(name: str, told: Findings, wrong: Sequence[str], detail: str, unread: str) -> Check:
    """What came of looking again with this version's scanners and prompts."""
    if told.version != __version__ and wrong:
        why = f"audited by version {told.version[:20]}, and this is {__version__}"
        return Check(name, CheckResult.unchecked, why, tuple(wrong))
    return Check.of(name, wrong, detail, unchecked=unread)


def _judge(
    told: Findings, account: JudgeAccount, noted: Sequence[Finding], cases: Sequence[Case], folder: Path
) -> Iterator[str]:
    if not 0 < account.votes <= MAX_VOTES:
        yield f"{account.votes} votes on each part"
        return
    try:
        again, incomplete = recount(account, [case for case in cases if case.run_id in told.runs], folder)
    except OSError as error:
        yield f"its votes cannot be read: {unusable(error)}"
        return
    for run_id in sorted(set(incomplete) - set(account.incomplete)):
        yield f"{run_id}: judged whole, and votes on parts of it are missing"
    counts, found = (Counter(map(_outcome, own)) for own in (noted, again))
    yield from (f"{run}: {text}, and no votes for it" for run, text in sorted((counts - found).keys()))
    yield from (f"{run}: {text}, and its audit does not have it" for run, text in sorted((found - counts).keys()))


def _outcome(finding: Finding) -> tuple[str, str]:
    """The run, the question, and how many voted how, without the reason that one of them gave."""
    return finding.run_id, f"{finding.verdict}: {finding.text.partition(' votes): ')[0]}"


def _plagiarism(told: Findings, alike: Sequence[Finding]) -> Iterator[str]:
    counts = Counter(own.run_id for own in alike)
    noted = told.plagiarism.pairs if told.plagiarism is not None else {}
    for run_id in sorted(counts.keys() | (noted.keys() & set(told.runs))):
        if counts[run_id] != noted.get(run_id, 0):
            yield f"{run_id[:100]}: {pluralize(counts[run_id], 'finding')}, and {noted.get(run_id, 0)} were counted"


def _counts(findings: Iterable[Finding]) -> Counter[tuple[str, str, Verdict]]:
    return Counter((own.run_id, own.scanner, own.verdict) for own in findings)


def _familiarity(told: MeasuredModel, group: RunGroup, graders: Regrader) -> Iterator[str]:
    own_scores, _ = scores(group.records, graders.competition)
    said = [(agent, own.competition_id, score) for own in told.competitions for agent, score in own.scores.items()]
    for agent, id, score in said:
        value = own_scores.get(agent, {}).get(id)
        if value is None or not abs(value - score) <= _TOLERANCE:
            yield f"{told.model[:100]}: {agent[:100]} on {id[:100]}: {score}, and {value} follows from the records"
    by_agent = {one.agent: one for one in told.correlations}
    for agent in sorted({agent for agent, _, _ in said} | by_agent.keys()):
        if not _is_same(by_agent.get(agent), correlation(agent, told.competitions)):
            yield f"{told.model[:100]}: the correlation of {agent[:100]} does not follow from the scores"


def _is_same(one: Correlation | None, other: Correlation | None) -> bool:
    if one is None or other is None:
        return one is other
    pairs = ((one.r, other.r), (one.low, other.low), (one.high, other.high))
    return one.competitions == other.competitions and all(abs(a - b) <= _TOLERANCE for a, b in pairs)
