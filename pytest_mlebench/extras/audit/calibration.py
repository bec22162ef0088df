"""Measures how well scanners and judge tell fair runs from unfair ones, on labelled cases.

A fair case has the category that it might be mistaken for. The scanners were tuned on the first half of the cases.
Their precision and recall on the second half were then 15/18 each (8/10 and 8/18 if only violations count); two false
violations there were fixed later. One author wrote cases and scanners: expect worse figures on other people's runs.
"""

from __future__ import annotations

import base64
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.extras.audit.evidence import case_of
from pytest_mlebench.extras.audit.judge import Judge, questions
from pytest_mlebench.extras.audit.run import AuditedRun
from pytest_mlebench.extras.audit.scanners import audit
from pytest_mlebench.grading.grader import standing
from pytest_mlebench.io.values import load_yaml, parse
from pytest_mlebench.llm.ledger import CALLS
from pytest_mlebench.llm.trajectory import TRAJECTORY
from pytest_mlebench.records.outcome import Connection, Ending, Report, SandboxAccount, Validation
from pytest_mlebench.records.record import RUN_LOG, SUBMISSION, RunRecord
from pytest_mlebench.results.findings import Finding, JudgeAccount, Verdict

SET = Path(__file__).parent / "calibration_set"
HALVES = ("first", "second")
METHODS = ("scanners", "scanners: violation", "judge", "both")
ALL = "all"
_ROWS = 100
_ID = "turbine_{:04}"


@dataclass(frozen=True, kw_only=True)
class LabelledCase:
    """The files of one run, and whether it was fair. ``files`` maps paths in the run directory to contents, ``steps``
    are the model's messages and commands. Names in double angle brackets are replaced by ``_placeholders``."""

    name: str
    label: str
    category: str
    why: str
    code: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    log: str = ""
    steps: tuple[Mapping[str, str], ...] = ()
    submission: str = "labels"
    """``labels``, ``sample``, ``ones``, or the name of one of ``files``."""
    score: float = 0.85
    seconds: float = 1800.0
    checks: int = 0
    """Number of calls of the submission checker."""
    check_seconds: float = 10.0
    """Seconds between two of these calls."""
    refused: tuple[str, ...] = ()
    """Hosts to which connections were refused."""
    short_answers: int = 0
    """Number of model calls with answers of a few tokens."""


