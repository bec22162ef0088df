"""Grading in a process with limits: the harness survives and reports every failure of that process."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import CompetitionError, DataError
from pytest_mlebench.grading import grader as grader_module
from pytest_mlebench.grading.grader import Grader, GradingLimits
from pytest_mlebench.grading.process import MAX_WORKERS
from pytest_mlebench.records.outcome import Report

pytestmark = pytest.mark.serial

TOY = Path(__file__).parents[1] / "toys/competitions/toy-parity"
LIMITS = GradingLimits(memory=1 << 30, seconds=60)  # generous, since the machine may be busy
MakeGrader = Callable[..., Grader]


@pytest.fixture(scope="module")
def toy_store(tmp_path_factory: pytest.TempPathFactory) -> DataStore:
    store = DataStore(tmp_path_factory.mktemp("data"))
    store.prepare(Competition.load(TOY))
    return store


@pytest.fixture
def make_grader(tmp_path: Path, toy_store: DataStore) -> MakeGrader:
    """A grader of a toy competition with another ``grade.py``."""

    def make(body: str, *, limits: GradingLimits = LIMITS, head: str = "") -> Grader:
        folder = tmp_path / TOY.name
        shutil.copytree(TOY, folder, dirs_exist_ok=True)
        lines = "\n".join(f"    {line}" for line in body.splitlines())
        (folder / "grade.py").write_text(
            f"from pytest_mlebench.grading import InvalidSubmission\n{head}\ndef grade(submission, answers):\n{lines}\n"
        )
        competition = Competition.load(folder)
        return Grader(competition, toy_store.dataset(competition), limits=limits)

    return make


@pytest.fixture
def as_bundled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graders of this test write marker files, which third-party graders cannot do."""
    monkeypatch.setattr(grader_module, "is_third_party", lambda competition: False)


@pytest.fixture
def submission(tmp_path: Path) -> Path:
    path = tmp_path / "submission.csv"
    path.write_text("id,odd\n" + "".join(f"{id},{id % 2}\n" for id in range(80, 100)))
    return path


def outcome(report: Report) -> tuple[float | None, bool, bool]:
    return report.score, report.valid_submission, report.grader_defect


def test_a_score_is_returned_rounded(make_grader: MakeGrader, submission: Path) -> None:
    report = make_grader("return 0.123456789").report(submission)
    assert outcome(report) == (0.12346, True, False) and report.error is None


def test_a_score_of_numpy_is_rounded_as_numpy_rounds(make_grader: MakeGrader, submission: Path) -> None:
    assert make_grader("return 0.540625").report(submission).score == 0.54063
    assert make_grader("import numpy\nreturn numpy.float64(0.540625)").report(submission).score == 0.54062


@pytest.mark.parametrize(("returned", "score"), [("float('nan')", None), ("float('-inf')", -float("inf")), ("1", 1.0)])
def test_nan_is_not_a_score_and_other_numbers_are(
    returned: str, score: float | None, make_grader: MakeGrader, submission: Path
) -> None:
    assert outcome(make_grader(f"return {returned}").report(submission)) == (score, True, False)


def test_the_report_contains_the_graders_reason(make_grader: MakeGrader, submission: Path) -> None:
    report = make_grader("raise InvalidSubmission('odd is even: \\ud800 ü')").report(submission)
    assert outcome(report) == (None, False, False) and report.error == "odd is even: ? ü"


def test_a_missing_file_is_not_a_submission(make_grader: MakeGrader, tmp_path: Path) -> None:
    report = make_grader("return 1").report(tmp_path / "none.csv")
    assert not report.submission_exists and report.error == f"file not found: {tmp_path / 'none.csv'}"


@pytest.mark.parametrize(
    "body",
    [
        "import numpy\nreturn numpy.ones(20 << 27).sum()",
        "return len(bytearray(20 << 30))",
        "blocks = []\nwhile True: blocks.append(bytes(range(256)) * 40_000)",
        "import mmap\nblock = mmap.mmap(-1, 2 << 30)\nwhile True: block.write(bytes(1 << 20))",
        "import os\nblock = bytearray(700 << 20)\nos.kill(os.getpid(), 9)",
    ],
    ids=["an array of 20 GB", "a block of 20 GB", "growing memory", "shared memory", "killed by the kernel when large"],
)
def test_more_memory_than_the_limit_makes_the_submission_invalid(
    body: str, make_grader: MakeGrader, submission: Path
) -> None:
    report = make_grader(body).report(submission)
    assert outcome(report) == (None, False, False)
    assert report.error == "grading takes more than 1 GiB of memory (--grading-memory)"


