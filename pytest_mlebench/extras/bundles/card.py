"""The result of verifying a bundle: its card, and the claims that verification does not check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from pytest_mlebench.extras.bundles.bundle import MADE_BY, Bundle, is_known
from pytest_mlebench.io.units import first, pluralize
from pytest_mlebench.io.values import loads
from pytest_mlebench.llm.ledger import BODIES
from pytest_mlebench.records.group import RunGroup, runs_in_progress
from pytest_mlebench.records.record import RECORD
from pytest_mlebench.reports.tables import Section, profile_remarks
from pytest_mlebench.results.findings import FINDINGS, MEASURED, Findings, Verdict, of_verdicts
from pytest_mlebench.results.profile import ProfileLine
from pytest_mlebench.runs.files import NOT_GRADED


class CheckResult(StrEnum):
    """The result of a check, the best one first."""

    verified = "agrees"
    unchecked = "cannot be checked"
    differs = "differs"


@dataclass(frozen=True)
class Check:
    """One line of the card: what was checked, and each reason why it differs or cannot be checked."""

    name: str
    result: CheckResult
    detail: str
    reasons: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, name: str, wrong: Iterable[str], detail: str, *, unchecked: str = "", lacking: Iterable[str] = ()
    ) -> Check:
        """Return a check that differs for the reasons in ``wrong``, else cannot be checked because of ``unchecked``
        (with the reasons in ``lacking``), else agrees."""
        if differences := tuple(wrong):
            return cls(name, CheckResult.differs, pluralize(len(differences), "difference"), differences)
        if unchecked:
            return cls(name, CheckResult.unchecked, unchecked, tuple(lacking))
        return cls(name, CheckResult.verified, detail)


@dataclass(frozen=True, kw_only=True)
class Card:
    """The result of verifying a bundle. ``profile`` is empty and ``findings`` is None if its group cannot be read.

    ``findings`` are those of the new audit, ``warnings`` come before everything else, and ``not_checked`` lists every
    claim of the bundle that was not, or cannot be, checked.
    """

    run_group: str
    digest: str
    checks: tuple[Check, ...]
    left_out: tuple[str, ...]
    profile: tuple[ProfileLine, ...] = ()
    findings: Findings | None = None
    warnings: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()

    @property
    def result(self) -> CheckResult:
        """The worst of all checks."""
        return max((check.result for check in self.checks), key=list(CheckResult).index)

    @property
    def violations(self) -> int:
        """Number of runs with a violation."""
        return 0 if self.findings is None else sum(v is Verdict.violation for v in self.findings.verdicts.values())

    @property
    def verdict(self) -> str:
        """In one word: ``differs``, ``cannot be checked``, ``violations``, ``look`` or ``verified``."""
        if self.result is not CheckResult.verified:
            return self.result.value
        found = set() if self.findings is None else set(self.findings.verdicts.values())
        return "violations" if self.violations else "look" if Verdict.look in found else "verified"

    @property
    def headline(self) -> str:
        """Summary for a reader, such as ``files are consistent and scores reproduce; 3 of 3 runs have violations``."""
        names = [check.name for check in self.checks if check.result is self.result]
        if self.result is CheckResult.verified:
            files = "files are consistent and scores reproduce"
        else:
            files = f"{self.result} ({', '.join(names) if len(names) < 4 else f'{len(names)} checks'})"
        audited = "not audited" if self.findings is None else of_verdicts(self.findings.verdicts.values())
        return f"{files}; {audited}"


_SHOWN_REASONS = 20
"""Maximum reasons that are shown of a check, and maximum findings."""


def card_sections(card: Card) -> Iterator[Section]:
    """Yield the sections of a card: the verdict first, then each check, the findings, and what was not checked."""
    remarks = [*card.warnings, *(f"{check.name}: {check.result}: {check.detail}" for check in card.checks)]
    remarks += [f"{check.name}: {text}" for check in card.checks for text in first(check.reasons, _SHOWN_REASONS)]
    remarks += [f"left out: {text}" for text in card.left_out]
    remarks += [f"SHA-256 of the index: {card.digest}"]
    if card.result is CheckResult.verified and all(check.name != "signature" for check in card.checks):
        remarks.append(
            "not signed: the files agree with each other and with the data, but only a published digest or a signature "
            "shows whose they are"
        )
    yield Section(f"{card.run_group}: {card.headline}", remarks=remarks)
    if found := list(_findings(card)):
        yield Section("Findings of this audit", remarks=first(found, _SHOWN_REASONS))
    yield Section("Not checked", remarks=card.not_checked)
    if card.profile:
        yield Section("Fairness profile", remarks=profile_remarks(card.profile))


def _findings(card: Card) -> Iterator[str]:
    """Yield the findings, the worst ones first."""
    found = () if card.findings is None else card.findings.findings
    for finding in sorted(found, key=lambda finding: -finding.verdict.rank):
        place = f" [{finding.file}{'' if finding.line is None else f':{finding.line}'}]" if finding.file else ""
        yield f"{finding.run_id}: {finding.verdict} ({finding.scanner}): {finding.text}{place}"


ALWAYS = (
    "machines: processors, memory, GPUs, operating systems, versions of Python and of libraries are as the maker says",
    "times: they agree with each other, but come from the maker's clocks",
    "how runs ended: exit codes, signals, details, and errors of the harness are as the maker says",
    "sandboxes: images, network policy, connections, checks of submissions, GPU use and confinement are as the maker "
    "says",
    "permissions: what the user granted and which secrets agents had are as the maker says; what was used agrees with "
    "the sandboxes and connections in the records",
    "agents: whether the definition and the folder in the manifest are those that ran",
    "code and logs: whether the code in the bundle produced the submissions (`mlebench reproduce` reruns it)",
    "model calls: whether ledgers and recordings are what providers answered and charged",
    "completeness: whether runs, seeds or earlier groups were left out of both plan and records",
    "sessions: options, title, note, owner and the log of events are as the maker says",
)
"""Claims that no bundle can prove."""
_SHOWN = 5


def not_checked(bundle: Bundle, group: RunGroup | None) -> Iterator[str]:
    """Yield every claim of a bundle that verification does not check. ``group`` is None if it cannot be read."""
    yield from ALWAYS
    if group is None:
        return
    if bundle.signature is None:
        yield "who made the bundle: it is not signed"
    if bundle.index.made_by != MADE_BY:
        yield f"tables: values that only {bundle.index.made_by[:50]}, which made the bundle, or only this version has"
    skipped = sum((p.error or "").startswith(NOT_GRADED) for record in group.records for p in record.timeline)
    if silent_records := sum(not record.permissions for record in group.records):
        yield f"permissions: what the user granted in {pluralize(silent_records, 'run')}, which is not recorded"
    if skipped:
        yield f"timelines: {pluralize(skipped, 'snapshot')} were never graded"
    silent = [r for r in group.records if r.usage.calls and not (group.folder / r.run_id / BODIES).is_file()]
    if silent:
        yield f"model calls: their content in {pluralize(len(silent), 'run')}, which is not in the bundle"
    if off := sum(record.usage.gateway == "off" for record in group.records):
        yield f"model calls: {pluralize(off, 'run')} bypassed the gateway, which left no ledger"
    if sources := {record.data_source for record in group.records} - {""}:
        yield f"data: that it was fetched from {', '.join(sorted(sources))[:300]}"
    if jobs := sum(bool(record.job) for record in group.records):
        yield f"jobs: which cluster job executed a run, for {pluralize(jobs, 'run')}"
    if (bundle.folder / FINDINGS).is_file():
        yield "the audit in the bundle: a judge's votes and comparisons with notebooks are not repeated"
    if list(bundle.folder.glob(MEASURED)):
        yield "familiarity: models are not asked again for the probabilities that it is based on"
    if attempts := len(runs_in_progress(group.folder)):
        yield f"interrupted attempts: {pluralize(attempts, 'directory')} of runs without a record"
    if earlier := len(list(group.folder.glob(f"*/{RECORD}"))) - len(group.records):
        yield f"earlier attempts: {pluralize(earlier, 'record')} that later ones replace"
    if files := [entry.path for entry in bundle.index.files if not is_known(entry.path)]:
        more = ", …" if len(files) > _SHOWN else ""
        yield f"{pluralize(len(files), 'file')} that are not part of a run group: {', '.join(files[:_SHOWN])}{more}"
    for record in group.records:
        values = loads((group.folder / record.run_id / RECORD).read_bytes())
        if isinstance(values, dict) and (keys := sorted(values.keys() - record.to_json().keys())):
            yield f"{record.run_id}: unknown keys of the record: {', '.join(keys)[:200]}"
