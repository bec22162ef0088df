"""What an audit found in the runs of a group, kept in ``audit.json`` in the group's folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from pytest_mlebench.io.json_files import loads, parse, write_json

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


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One observation, with the evidence for it. All texts may be the agent's own, and are cut to a bounded length.

    ``file`` is relative to the run's directory, ``line`` counts from 1, ``at`` is in seconds since the run's start,
    ``call`` the number of a model call in the run's ledger.
    """

    run_id: str
    scanner: str
    verdict: Verdict
    text: str
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

    version: str
    audited_at: str
    runs: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    judge: JudgeAccount | None = None
    plagiarism: PlagiarismAccount | None = None

    @cached_property
    def verdicts(self) -> Mapping[str, Verdict]:
        """The worst verdict of each audited run."""
        order = list(Verdict)
        found = dict.fromkeys(self.runs, Verdict.clean)
        for finding in self.findings:
            known = found.get(finding.run_id, Verdict.clean)
            found[finding.run_id] = max(known, finding.verdict, key=order.index)
        return found

    def of(self, run_id: str) -> tuple[Finding, ...]:
        """The findings in one run, the worst first."""
        order = list(Verdict)
        own = (finding for finding in self.findings if finding.run_id == run_id)
        return tuple(sorted(own, key=lambda finding: -order.index(finding.verdict)))

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


def worst(found: Iterable[Finding]) -> Verdict:
    """The worst verdict of findings; ``clean`` where there are none."""
    return max((finding.verdict for finding in found), key=list(Verdict).index, default=Verdict.clean)
