"""Checks of the submission format in a process that can open only the public files."""

from __future__ import annotations

import ctypes
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import CompetitionError, DataError
from pytest_mlebench.grading.grader import VALID, FormChecker, GradingLimits

TOY = Path(__file__).parents[1] / "toys/competitions/toy-parity"
DEFECT = "Submission invalid! It could not be read in the competition's format."
MakeChecker = Callable[..., FormChecker]
needs_landlock = pytest.mark.skipif(
    ctypes.CDLL(None).syscall(444, None, 0, 1) < 4, reason="this kernel has no Landlock for files and connections"
)


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """Public files without private files next to them."""
    dataset = DataStore(tmp_path / "made").prepare(Competition.load(TOY))
    return shutil.copytree(dataset.public, tmp_path / "data/public")


@pytest.fixture
def make_checker(tmp_path: Path, public: Path) -> MakeChecker:
    """A checker of a toy competition with another ``grade.py``."""

    def make(source: str | None = None, **options: int | GradingLimits) -> FormChecker:
        folder = tmp_path / TOY.name
        shutil.copytree(TOY, folder, dirs_exist_ok=True)
        if source is not None:
            (folder / "grade.py").write_text(f"{source}\n")
        return FormChecker(Competition.load(folder), public, **options)  # type: ignore[arg-type]

    return make


@pytest.fixture
def submission(tmp_path: Path) -> Path:
    path = tmp_path / "uploads/submission.csv"
    path.parent.mkdir()
    path.write_text("id,odd\n" + "".join(f"{id},1\n" for id in range(80, 100)))
    return path


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_without_a_check_the_sample_submission_defines_the_format(make_checker: MakeChecker, submission: Path) -> None:
    check = make_checker("def grade(submission, answers):\n    raise AssertionError")
    assert check(submission) == VALID == "Submission is valid."
    rows = submission.read_text()
    for text, reason in (
        ("id\n80\n", "column 'odd' is missing; the file has 'id'"),
        (rows.replace("80,1\n", ""), "id 80 is missing"),
        (rows.replace("80,1\n", "81,1\n"), "id 81 occurs more than once"),
        (rows.replace("80,1\n", "7,1\n"), "id 7 is not an id of the test set"),
        (rows.replace("80,1\n", "80,x\n"), "column 'odd', row 1: 'x' is not a number"),
        ("", "column 'id' is missing; the file has none"),
    ):
        assert check(written(submission, text)) == f"Submission invalid! {reason}"


def test_repeated_ids_of_the_sample_submission_are_counted(
    make_checker: MakeChecker, submission: Path, public: Path
) -> None:
    sample = public / "sample_submission.csv"
    sample.chmod(0o644)
    sample.write_text("day,x\n1,\n1,\n")
    check = make_checker("def grade(submission, answers): pass")
    assert check(written(submission, "day,x\n5,a\n6,b\n")) == VALID
    assert check(written(submission, "day,x\n5,a\n")) == "Submission invalid! the file has 1 rows; 2 were expected"


def test_a_competition_defines_the_check_and_its_template(make_checker: MakeChecker, submission: Path) -> None:
    check = make_checker(
        "from pytest_mlebench.grading import InvalidSubmission\n"
        "def read_template(public): return (public / 'test.csv').read_text().split()\n"
        "def check(submission, template):\n"
        "    raise InvalidSubmission(f'{len(submission)} rows for {len(template)} lines, {template[0]} first')"
    )
    assert check(submission) == "Submission invalid! 20 rows for 21 lines, id first"


def test_the_graders_score_is_not_computed(make_checker: MakeChecker, submission: Path) -> None:
    source = "def grade(submission, answers):\n    while True: pass"
    assert make_checker(source, limits=GradingLimits(seconds=5))(submission) == VALID


FORGE_REPLY = """import contextlib, os
    for pipe in range(3, 20):
        with contextlib.suppress(OSError):
            os.write(pipe, b'{"error": "x", "kind": "DataError"}\\n')
"""


@pytest.mark.full
@pytest.mark.parametrize("body", ["raise KeyError(answers)", "import os; os.abort()", "return 1 / 0", FORGE_REPLY])
def test_a_failing_check_does_not_reveal_the_cause(
    body: str, make_checker: MakeChecker, submission: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert make_checker(f"def check(submission, template):\n    {body}\ndef grade(s, a): pass")(submission) == DEFECT
    assert "toy-parity: the checker failed" in caplog.text


@needs_landlock
@pytest.mark.parametrize("call", ["read_template(public)", "check(submission, template)"])
def test_private_files_cannot_be_opened_even_by_a_check_that_knows_where_they_are(
    call: str, make_checker: MakeChecker, submission: Path, public: Path
) -> None:
    private = public.with_name("private")
    private.mkdir()
    (private / "test.csv").write_text("id,odd\n")
    name = call.partition("(")[0]
    source = (
        f"def {call}:\n    open({str(private / 'test.csv')!r}).read()\n"
        f"    raise AssertionError\ndef grade(submission, answers): pass"
    )
    if name == "read_template":
        with pytest.raises(CompetitionError, match=r"grade.py cannot be used: PermissionError"):
            make_checker(source)
    else:
        assert make_checker(source)(submission) == DEFECT


@pytest.mark.full
@needs_landlock
def test_a_check_writes_no_files_and_opens_no_connections(
    make_checker: MakeChecker, submission: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for body in (f"open({str(tmp_path / 'new')!r}, 'w')", "__import__('socket').create_connection(('127.0.0.1', 1))"):
        assert make_checker(f"def check(s, t):\n    {body}\ndef grade(s, a): pass")(submission) == DEFECT
        assert "PermissionError" in caplog.text
        caplog.clear()


@pytest.mark.full
def test_limits_hold_for_checks_too(make_checker: MakeChecker, submission: Path) -> None:
    head = "import numpy\ndef grade(s, a): pass\ndef check(s, t):\n"
    assert make_checker(f"{head}    numpy.ones(20 << 27)")(submission) == (
        "Submission invalid! Checking it takes more than 8 GiB of memory; is it larger than it should be?"
    )
    loop = make_checker(f"{head}    while True: pass", limits=GradingLimits(seconds=1))
    assert loop(submission) == "Submission invalid! Checking it takes more than 1 s; is it larger than it should be?"
    small = make_checker("def grade(s, a): pass", max_bytes=100)
    assert small(submission) == "Submission invalid! submission.csv has 107 bytes; at most 100 are read"


@pytest.mark.full
def test_a_running_check_ends_when_it_is_stopped(make_checker: MakeChecker, submission: Path, tmp_path: Path) -> None:
    check = make_checker("def grade(s, a): pass\ndef check(s, t):\n    while True: pass")
    verdicts: list[str] = []
    asking = threading.Thread(target=lambda: verdicts.append(check(submission)))
    asking.start()
    asking.join(0.5)
    check.stop()
    asking.join(30)
    assert verdicts == ["The submission was not checked: the run is over."]
    assert check(submission) == verdicts[0]


@pytest.mark.full
def test_broken_templates_are_reported_before_any_check(make_checker: MakeChecker, public: Path) -> None:
    public.chmod(0o755)
    (public / "sample_submission.csv").unlink()
    with pytest.raises(DataError, match=r"sample_submission.csv is missing"):
        make_checker("def grade(s, a): pass")
    with pytest.raises(CompetitionError, match=r"grade.py cannot be used: the template is odd"):
        make_checker(
            "from pytest_mlebench.grading import InvalidSubmission\ndef grade(s, a): pass\n"
            "def read_template(public): raise InvalidSubmission('the template is odd')"
        )
