"""Results about a group's runs other than scores: audit findings, and how well models know the competitions.

An audit writes ``audit.json`` into the group folder: an object with ``runs`` (ids of the audited runs) and ``findings``
(objects with ``run_id`` and ``verdict``: ``clean``, ``look`` or ``violation``). Reports need no other keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from pytest_mlebench.io.units import have, pluralize
from pytest_mlebench.io.values import read_json, write_json
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.outcome import TWIN, TWIN_DATA

FINDINGS = "audit.json"
PAIRS, PAIRS_PAGE = "plagiarism.json", "plagiarism.html"
"""Files in a run group: the pairs of similar programs, and a page that shows them. They contain text of public
notebooks, so bundles leave them out."""
_MAX_BYTES = 64 << 20


class Verdict(StrEnum):
    """The audit's verdict on a run, worst last."""

    clean = "clean"
    look = "look"
    """A human should review it: there may be a legitimate reason."""
    violation = "violation"

    @property
    def rank(self) -> int:
        """0 for ``clean``; higher is worse."""
        return list(Verdict).index(self)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One observation and its evidence. Texts may come from the agent (untrusted) and are truncated.

    ``file`` is relative to the run directory, ``line`` counts from 1, ``at`` is in seconds since the start of the run,
    and ``call`` is the number of a model call in the run's ledger.
    """

    run_id: str
    scanner: str = ""
    verdict: Verdict
    text: str = ""
    file: str = ""
    line: int | None = None
    call: int | None = None
    at: float | None = None
    quote: str = ""


@dataclass(frozen=True, kw_only=True)
class JudgeAccount:
    """The model that judged runs, and its statistics. Costs are in US dollars.

    ``parts_judged`` counts parts of runs that got all votes, ``unanswered`` the votes without a valid answer after two
    attempts, ``failed`` the failed calls, and ``quotes_dropped`` the quotes that do not occur in the text.
    ``incomplete`` lists runs that were not judged completely: the judge was interrupted, the budget ran out, calls
    failed, or the run is too long. ``votes_kept`` votes are from earlier audits, and are not in calls, tokens and cost.
    """

    model: str
    votes: int
    budget: float
    budget_ended: bool
    cost: float | None
    calls: int
    tokens: int
    parts: int
    parts_judged: int
    unanswered: int
    failed: int
    quotes_dropped: int
    incomplete: tuple[str, ...] = ()
    votes_kept: int = 0
    interrupted: bool = False
    last_error: str = ""
    """The provider's message for the last failed call."""


@dataclass(frozen=True, kw_only=True)
class NotebooksRead:
    """Numbers of a competition's notebooks: ``gone`` are deleted, private or too large, ``missing`` are not downloaded
    yet, and ``unread`` could not be read."""

    listed: int
    compared: int
    gone: int
    missing: int
    unread: int = 0


@dataclass(frozen=True, kw_only=True)
class PlagiarismAccount:
    """How programs were compared (see ``fingerprints.Parameters``), and with what.

    ``without_code`` are those of ``runs`` that have nothing to compare. ``not_compared`` lists files
    that were too large, too many or too costly. ``notebooks`` is by competition, ``groups`` the other run groups.
    """

    library: str
    version: str
    kgram: int
    window: int
    threshold: float
    least: int
    runs: tuple[str, ...]
    without_code: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()
    notebooks: Mapping[str, NotebooksRead] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    pairs: Mapping[str, int] = field(default_factory=dict)
    """Number of pairs found for each run."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The findings in a group. ``runs`` has all audited runs, including those without findings."""

    version: str = ""
    audited_at: str = ""
    runs: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    judge: JudgeAccount | None = None
    plagiarism: PlagiarismAccount | None = None

    @cached_property
    def verdicts(self) -> Mapping[str, Verdict]:
        """The worst verdict of each audited run."""
        found = dict.fromkeys(self.runs, Verdict.clean)
        for finding in self.findings:
            known = found.get(finding.run_id, Verdict.clean)
            found[finding.run_id] = max(known, finding.verdict, key=lambda verdict: verdict.rank)
        return found

    def of(self, run_id: str) -> tuple[Finding, ...]:
        """The findings in one run, worst first."""
        found = (finding for finding in self.findings if finding.run_id == run_id)
        return tuple(sorted(found, key=lambda finding: -finding.verdict.rank))

    def write(self, group_dir: Path) -> Path:
        """Write ``audit.json`` atomically and return its path. Raises OSError."""
        write_json(group_dir / FINDINGS, asdict(self))
        return group_dir / FINDINGS


def read_findings(group_dir: Path) -> Findings | None:
    """Return the findings of a group's last audit; None if it was not audited. Raises OSError or ValueError."""
    try:
        return read_json(group_dir / FINDINGS, Findings, _MAX_BYTES)
    except FileNotFoundError:
        return None


