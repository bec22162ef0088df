"""Reruns the code that an agent left, on its own, and compares the result with the run's submission."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pytest_mlebench.agents.registry import Agent
from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.files import digest_of
from pytest_mlebench.io.units import first, listed
from pytest_mlebench.records.record import RUN_LOG, SUBMISSION, RunRecord
from pytest_mlebench.runs.files import open_files, unpack
from pytest_mlebench.sandbox.redaction import tail

SCRIPT = "reproduce.sh"
CLOSE = 0.01
"""Scores are close if they differ by at most this share of the larger one."""
_NOTEBOOKS = "run_notebook.py"
_PROGRAMS = {".py": "python3", ".sh": "bash", ".r": "Rscript", ".ipynb": f'python3 "$AGENT_DIR/{_NOTEBOOKS}"'}
_START = """\
mkdir -p "$CODE_DIR" && cp -r "$AGENT_DIR/code/." "$CODE_DIR/" && cd "$CODE_DIR" || exit
command -v {interpreter} > /dev/null || {{ echo "{interpreter} is not installed here"; exit 127; }}
exec {command}
"""
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,400}")
"""Third parties may have written the record, and Docker runs what is in a Dockerfile."""
_SHOWN, _LINE = 8, 200


class Likeness(StrEnum):
    """How the submission of a rerun compares with the run's."""

    equal = "equal"
    close = "close"
    different = "different"
    does_not_run = "does not run"


@dataclass(frozen=True)
class Reproduction:
    """The result of a rerun. ``score`` is that of its submission."""

    likeness: Likeness
    detail: str
    score: float | None


def program_of(run_dir: Path, chosen: str | None = None) -> str:
    """Return the program, by its path within ``code``, that produces the submission again.

    This is the ``chosen`` one, else ``reproduce.sh``, else the only program at the top of ``code``, else the only one
    below it. Programs are in Python, shell or R, or Jupyter notebooks. Raises UsageError if there is no such program.
    """
    with open_files(run_dir) as files:
        programs = [file for file in files.below("code") if file.suffix in _PROGRAMS]
    found = [file.path.removeprefix("code/") for file in programs]
    named = ", ".join(first(found, _SHOWN)) or "none"
    if chosen is not None:
        if chosen not in found:
            raise UsageError(f"--program: {chosen} is not among the programs in code/ of {run_dir.name}: {named}")
        return chosen
    for candidates in ([SCRIPT] if SCRIPT in found else [], [name for name in found if "/" not in name], found):
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            break
    if found:
        many = f"{len(found)} programs and no {SCRIPT}: choose one with --program: {named}"
        raise UsageError(f"{run_dir.name} cannot be reproduced: it left {many}")
    kinds = listed(sorted(_PROGRAMS))
    raise UsageError(f"{run_dir.name} cannot be reproduced: it left no program ({kinds}) in code/")


def as_agent(record: RunRecord, run_dir: Path, folder: Path, program: str) -> Agent:
    """Create an agent in a new folder that runs a program of the run, in the run's image and without models.

    Raises UsageError if the record does not name an image.
    """
    agent_dir = folder / "reproduce"
    unpack(run_dir, agent_dir, folders=("code",))
    shutil.copyfile(Path(__file__).with_name(_NOTEBOOKS), agent_dir / _NOTEBOOKS)
    interpreter = _PROGRAMS[Path(program).suffix.lower()]
    start = _START.format(interpreter=interpreter.split()[0], command=f"{interpreter} {shlex.quote(f'./{program}')}")
    (agent_dir / "start.sh").write_text(start, encoding="utf-8")
    image = record.sandbox.image or "mlebench-env"
    if not _IMAGE.fullmatch(image):
        raise UsageError(f"{run_dir.name} cannot be reproduced: {image[:100]!r} is not the name of an image")
    (agent_dir / "Dockerfile").write_text(f"FROM {image}\nARG AGENT_DIR\nCOPY . ${{AGENT_DIR}}\n", encoding="utf-8")
    return Agent(id="reproduce", folder=agent_dir, start=agent_dir / "start.sh", dockerfile=agent_dir / "Dockerfile")


def compare(record: RunRecord, run_dir: Path, again: RunRecord, again_dir: Path) -> Reproduction:
    """Compare the submission of the run ``again`` with that of the original run.

    The detail may contain output of the program.
    """
    report = again.report
    if not report.submission_exists:
        last_line = next(reversed(tail(again_dir / RUN_LOG).strip().splitlines()), "").strip()[-_LINE:]
        how = "; ".join(filter(None, (str(again.ending), again.detail, last_line)))
        return Reproduction(Likeness.does_not_run, f"it left no submission ({how})", None)
    ours, theirs = run_dir / SUBMISSION, again_dir / SUBMISSION
    if ours.is_file() and digest_of(ours) == digest_of(theirs):
        return Reproduction(Likeness.equal, "its submission is the same, byte for byte", report.score)
    if report.score is None or record.score is None:
        same = report.score is record.score
        detail = report.error or "its submission has no score"
        return Reproduction(Likeness.close if same else Likeness.different, detail, report.score)
    apart = report.score - record.score
    near = abs(apart) <= CLOSE * max(abs(report.score), abs(record.score))
    detail = f"its score is {report.score}, the run's is {record.score} ({apart:+.5f})"
    return Reproduction(Likeness.close if near else Likeness.different, detail, report.score)
