"""Attacks on graded files. Each test fails if the attack succeeds."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tests.left import left
from tests.sandbox.scripted import MB, SAMPLE, SUBMIT, Runner

pytestmark = pytest.mark.docker


@pytest.mark.parametrize(
    "make",
    [
        "ln -s /etc/passwd $F",
        "ln -s /home/data/sample_submission.csv $F",
        "ln -s /proc/self/environ $F",
        "mkfifo $F",
        "mkdir $F",
        "mknod $F b 8 0 || mknod $F c 1 5 || true",
        "python3 -c 'import os, socket; socket.socket(socket.AF_UNIX).bind(os.environ[\"F\"])'",
        "ln /home/data/sample_submission.csv $F || true",
    ],
)
def test_a_submission_that_is_not_a_file_is_missing(attack: Runner, make: str) -> None:
    result = attack(f'export F="$SUBMISSION_DIR/submission.csv"; {make}; echo done')
    assert "done" in result.log
    path = result.run_dir / "submission/submission.csv"
    assert not path.is_symlink()
    assert not path.exists() or path.is_dir()


def test_a_hard_link_to_an_own_file_is_at_most_a_copy(attack: Runner) -> None:
    result = attack(
        f"{SUBMIT}; ln $SUBMISSION_DIR/submission.csv $SUBMISSION_DIR/again.csv; ln -f /etc/passwd $CODE_DIR/p"
    )
    for path in filter(Path.is_file, result.run_dir.rglob("*")):
        assert path.stat().st_nlink == 1
    assert "code/p" not in left(result.run_dir)


def test_five_gigabytes_are_not_collected_but_small_files_are(attack: Runner) -> None:
    free = _free_bytes(attack.folder)
    started = time.monotonic()
    result = attack(
        "truncate -s 5G $SUBMISSION_DIR/submission.csv; truncate -s 8T $CODE_DIR/a; echo x > $CODE_DIR/b; "
        "echo kept > $LOGS_DIR/note",
        collect_bytes=100 * MB,
    )
    assert result.submission is None
    assert "logs/note" in left(result.run_dir)
    assert "submission.csv" in " ".join(result.execution.sandbox.left_out)
    assert free - _free_bytes(attack.folder) < 500 * MB
    assert time.monotonic() - started < 60


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def test_a_submission_after_something_huge_is_still_found(attack: Runner) -> None:
    result = attack(f"{SUBMIT}; truncate -s 8T $SUBMISSION_DIR/a", collect_bytes=100 * MB)
    assert result.submission == SAMPLE
