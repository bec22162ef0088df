"""The interpretation of a container's end, in words. (Other tests check real containers.)"""

from __future__ import annotations

import pytest

from pytest_mlebench.sandbox import Ending, Limits
from pytest_mlebench.sandbox.limits import RunEnd


@pytest.mark.parametrize(
    ("end", "ending", "detail"),
    [
        (RunEnd(exit_code=0), Ending.FINISHED, ""),
        (RunEnd(exit_code=0, oom_kills=1), Ending.FINISHED, "a process was killed for memory"),
        (RunEnd(exit_code=3), Ending.CRASHED, "exit code 3"),
        (RunEnd(exit_code=139), Ending.CRASHED, "exit code 139 (a process of the agent was killed by SIGSEGV)"),
        (RunEnd(exit_code=255), Ending.CRASHED, "exit code 255"),
        (RunEnd(signal="SIGABRT"), Ending.CRASHED, "killed by SIGABRT"),
        (
            RunEnd(signal="SIGKILL", oom_kills=1),
            Ending.OUT_OF_MEMORY,
            "killed by SIGKILL; a process was killed for memory",
        ),
        (RunEnd(exit_code=1, oom_kills=4), Ending.OUT_OF_MEMORY, "exit code 1; 4 processes were killed for memory"),
        (
            RunEnd(lost=True, oom_kills=1),
            Ending.OUT_OF_MEMORY,
            "the container's first process was killed too; a process was killed for memory",
        ),
        (RunEnd(exit_code=0, time_limit=90), Ending.TIMED_OUT, "stopped after 1 minute 30 seconds"),
        (RunEnd(signal="SIGTERM", time_limit=0.4), Ending.TIMED_OUT, "stopped after 0.4 s"),
        (
            RunEnd(exit_code=1, time_limit=3600, oom_kills=2),
            Ending.TIMED_OUT,
            "stopped after 1 hour; 2 processes were killed for memory",
        ),
        (RunEnd(exit_code=0, out_of_memory="over 9 bytes"), Ending.OUT_OF_MEMORY, "over 9 bytes"),
        (RunEnd(lost=True, disk_full="9 bytes written"), Ending.CRASHED, "disk full: 9 bytes written"),
    ],
)
def test_an_end_is_classified(end: RunEnd, ending: Ending, detail: str) -> None:
    assert end.judge() == (ending, detail)


def test_an_unexplained_lost_end_is_an_error_of_the_harness() -> None:
    assert RunEnd(lost=True).is_unexplained
    for end in (
        RunEnd(),
        RunEnd(lost=True, time_limit=1),
        RunEnd(lost=True, oom_kills=1),
        RunEnd(lost=True, disk_full="x"),
    ):
        assert not end.is_unexplained


@pytest.mark.parametrize(
    ("end", "log", "detail"),
    [
        (RunEnd(signal="SIGXFSZ"), "", "disk full: a file grew over the limit of 9 bytes"),
        (RunEnd(exit_code=153), "", "disk full: a file grew over the limit of 9 bytes"),
        (RunEnd(exit_code=1), "OSError: File too large", "disk full: a file grew over the limit of 9 bytes"),
        (RunEnd(exit_code=1), "No space left on device", "disk full: the limit is 9 bytes"),
        (RunEnd(exit_code=1), "MemoryError", "a process asked for more than 8 bytes"),
        (RunEnd(exit_code=1), "ValueError", "exit code 1"),
        (RunEnd(exit_code=0), "MemoryError: No space left on device", ""),
    ],
)
def test_limits_and_the_end_of_the_log_explain_a_failure(end: RunEnd, log: str, detail: str) -> None:
    assert end.with_clues(Limits(disk=9, memory=8), log, memory=True).judge()[1] == detail


def test_without_a_limit_the_log_alone_explains_nothing() -> None:
    assert RunEnd(exit_code=1).with_clues(Limits(), "No space left on device; MemoryError", memory=True).judge() == (
        Ending.CRASHED,
        "exit code 1",
    )