@pytest.mark.parametrize(
    "body",
    ["while True: pass", "import time\ntime.sleep(1000)", "return max(x for x in iter(int, 1))", "10 ** 10 ** 10"],
    ids=["a loop", "sleep", "an endless iterator", "in C"],
)
def test_more_time_than_the_limit_makes_the_submission_invalid(
    body: str, make_grader: MakeGrader, submission: Path
) -> None:
    report = make_grader(body, limits=GradingLimits(seconds=0.5)).report(submission)
    assert outcome(report) == (None, False, False)
    assert report.error == "grading takes more than 0.5 s (--grading-time)"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("return submission['none']", "grade.py raised KeyError: 'none'"),
        ("return 'text'", "grade.py: grade returned 'text', which is not a number"),
        ("return None", "grade.py: grade returned None, which is not a number"),
        ("grade(submission, answers)", "grade.py raised RecursionError: maximum recursion depth"),
        ("return True", "grade.py: grade returned True, which is not a number"),
        ("return 10**400", "grade.py: grade returned 1000"),
        ("return '1.5'", "grade.py: grade returned '1.5', which is not a number"),
        ("import sys\nsys.exit(0)", "grade.py raised SystemExit: 0"),
        ("import os\nos._exit(0)", "grading ended with no reply"),
        ("import ctypes\nctypes.string_at(0)", "grading ended with SIGSEGV"),
        ("import os\nos.abort()", "grading ended with SIGABRT"),
        ("raise RuntimeError(chr(0x1F600) * 5000)", "grade.py raised RuntimeError: \U0001f600"),
    ],
)
def test_other_failures_are_defects_of_the_grader(
    body: str, error: str, make_grader: MakeGrader, submission: Path, caplog: pytest.LogCaptureFixture
) -> None:
    report = make_grader(body).report(submission)
    assert outcome(report) == (None, False, True)
    assert report.error is not None and report.error.startswith(error)
    assert "toy-parity: the grader failed on" in caplog.text


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            "UsageError",
            "private/test.csv cannot be read: UsageError: odd (grade.py, line 4: raise UsageError('odd'))",
        ),
        ("InvalidSubmission", "cannot be read: InvalidSubmission: odd"),
        ("OSError", "cannot be read: OSError: odd"),
        ("CompetitionError", "odd"),
        ("DataError", "odd"),
    ],
)
def test_answers_that_cannot_be_read_are_a_defect_whatever_the_error(
    error: str, expected: str, make_grader: MakeGrader, submission: Path
) -> None:
    head = f"from pytest_mlebench.errors import *\ndef read_answers(path):\n    raise {error}('odd')\n"
    report = make_grader("return 1", head=head).report(submission)
    assert outcome(report) == (None, False, True) and expected in str(report.error)


