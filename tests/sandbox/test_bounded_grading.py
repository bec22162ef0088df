"""After a file that breaks the grader or checker, its run and the next one end in time with a record."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.grading.grader import GradingLimits
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.runs.run import RunOptions, run_agent
from pytest_mlebench.sandbox import Limits, Sandbox
from tests.sandbox.scripted import script_agent

TOY = Path(__file__).parents[1] / "toys/competitions/toy-parity"
GRADER = """
import numpy as np
from pytest_mlebench.authoring import require_columns

def check(submission, template):
    require_columns(submission, ["id", "odd"])
    while submission["odd"].sum() == 111:
        pass
    if submission["odd"].sum() == 222:
        np.ones(20 << 27)

def grade(submission, answers):
    check(submission, answers)
    return 1.0
"""
VALIDATE = 'curl -s -F "file=@$SUBMISSION_DIR/submission.csv" "$VALIDATION_URL/validate"'


@pytest.fixture
def competition(tmp_path: Path) -> Competition:
    folder = shutil.copytree(TOY, tmp_path / TOY.name)
    (folder / "grade.py").write_text(GRADER)
    return Competition.load(folder)


def run(script: str, competition: Competition, sandbox: Sandbox, tmp_path: Path) -> RunRecord:
    agent = replace(script_agent(), kwargs={"script": f"cd $SUBMISSION_DIR; {script}"})
    options = RunOptions(
        folder=tmp_path / "runs/group",
        limits=Limits(time_limit=60),
        grading=GradingLimits(memory=1 << 30, seconds=2),
        max_submission_bytes=1000,
    )
    dataset = DataStore(tmp_path / "data").prepare(competition)
    return run_agent(agent, competition, dataset, sandbox, options)


@pytest.mark.full
@pytest.mark.parametrize(("value", "limit"), [(111, "2 s"), (222, "1 GiB of memory")])
def test_a_loop_and_20_gb_invalidate_only_one_run(
    value: int, limit: str, competition: Competition, sandbox: Sandbox, tmp_path: Path
) -> None:
    record = run(f"printf 'id,odd\\n1,{value}\\n' > submission.csv; {VALIDATE}", competition, sandbox, tmp_path)
    assert record.outcome == "invalid_submission"
    assert record.report.error is not None and f"grading takes more than {limit}" in record.report.error
    (validation,) = record.sandbox.validations
    assert validation.verdict.startswith(f"Submission invalid! Checking it takes more than {limit}; is it ")
    following = run(f"printf 'id,odd\\n1,1\\n' > submission.csv; {VALIDATE}", competition, sandbox, tmp_path)
    assert following.outcome == "gold"
    assert [made.verdict for made in following.sandbox.validations] == ["Submission is valid."]


def test_the_checker_reads_no_more_than_the_grader(competition: Competition, sandbox: Sandbox, tmp_path: Path) -> None:
    script = f"head -c 100000 /dev/zero > submission.csv; {VALIDATE}"
    record = run(script, competition, sandbox, tmp_path)
    assert record.report.error == "submission.csv has 100,000 bytes; at most 1,000 are read"
    assert not record.sandbox.validations
    log = tmp_path / f"runs/group/{record.run_id}/run.log"
    assert "The file is too large: at most 1,000 bytes." in log.read_text()


def test_a_running_check_ends_with_its_run(competition: Competition, sandbox: Sandbox, tmp_path: Path) -> None:
    slow, quick = (f"printf 'id,odd\\n1,{value}\\n' > submission.csv" for value in (111, 1))
    record = run(f"{slow}; ({VALIDATE} &); sleep 0.5; {quick}", competition, sandbox, tmp_path)
    assert record.outcome == "gold"
