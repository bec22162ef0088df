"""Snapshots of a submission while its agent runs, in every sandbox."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.io.files import digest_of
from pytest_mlebench.sandbox import Ending
from pytest_mlebench.sandbox.collection import (
    Identity,
    SnapshotPolicy,
    Snapshots,
    SubmissionFile,
    taking_snapshots,
)
from pytest_mlebench.sandbox.redaction import Redactor
from tests.sandbox.scripted import Result, Runner

QUICK = SnapshotPolicy(check_interval=0.05, spacing=0.0)
FUNCTIONS = """
F=$SUBMISSION_DIR/submission.csv
submit() { printf 'id,label\\n%s\\n' "$1" > $F; }
taken() { bash "$(dirname "$SUBMISSION_DIR")/validate_submission.sh" ${1:-$F}; echo; }
"""
"""For agents: ``taken`` returns when a file has a snapshot, or after a timeout."""


def watch(
    run: Runner, script: str, *, patience: float = 20.0, policy: SnapshotPolicy = QUICK, **options: Any
) -> tuple[Snapshots, Result]:
    snapshots = Snapshots(run.folder / "snapshots", policy=policy, max_bytes=1 << 20)

    def validate(path: Path) -> str:
        deadline, digest = time.monotonic() + patience, digest_of(path)
        while time.monotonic() < deadline:
            if snapshots.taken and snapshots.taken[-1].digest == digest:
                return "taken"
            time.sleep(0.02)
        return "not taken"

    result = run(FUNCTIONS + script, validate=validate, snapshots=snapshots, **options)
    return snapshots, result


def contents(snapshots: Snapshots) -> list[str]:
    return [snapshot.path.read_text() for snapshot in snapshots.taken]


def test_each_submission_has_a_snapshot_with_its_time(run: Runner) -> None:
    snapshots, result = watch(run, "for n in 1 2 3; do submit $n; taken; done")
    assert "not taken" not in result.log and result.execution.ending == Ending.FINISHED
    assert contents(snapshots) == [f"id,label\n{number}\n" for number in (1, 2, 3)]
    times = [snapshot.seconds for snapshot in snapshots.taken]
    assert times == sorted(times) and 0 < times[0] < times[1] < times[2] < result.execution.seconds
    assert not snapshots.notes


@pytest.mark.full
def test_a_repeated_submission_takes_no_additional_space(run: Runner) -> None:
    snapshots, _ = watch(run, "for n in 1 2 1; do submit $n; taken; done")
    assert contents(snapshots) == ["id,label\n1\n", "id,label\n2\n", "id,label\n1\n"]
    assert snapshots.taken[0].path == snapshots.taken[2].path
    assert len(list((run.folder / "snapshots").iterdir())) == 2


def test_a_snapshot_does_not_change_the_access_time_of_the_file(run: Runner) -> None:
    _, result = watch(run, "submit 1; cp $F copy; touch -a -d 2001-02-03 $F; taken copy; stat -c %x $F")
    assert result.log.split("\n")[-2].startswith("2001-02-03")


def test_a_submission_that_only_its_owner_may_read_is_taken(run: Runner) -> None:
    snapshots, _ = watch(run, "umask 077; chmod 700 $SUBMISSION_DIR; submit 1; taken")
    assert contents(snapshots) == ["id,label\n1\n"]


@pytest.mark.full
@pytest.mark.parametrize(
    "make",
    [
        "ln -s /etc/passwd $F",
        "mkfifo $F",
        "mkdir $F",
        "rm -r $SUBMISSION_DIR; ln -s /etc $SUBMISSION_DIR; mkdir -p /tmp/x",
    ],
    ids=["link", "pipe", "folder", "folder's link"],
)
def test_a_special_file_is_not_taken_but_the_next_file_is(run: Runner, make: str) -> None:
    snapshots, result = watch(
        run, f"{make}; sleep 0.5; rm -rf $F $SUBMISSION_DIR; mkdir -p $SUBMISSION_DIR; submit 1; taken"
    )
    assert contents(snapshots) == ["id,label\n1\n"], result.log
    assert result.execution.ending == Ending.FINISHED


def test_a_secret_is_masked(run: Runner) -> None:
    snapshots, _ = watch(
        run,
        "printf 'id,label\\n****************\\n' > masked; submit token-0123456789; taken masked",
        secrets=frozenset({"token-0123456789"}),
    )
    assert contents(snapshots) == [f"id,label\n{'*' * 16}\n"]


@pytest.mark.full
def test_a_submission_that_is_too_large_is_not_taken_and_noted(run: Runner) -> None:
    snapshots, _ = watch(run, "truncate -s 2M $F; sleep 1; submit 1; taken")
    assert contents(snapshots) == ["id,label\n1\n"]
    assert snapshots.notes == ("no snapshot of a submission of more than 1 MiB",)


@pytest.mark.full
def test_a_constantly_changing_file_ends_no_run_and_leaves_no_partial_copy(run: Runner) -> None:
    snapshots, result = watch(
        run,
        "end=$((SECONDS + 3)); while [ $SECONDS -lt $end ]; do "
        "head -c 300000 /dev/zero | tr '\\0' $((RANDOM % 9)) > $F; mkfifo $F.p; mv $F.p $F; rm $F; "
        "ln -s /dev/zero $F; rm $F; done; submit 1; taken",
        time_limit=30,
    )
    assert result.execution.ending == Ending.FINISHED
    assert contents(snapshots)[-1] == "id,label\n1\n"
    assert {len(text) for text in contents(snapshots)[:-1]} <= {300000}, "each snapshot is one complete version"
    assert all(len(set(text)) == 1 for text in contents(snapshots)[:-1])


# Tests without an agent: the source is a folder, or scripted.


@dataclass
class Scripted:
    """A source that shows states in order, each for the two checks that a snapshot needs."""

    states: list[bytes]
    looks: int = 0
    copies: int = 0
    torn: set[int] = field(default_factory=set)

    def look(self) -> Identity | None:
        state = min(self.looks // 2, len(self.states) - 1)
        self.looks += 1
        return Identity(1, state, len(self.states[state]), 0, 0)

    def copy(self, identity: Identity, write: Callable[[bytes], object]) -> bool:
        self.copies += 1
        write(self.states[identity.inode])
        return self.copies not in self.torn

    def close(self) -> None: ...


def watch_source(tmp_path: Path, source: Scripted, policy: SnapshotPolicy, looks: int) -> Snapshots:
    snapshots = Snapshots(tmp_path / "snapshots", policy=policy, max_bytes=1000)
    with taking_snapshots(snapshots, source, Redactor()):
        while source.looks < looks:
            time.sleep(0.005)
    return snapshots


def policy(**changes: float) -> SnapshotPolicy:
    return SnapshotPolicy(**{"check_interval": 0.001, "spacing": 0.0, **changes})  # type: ignore[arg-type]


def test_the_number_of_snapshots_is_limited(tmp_path: Path) -> None:
    states = [str(number).encode() for number in range(40)]
    snapshots = watch_source(tmp_path, Scripted(states), policy(number=5), looks=80)
    assert contents(snapshots) == ["0", "1", "2", "3", "4"]


def test_the_total_size_of_snapshots_is_limited(tmp_path: Path) -> None:
    states = [bytes([65 + number]) * 100 for number in range(20)] + [b"x"]
    snapshots = watch_source(tmp_path, Scripted(states), policy(total_bytes=350), looks=50)
    assert [len(text) for text in contents(snapshots)] == [100, 100, 100, 1]
    assert sum(path.stat().st_size for path in (tmp_path / "snapshots").iterdir()) <= 350
    (note,) = snapshots.notes
    assert note.startswith("no snapshot of a submission: all together are limited to 350 bytes: 17 ×")


def test_snapshots_keep_a_minimum_spacing(tmp_path: Path) -> None:
    states = [str(number).encode() for number in range(20)]
    snapshots = watch_source(tmp_path, Scripted(states), policy(spacing=3600), looks=45)
    assert contents(snapshots) == ["0"]


def test_the_spacing_grows_so_that_200_snapshots_last_for_a_day() -> None:
    policy, seconds = SnapshotPolicy(), 0.0
    for number in range(1, policy.number):
        seconds += policy.spacing_after(number, 0)
    assert policy.spacing_after(1, 0) == 10 and seconds > 24 * 3600
    assert policy.spacing_after(1, policy.total_bytes // 2) == 320, "also for large ones"


def test_a_file_changed_during_the_copy_is_taken_when_it_is_stable(tmp_path: Path) -> None:
    source = Scripted([b"torn"], torn={1, 2})
    snapshots = watch_source(tmp_path, source, policy(), looks=12)
    assert contents(snapshots) == ["torn"] and source.copies == 3
    assert [path.name for path in (tmp_path / "snapshots").iterdir()] == ["0001.csv"]


def test_an_error_ends_the_snapshots_but_not_the_run(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path / "snapshots", policy=policy())
    (tmp_path / "snapshots").write_text("a file where the folder should be")
    source = Scripted([b"x"])
    with taking_snapshots(snapshots, source, Redactor()):
        while not snapshots.notes:
            time.sleep(0.005)
    (note,) = snapshots.notes
    assert note.startswith("no further snapshots of the submission: ") and not snapshots.taken


def test_a_copy_is_abandoned_when_the_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "submission.csv").write_text("one")
    source, written = SubmissionFile(tmp_path), bytearray()
    found = source.look()
    assert found is not None and source.copy(found, written.extend) and written == b"one"
    (tmp_path / "submission.csv").unlink()
    os.mkfifo(tmp_path / "submission.csv")
    assert source.look() is None and not source.copy(found, written.extend)
    (tmp_path / "submission.csv").unlink()
    (tmp_path / "other.csv").write_text("two")
    (tmp_path / "submission.csv").symlink_to("other.csv")
    assert source.look() is None and not source.copy(found, written.extend) and written == b"one"