def test_a_defect_is_logged_with_the_line_of_the_grader(
    make_grader: MakeGrader, submission: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_grader("return submission['none']").report(submission)
    assert "grade.py" in caplog.text and "return submission['none']" in caplog.text


def test_after_a_worker_dies_the_next_submission_is_graded(make_grader: MakeGrader, submission: Path) -> None:
    body = "if submission['odd'].sum() == 10: import os; os.abort()\nreturn 0.5"
    grader = make_grader(body)
    other = submission.with_name("other.csv")
    other.write_text("id,odd\n80,1\n")
    scores = [grader.report(path).score for path in (submission, other, submission, other)]
    assert scores == [None, 0.5, None, 0.5]


@pytest.mark.usefixtures("as_bundled")
def test_a_worker_killed_from_outside_is_not_blamed_on_the_submission(
    make_grader: MakeGrader, submission: Path, tmp_path: Path
) -> None:
    body = f"if not os.path.exists({str(tmp_path / 'x')!r}):\n    open({str(tmp_path / 'x')!r}, 'w')\n"
    killed_once = make_grader(body + "    os.kill(os.getpid(), 9)\nreturn 0.5", head="import os")
    assert outcome(killed_once.report(submission)) == (0.5, True, False)
    always = make_grader("os.kill(os.getpid(), 9)", head="import os").report(submission)
    assert outcome(always) == (None, False, True)
    assert always.error == "grading was killed 3 times: is this machine short of memory?"


@pytest.mark.usefixtures("as_bundled")
def test_a_killed_grading_process_loses_no_submission(
    make_grader: MakeGrader, submission: Path, tmp_path: Path
) -> None:
    body = f"if not os.path.exists({str(tmp_path / 'x')!r}):\n    open({str(tmp_path / 'x')!r}, 'w')\n"
    grader = make_grader(body + "    os.kill(os.getppid(), 9)\n    while True: pass\nreturn 0.5", head="import os")
    assert outcome(grader.report(submission)) == (0.5, True, False)


@pytest.mark.usefixtures("as_bundled")
def test_the_answers_are_read_once_for_consecutive_submissions(
    make_grader: MakeGrader, submission: Path, tmp_path: Path
) -> None:
    log = tmp_path / "reads"
    head = f"def read_answers(path):\n    open({str(log)!r}, 'a').write('x')\n    return path\n"
    grader = make_grader("return 1", head=head)
    assert not log.exists()
    assert [grader.report(submission).score for _ in range(3)] == [1, 1, 1]
    assert log.read_text() == "x"


@pytest.mark.usefixtures("as_bundled")
def test_recent_graders_keep_their_workers_without_sharing_pipes(
    make_grader: MakeGrader, submission: Path, tmp_path: Path
) -> None:
    log = tmp_path / "pids"
    body = f"open({str(log)!r}, 'a').write(f'{{os.getpid()}} ')\nreturn len(os.listdir('/proc/self/fd'))"
    graders = [make_grader(body, head=f"import os  # {number}") for number in range(MAX_WORKERS + 1)]
    turns = [0, 1, 0, 1, *range(2, MAX_WORKERS + 1), 1, 0]
    open_files = {graders[number].report(submission).score for number in turns}
    workers = list(map(int, log.read_text().split()))
    assert len(open_files) == 1
    assert workers[0] == workers[2] and workers[1] == workers[3] == workers[-2], "kept"
    assert len(set(workers)) == MAX_WORKERS + 2 and not _lives(workers[0]), "the first was the oldest"
    assert sum(map(_lives, set(workers))) <= MAX_WORKERS


def test_a_grader_cannot_write_to_the_terminal(
    make_grader: MakeGrader, submission: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    body = "print('out')\nprint('err', file=sys.stderr)\nos.write(1, b'raw')\nos.write(2, b'raw')\nreturn 1"
    assert make_grader(body, head="import os, sys").report(submission).score == 1
    assert capfd.readouterr() == ("", "")


def test_a_grader_does_not_spoil_the_answers_for_the_next_submission(make_grader: MakeGrader, submission: Path) -> None:
    grader = make_grader("answers['odd'] += 1\nreturn answers['odd'].sum()")
    assert [grader.report(submission).score for _ in range(2)] == [30, 30]


def test_a_very_long_reason_is_truncated(make_grader: MakeGrader, submission: Path) -> None:
    report = make_grader("raise InvalidSubmission('x' * 10_000_000)").report(submission)
    assert report.error is not None and 1000 < len(report.error) < 10_000


@pytest.mark.parametrize(
    "written",
    [
        *("x' * 10_000_000 + b'", "nonsense\\n", "[1]\\n", '{"score": []}\\n', "[' * 60_000 + b'\\n"),
        *('{"error": "x"}\\n', '{"error": "x", "kind": []}\\n', '{"error": "x", "kind": "UsageError"}\\n'),
    ],
)
def test_a_worker_that_writes_arbitrary_data_gives_no_score(
    written: str, make_grader: MakeGrader, submission: Path
) -> None:
    body = f"import os\nfor pipe in range(3, 20):\n    try: os.write(pipe, b'{written}')\n    except OSError: pass"
    assert outcome(make_grader(body).report(submission)) == (None, False, True)


def test_broken_competitions_and_missing_answers_are_reported_before_grading(
    make_grader: MakeGrader, tmp_path: Path
) -> None:
    with pytest.raises(
        CompetitionError, match=r"grade.py cannot be imported: NameError: name 'nonsense' is not defined"
    ):
        make_grader("return 1", head="nonsense")
    competition = Competition.load(TOY)
    with pytest.raises(
        DataError,
        match=r"no answers at .*; run `mlebench prepare -c toy-parity --comp.*/toys/competitions`",
    ):
        Grader(competition, Dataset(competition, tmp_path))


@pytest.mark.full
def test_answers_lost_while_an_agent_runs_are_a_defect(submission: Path, tmp_path: Path) -> None:
    competition = Competition.load(TOY)
    store = DataStore(tmp_path / "data")
    store.prepare(competition)
    grader = Grader(competition, store.dataset(competition))
    store.dataset(competition).answers.unlink()
    grader_module._stop_all()  # as if the process that had read them had died
    report = grader.report(submission)
    assert outcome(report) == (None, False, True)
    assert "no answers" in str(report.error)


def test_several_threads_can_grade_at_once(make_grader: MakeGrader, submission: Path) -> None:
    grader = make_grader("return 1")
    reports: list[Report] = []
    threads = [threading.Thread(target=lambda: reports.append(grader.report(submission))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [report.score for report in reports] == [1, 1, 1]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "Ctrl-C"])
def test_workers_end_with_their_harness(
    how: signal.Signals, submission: Path, tmp_path: Path, toy_store: DataStore
) -> None:
    folder = tmp_path / TOY.name
    shutil.copytree(TOY, folder)
    pids = tmp_path / "pids"
    (folder / "grade.py").write_text(
        "import os\n"
        f"def grade(submission, answers):\n    open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{os.getppid()}}\\n')\n"
        "    while True: pass\n"
    )
    script = (
        "from pathlib import Path; from pytest_mlebench.catalog import Competition; "
        "from pytest_mlebench.data.store import DataStore; from pytest_mlebench.grading import grade, grader; "
        "grader.is_third_party = lambda competition: False; "
        f"competition = Competition.load(Path({str(folder)!r})); "
        f"grade(Path({str(submission)!r}), competition, DataStore(Path({str(toy_store.root)!r})).dataset(competition))"
    )
    harness = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    try:
        _wait_for(lambda: pids.exists() and pids.read_text().endswith("\n"))
        harness.send_signal(how)
        _, errors = harness.communicate(timeout=60)
    finally:
        harness.kill()
        harness.wait()
    assert how is signal.SIGKILL or errors.endswith("KeyboardInterrupt\n")
    processes = [int(pid) for pid in pids.read_text().split()]
    _wait_for(lambda: not any(map(_lives, processes)))


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