@dataclass(frozen=True)
class Counts:
    """Numbers of unfair cases that were found and missed, and of fair cases that were flagged and cleared."""

    found: int
    missed: int
    false_alarms: int
    cleared: int

    @classmethod
    def of(cls, results: Iterable[CaseResult], method: str) -> Counts:
        pairs = Counter((result.label == "unfair", result.flagged[method]) for result in results)
        return cls(pairs[True, True], pairs[True, False], pairs[False, True], pairs[False, False])


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """A case, and which methods flagged it."""

    name: str
    label: str
    category: str
    half: str
    why: str
    flagged: Mapping[str, bool]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The results of all cases. ``judge`` is None if no judge was asked."""

    results: tuple[CaseResult, ...]
    judge: JudgeAccount | None = None

    @property
    def counts(self) -> dict[tuple[str, str, str], Counts]:
        """Counts by method, category and half. ``all`` stands for every category, or for both halves."""
        methods = [method for method in METHODS if self.judge is not None or method not in ("judge", "both")]
        groups = [(ALL, ALL), *((ALL, half) for half in HALVES), *((category, ALL) for category in questions())]
        return {
            (method, category, half): Counts.of(
                (r for r in self.results if category in (ALL, r.category) and half in (ALL, r.half)), method
            )
            for method in methods
            for category, half in groups
        }


def labelled_cases() -> dict[str, tuple[LabelledCase, ...]]:
    """Return the cases of each half."""
    texts = {half: (SET / f"{half}.yaml").read_text(encoding="utf-8") for half in HALVES}
    return {half: tuple(parse(LabelledCase, case) for case in load_yaml(text)["cases"]) for half, text in texts.items()}


def calibrate(folder: Path, judge: Judge | None = None) -> Calibration:
    """Write each case into ``folder`` as a run, and audit it."""
    competition = Competition.load(SET / "turbines")
    dataset = DataStore(folder / "data").dataset(competition)
    ids = [_ID.format(k) for k in range(_ROWS)]
    dataset.sample_submission.parent.mkdir(parents=True)
    dataset.sample_submission.write_text("".join(f"{line}\n" for line in ("id,failed", *(f"{id},0" for id in ids))))
    labelled = [(half, case) for half, cases in labelled_cases().items() for case in cases]
    texts = []
    findings: list[Finding] = []
    for half, case in labelled:
        run_dir = folder / "runs" / f"{half}-{case.name}"
        record = _write(case, run_dir, competition, ids)
        run = AuditedRun(record=record, run_dir=run_dir, competition=competition, dataset=dataset)
        findings += audit([run]).findings
        texts.append(case_of(run))
    account = None
    if judge is not None:
        opinions, account = judge(texts)
        if account.interrupted:  # figures of some cases would be taken for those of all
            raise KeyboardInterrupt
        findings += opinions
    return Calibration(
        results=tuple(
            _result(half, case, [finding for finding in findings if finding.run_id == f"{half}-{case.name}"])
            for half, case in labelled
        ),
        judge=account,
    )


def _result(half: str, case: LabelledCase, findings: Sequence[Finding]) -> CaseResult:
    scanned = [finding for finding in findings if finding.scanner != "judge"]
    flagged = {
        "scanners": bool(scanned),
        "scanners: violation": any(finding.verdict is Verdict.violation for finding in scanned),
        "judge": len(scanned) < len(findings),
        "both": bool(findings),
    }
    return CaseResult(
        name=case.name,
        label=case.label,
        category=case.category,
        half=half,
        why=case.why,
        flagged=flagged,
        findings=tuple(findings),
    )


def _placeholders(ids: Sequence[str], labels: Sequence[int]) -> Iterator[tuple[str, str]]:
    lines = "\n".join(f"{id},{label}" for id, label in zip(ids, labels, strict=True))
    yield "<<table>>", str(dict(zip(ids, labels, strict=True)))
    yield "<<pairs>>", str(list(zip(ids, labels, strict=True)))
    yield "<<labels>>", str(list(labels))
    yield "<<digits>>", "".join(map(str, labels))
    yield "<<failed ids>>", str([id for id, label in zip(ids, labels, strict=True) if label])
    yield "<<failed rows>>", str([k for k, label in enumerate(labels) if label])
    yield "<<hex>>", f"{int(''.join(map(str, labels)), 2):x}"
    yield "<<base64 lines>>", base64.b64encode(lines.encode()).decode()
    yield "<<base64 program>>", base64.b64encode(b"import pandas; open('/private/test.csv')").decode()
    yield "<<lines>>", lines
    yield "<<some lines>>", "\n".join(lines.splitlines()[:5])


def _write(case: LabelledCase, run_dir: Path, competition: Competition, ids: Sequence[str]) -> RunRecord:
    rng = random.Random(case.name)
    labels = [int(rng.random() < 0.4) for _ in ids]
    placeholders = dict(_placeholders(ids, labels))

    def filled(text: str) -> str:
        for name, value in placeholders.items():
            text = text.replace(name, value)
        return text

    lines = {"labels": placeholders["<<lines>>"], "sample": "\n".join(f"{id},0" for id in ids)}
    lines["ones"] = lines["sample"].replace(",0", ",1")
    files = {name: filled(text) for name, text in case.files.items()}
    given = files.get(case.submission)
    files[SUBMISSION] = given if given is not None else f"id,failed\n{lines[case.submission]}\n"
    files[RUN_LOG] = filled(case.log)
    if case.code:
        files["code/solution.py"] = filled(case.code)
    if case.steps:
        files[TRAJECTORY] = json.dumps({"steps": [_step(k, step, filled) for k, step in enumerate(case.steps, 1)]})
    if case.short_answers:
        call = {"kind": "generate", "status": 200, "tokens": {"input": 200, "output": 2}}
        files[CALLS] = "".join(json.dumps({"number": k, **call}) + "\n" for k in range(case.short_answers))
    for name, text in files.items():
        path = run_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return _record(case, run_dir.name, competition)


def _step(number: int, step: Mapping[str, str], filled: Any) -> dict[str, Any]:
    values: dict[str, Any] = {"step_id": number, "source": "agent", "message": filled(step.get("says", ""))}
    if command := step.get("runs"):
        arguments = {"command": filled(command)}
        values["tool_calls"] = [{"tool_call_id": f"c{number}", "function_name": "shell", "arguments": arguments}]
        values["observation"] = {
            "results": [{"source_call_id": f"c{number}", "content": filled(step.get("gives", ""))}]
        }
    return values


def _record(case: LabelledCase, run_id: str, competition: Competition) -> RunRecord:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    report = Report(
        competition_id=competition.id,
        score=case.score,
        **standing(competition.leaderboard, case.score),
        submission_exists=True,
        valid_submission=True,
        created_at=now,
        submission_path=SUBMISSION,
    )
    checks = (Validation(at=k * case.check_seconds, verdict="valid") for k in range(case.checks))
    refused = (
        Connection(at=60.0, host=host, port=443, method="CONNECT", reason="not allowed by the network policy")
        for host in case.refused
    )
    return RunRecord(
        run_id=run_id,
        run_group="calibration",
        competition_id=competition.id,
        split="calibration",
        category=competition.category,
        agent="case",
        seed=0,
        started_at=now,
        ended_at=now,
        ending=Ending.FINISHED,
        seconds=case.seconds,
        report=report,
        sandbox=SandboxAccount(name="docker", validations=tuple(checks), connections=tuple(refused)),
    )
