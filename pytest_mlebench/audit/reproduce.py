"""Running the code that an agent left again, alone, and comparing what it gives with the run's submission."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pytest_mlebench.agents.definition import Agent
from pytest_mlebench.errors import UsageError
from pytest_mlebench.grading.report import Report
from pytest_mlebench.runs.layout import SUBMISSION
from pytest_mlebench.runs.record import RunRecord
from pytest_mlebench.sandbox.contract import Execution
from pytest_mlebench.sandbox.snapshots import digest_of

SCRIPT = "reproduce.sh"
CLOSE = 0.01
"""Scores are close that differ by no more than this share of the larger one."""
_FOLDER = "solution"
_PROGRAMS = {".py": "python3", ".sh": "bash"}
_START = """\
mkdir -p "$CODE_DIR" && cp -r "$AGENT_DIR/{folder}/." "$CODE_DIR/" && cd "$CODE_DIR" && exec {command}
"""


class Likeness(StrEnum):
    """How what a solution gives compares with the run's submission."""

    equal = "equal"
    close = "close"
    different = "different"
    does_not_run = "does not run"


@dataclass(frozen=True)
class Reproduction:
    """What running a solution again came to; ``score`` is that of its submission."""

    likeness: Likeness
    detail: str
    score: float | None


def command_of(run_dir: Path) -> str:
    """The command, within ``code``, that makes the submission again: ``reproduce.sh``, or the only program there.

    Raises UsageError where it is not known.
    """
    code = run_dir / "code"
    if (code / SCRIPT).is_file():
        return f"bash {SCRIPT}"
    found = [path for path in _files(code) if path.suffix in _PROGRAMS]
    if len(found) != 1:
        what = "no program" if not found else f"{len(found)} programs and no {SCRIPT}"
        raise UsageError(f"{run_dir.name} cannot be reproduced: it left {what} in {code}")
    return f"{_PROGRAMS[found[0].suffix]} {shlex.quote(found[0].relative_to(code).as_posix())}"


def _files(folder: Path) -> list[Path]:
    """Regular files; links are not followed."""
    if folder.is_symlink():
        return []
    paths = (Path(parent) / name for parent, _, names in os.walk(folder) for name in names)
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())


def as_agent(record: RunRecord, run_dir: Path, folder: Path) -> Agent:
    """An agent, made in a new folder, that runs the solution in the image of the run, and asks no model.

    Raises UsageError (see ``command_of``).
    """
    command = command_of(run_dir)
    own = folder / "reproduce"
    for path in _files(run_dir / "code"):
        target = own / _FOLDER / path.relative_to(run_dir / "code")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    (own / "start.sh").write_text(_START.format(folder=_FOLDER, command=command), encoding="utf-8")
    image = record.sandbox.image or "mlebench-env"
    (own / "Dockerfile").write_text(f"FROM {image}\nARG AGENT_DIR\nCOPY . ${{AGENT_DIR}}\n", encoding="utf-8")
    return Agent(
        id="reproduce",
        folder=own,
        start=own / "start.sh",
        dockerfile=own / "Dockerfile",
        trusted=record.agent_definition.get("trusted") is True,
    )


def compare(record: RunRecord, run_dir: Path, again: Path, report: Report, execution: Execution) -> Reproduction:
    """Compare the submission in the run directory ``again``, whose grade is ``report``, with that of the run."""
    if not report.submission_exists:
        how = "; ".join(filter(None, (str(execution.ending), execution.detail)))
        return Reproduction(Likeness.does_not_run, f"it leaves no submission ({how})", None)
    ours, theirs = run_dir / SUBMISSION, again / SUBMISSION
    if ours.is_file() and digest_of(ours) == digest_of(theirs):
        return Reproduction(Likeness.equal, "its submission is the same, byte for byte", report.score)
    if report.score is None or record.score is None:
        same = report.score is record.score
        detail = report.error or "its submission has no score"
        return Reproduction(Likeness.close if same else Likeness.different, detail, report.score)
    apart = report.score - record.score
    near = abs(apart) <= CLOSE * max(abs(report.score), abs(record.score))
    detail = f"its score is {report.score}, that of the run {record.score} ({apart:+.5f})"
    return Reproduction(Likeness.close if near else Likeness.different, detail, report.score)