def findings(run_dir: Path) -> tuple[Finding, ...]:
    """Return the last audit's findings in one run, worst first; empty if there is none or it cannot be read."""
    try:
        found = read_findings(run_dir.parent)
    except (OSError, ValueError):
        return ()
    return () if found is None else found.of(run_dir.name)


MEASURED, _MAX_FILES = "familiarity-*.json", 20


@dataclass(frozen=True)
class TextKnown:
    """The mean probability that a model assigns to a text's tokens, over ``positions`` tokens."""

    positions: int
    mean: float


@dataclass(frozen=True)
class Knowledge:
    """How familiar a model is with a competition: the mean over ``texts``. ``scores`` are the agents' mean scores."""

    competition_id: str
    familiarity: float
    texts: Mapping[str, TextKnown] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Correlation:
    """Pearson's r between familiarity and normalised score over competitions, with its 95 % interval (Fisher's z)."""

    agent: str
    competitions: int
    r: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class MeasuredModel:
    """The result of ``mlebench familiarity`` for one model, as stored in a group.

    ``own_descriptions`` counts competitions for which the model read our own descriptions, which no model was trained
    on; None if that was not recorded.
    """

    model: str
    correlations: tuple[Correlation, ...]
    competitions: tuple[Knowledge, ...]
    own_descriptions: int | None = None


def measured(group_dir: Path) -> list[MeasuredModel]:
    """Read a group's familiarity measurements, one per model. Raises OSError or ValueError."""
    return [read_json(path, MeasuredModel) for path in sorted(group_dir.glob(MEASURED))[:_MAX_FILES]]


def in_words(one: Correlation) -> str:
    """Format a correlation with its interval, for example ``r = 0.31 [-0.05, 0.60], 22 competitions``."""
    return f"r = {one.r:.2f} [{one.low:.2f}, {one.high:.2f}], {one.competitions} competitions"


LOCAL = "local"
NOT_ISOLATED = "nothing was isolated: agents had access to the answers, other runs and the network"
SYNTHETIC = "synthetic"
_GENERATED = {TWIN: TWIN_DATA, SYNTHETIC: "synthetic data: scores say nothing about the real competition"}
"""What each kind of ``Report.generated`` means."""


def of_verdicts(verdicts: Iterable[str | None]) -> str:
    """Summarise verdicts in words; None stands for a run that was not audited.

    >>> of_verdicts(["violation", "look", "violation"])
    '2 of 3 runs have violations, 1 needs a look'
    >>> of_verdicts(["clean"])
    'no violation found in 1 run'
    """
    counts = Counter(verdicts)
    runs = pluralize(counts.total(), "run")
    found = []
    if bad := counts["violation"]:
        found.append(f"{bad} of {runs} {have(bad)} violations")
    if look := counts["look"]:
        found.append(f"{look}{'' if bad else f' of {runs}'} {'needs' if look == 1 else 'need'} a look")
    if unknown := counts[None]:
        found.append(f"{unknown}{'' if found else f' of {runs}'} {have(unknown)} not been audited")
    return ", ".join(found) or f"no violation found in {runs}"


def generated_data(kinds: Mapping[str, str]) -> Iterator[tuple[str, list[str], str]]:
    """Yield each kind of generated data with its competitions' ids and what it means for scores.

    ``kinds`` has the ``Report.generated`` of competitions by id.
    """
    for kind, text in _GENERATED.items():
        if ids := sorted(id for id, own in kinds.items() if own == kind):
            what, _, why = text.partition(":")
            yield what.capitalize(), ids, why


def caveats(group: RunGroup) -> Iterator[str]:
    """Warnings to show above a group's results: generated data, no isolation, and the last audit's verdicts."""
    ids = {record.competition_id for record in group.records}
    kinds = {
        record.competition_id: TWIN if record.is_twin else SYNTHETIC
        for record in group.records
        if record.is_twin or record.synthetic_data or record.report.generated
    }
    for what, found, why in generated_data(kinds):
        which = "" if len(found) == len(ids) else f" ({len(found)} of {pluralize(len(ids), 'competition')})"
        yield f"{what}{which}:{why}."
    local = sum(record.sandbox.name == LOCAL for record in group.records)
    if local:
        which = "" if local == len(group.records) else f"{local} of {pluralize(len(group.records), 'run')}: "
        yield f"Local sandbox: {which}{NOT_ISOLATED}."
    try:
        audit = read_findings(group.folder)
    except (OSError, ValueError):
        yield "The audit of this group cannot be read."
        return
    if audit is not None and group.records:
        yield f"Audit: {of_verdicts(audit.verdicts.get(record.run_id) for record in group.records)}."
