"""What is known of a group's runs beside their scores: an audit's findings, and what models know of competitions.

An audit writes ``audit.json`` into the group: an object with ``runs`` (the ids of the runs that were audited) and
``findings`` (objects with ``run_id`` and ``verdict``: ``clean``, ``look`` or ``violation``). Reports need nothing else
of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from pytest_mlebench.io.units import have, pluralize
from pytest_mlebench.io.values import loads, parse, read_json, write_json
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.outcome import TWIN, TWIN_DATA

FINDINGS = "audit.json"
PAIRS, PAIRS_PAGE = "plagiarism.json", "plagiarism.html"
"""In a run group: the pairs of programs that resemble each other, and a page of them. They hold text of public
notebooks, and are no part of bundles."""
_MAX_BYTES = 64 << 20


class Verdict(StrEnum):
    """What the audit says of a run, the worst last."""

    clean = "clean"
    look = "look"
    """Somebody should look at it: there may be a fair reason."""
    violation = "violation"

    @property
    def rank(self) -> int:
        """0 for ``clean``, and the higher the worse."""
        return list(Verdict).index(self)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One observation, with the evidence for it. All texts may be the agent's own, and are cut to a bounded length.

    ``file`` is relative to the run's directory, ``line`` counts from 1, ``at`` is in seconds since the run's start,
    ``call`` the number of a model call in the run's ledger.
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
    """Who judged, and what it did: parts of runs that were judged by all votes, answers without the form that was asked
    for (asked for twice), calls that failed, and quotes that do not occur in the text. Costs in US dollars.

    ``incomplete`` are runs that were not judged whole, as it was interrupted, the budget ended, calls failed, or they
    left too much. Of the votes, ``votes_kept`` were given in earlier calls, and are not in calls, tokens and cost.
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
    """Of the last call that failed; the provider's own words."""


@dataclass(frozen=True, kw_only=True)
class NotebooksRead:
    """How many notebooks of a competition are listed, were compared, are gone, have yet to be downloaded, and could not
    be read."""

    listed: int
    compared: int
    gone: int
    missing: int
    unread: int = 0


@dataclass(frozen=True, kw_only=True)
class PlagiarismAccount:
    """How programs were compared (see ``fingerprints.Parameters``), and what with.

    ``runs`` were compared, ``without_code`` are those of them that left nothing to compare, ``not_compared`` are files
    that were too large or too much. ``notebooks`` are counted by competition; ``groups`` are the other groups.
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
    """How many pairs were found, by run."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The findings in a group; ``runs`` are those that were audited, with or without a finding."""

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
        """The findings in one run, the worst first."""
        own = (finding for finding in self.findings if finding.run_id == run_id)
        return tuple(sorted(own, key=lambda finding: -finding.verdict.rank))

    def write(self, group_dir: Path) -> Path:
        """Write ``audit.json``, at once or not at all; returns its path. Raises OSError."""
        write_json(group_dir / FINDINGS, asdict(self))
        return group_dir / FINDINGS


def read_findings(group_dir: Path) -> Findings | None:
    """What the last audit of a group found; None where there was none. Raises OSError, or ValueError."""
    path = group_dir / FINDINGS
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError(f"it has more than {_MAX_BYTES} bytes")
        return parse(Findings, loads(path.read_bytes()))
    except FileNotFoundError:
        return None


def findings(run_dir: Path) -> tuple[Finding, ...]:
    """What the last audit found in one run, the worst first; empty where there was none, or it cannot be read."""
    try:
        found = read_findings(run_dir.parent)
    except (OSError, ValueError):
        return ()
    return () if found is None else found.of(run_dir.name)


MEASURED, _MAX_FILES = "familiarity-*.json", 20


@dataclass(frozen=True)
class TextKnown:
    """The mean probability that a model gives to a text's tokens, over so many positions."""

    positions: int
    mean: float


@dataclass(frozen=True)
class Knowledge:
    """How familiar a model is with a competition: the mean over ``texts``; ``scores`` are agents' means on it."""

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
    """What ``mlebench familiarity`` found with one model, as a group keeps it.

    Of ``own_descriptions`` competitions the model read our own words, which no model was trained on; None where that
    was not noted.
    """

    model: str
    correlations: tuple[Correlation, ...]
    competitions: tuple[Knowledge, ...]
    own_descriptions: int | None = None


def measured(group_dir: Path) -> list[MeasuredModel]:
    """What was measured of a group, by model. Raises OSError, or ValueError."""
    return [read_json(path, MeasuredModel) for path in sorted(group_dir.glob(MEASURED))[:_MAX_FILES]]


def in_words(one: Correlation) -> str:
    """A correlation with its interval, for example ``r = 0.31 [-0.05, 0.60], 22 competitions``."""
    return f"r = {one.r:.2f} [{one.low:.2f}, {one.high:.2f}], {one.competitions} competitions"


LOCAL = "local"
NOT_ISOLATED = "nothing was isolated: agents could read the answers, other runs and the network"
SAYS_NOTHING = "scores say nothing about the real competition"


def of_verdicts(verdicts: Iterable[str | None]) -> str:
    """For example ``2 of 3 runs have violations, 1 needs a look``.

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


def caveats(group: RunGroup) -> Iterator[str]:
    """What stands above a group's results: that data is generated, nothing was isolated, what its last audit found."""
    ids = {record.competition_id for record in group.records}
    twins = {record.competition_id for record in group.records if record.twin or record.report.generated == TWIN}
    synthetic = {record.competition_id for record in group.records if record.synthetic_data} - twins
    for mark, found in ((TWIN_DATA, twins), (f"synthetic data: {SAYS_NOTHING}", synthetic)):
        if found:
            which = "" if found == ids else f" ({len(found)} of {pluralize(len(ids), 'competition')})"
            what, _, why = mark.partition(":")
            yield f"{what.capitalize()}{which}:{why}."
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
