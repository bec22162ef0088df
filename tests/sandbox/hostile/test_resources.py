"""Attacks on memory, processes and the log. Each test fails if the attack succeeds."""

from __future__ import annotations

import resource
import time

import pytest

from pytest_mlebench.sandbox import Ending
from tests.sandbox.scripted import MB, SAMPLE, SUBMIT, Runner

pytestmark = [pytest.mark.docker, pytest.mark.serial]


def test_a_fork_bomb_hurts_only_itself(attack: Runner) -> None:
    started = time.monotonic()
    result = attack(f"{SUBMIT}; bomb() {{ bomb | bomb & }}; bomb; sleep 600", time_limit=5, processes=128)
    assert result.execution.ending == Ending.TIMED_OUT
    assert result.submission == SAMPLE
    assert time.monotonic() - started < 60


def test_a_memory_bomb_ends_its_run_and_no_other(attack: Runner) -> None:
    attacker = """
import os
while True:
    try:
        child = os.fork() == 0
    except OSError:  # no more processes; the existing ones continue
        continue
    x = []
    while child: x.append(b'x' * (1 << 22))
"""
    result = attack(
        f'{SUBMIT}; echo -1000 > /proc/self/oom_score_adj; exec python3 -c "{attacker}"',
        memory=200 * MB,
        time_limit=15,
        processes=64,
    )
    assert result.execution.ending in (Ending.OUT_OF_MEMORY, Ending.TIMED_OUT)
    assert "killed for memory" in result.execution.detail
    assert result.submission == SAMPLE


def test_shared_memory_counts_as_memory(attack: Runner) -> None:
    result = attack(f"{SUBMIT}; head -c 900M /dev/zero > /dev/shm/x; exit 1", memory=200 * MB)
    assert result.execution.ending == Ending.OUT_OF_MEMORY
    assert result.submission == SAMPLE


def test_an_agent_that_survives_an_oom_killed_child_is_finished_and_the_record_notes_it(attack: Runner) -> None:
    result = attack(f"python3 -c 'x = b\"x\" * (1 << 30)'; {SUBMIT}", memory=200 * MB)
    assert result.execution.ending == Ending.FINISHED
    assert "killed for memory" in result.execution.detail


def test_many_files_do_not_fill_a_disk(attack: Runner) -> None:
    result = attack(
        f"{SUBMIT}; for i in $(seq 10000); do head -c 8M /dev/zero > /home/fill-$i; done",
        disk=64 * MB,
        time_limit=120,
    )
    assert result.execution.ending == Ending.CRASHED
    assert "disk full" in result.execution.detail
    assert result.submission == SAMPLE


def test_a_flood_of_output_fills_neither_disk_nor_memory(attack: Runner) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = attack(f"{SUBMIT}; exec yes flood", time_limit=8, log_bytes=2 * MB)
    assert result.execution.ending == Ending.TIMED_OUT
    assert (result.run_dir / "run.log").stat().st_size < 2.2 * MB
    assert sorted(path.name for path in result.run_dir.iterdir()) == ["run.log", "submission"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024


def test_limits_cannot_be_raised_from_inside(attack: Runner) -> None:
    result = attack(
        "for file in memory/memory.limit_in_bytes memory.max pids/pids.max pids.max cpu/cpu.cfs_quota_us cpu.max; do "
        "echo max > /sys/fs/cgroup/$file && echo raised; done 2>/dev/null; "
        "mkdir /sys/fs/cgroup/memory/x 2>/dev/null && echo made; "
        "for file in sysrq-trigger sys/kernel/core_pattern sys/vm/drop_caches; do echo b > /proc/$file && echo wrote; "
        "done 2>/dev/null; ulimit -c unlimited 2>/dev/null && echo cores; echo tried",
        disk=64 * MB,
    )
    assert result.log.split() == ["tried"]
