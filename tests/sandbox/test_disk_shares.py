"""How much a run without a disk limit may write."""

from __future__ import annotations

import threading
import time

import pytest

from pytest_mlebench.sandbox.limits import DiskWatcher, disk_share

GIB = 1 << 30


@pytest.mark.parametrize(
    ("free", "workers", "share"),
    [(100 * GIB, 1, 90 * GIB), (100 * GIB, 4, 22.5 * GIB), (100 * GIB, 40, 5 * GIB), (GIB, 1, 5 * GIB)],
)
def test_runs_share_the_free_space_with_at_least_five_gib_each(free: int, workers: int, share: float) -> None:
    assert disk_share(free, workers) == int(share)


def test_unknown_free_space_gives_no_share() -> None:
    assert disk_share(None, 2) is None


def watched(*free: int | None, written: int | None, share: int | None = 20 * GIB) -> str:
    """The watcher's result after checks with these free spaces; the first is the free space at the run's start."""
    spaces = iter(free)
    watcher = DiskWatcher(lambda: written, lambda: next(spaces), lambda: None, share=share)
    for _ in free[1:]:
        assert watcher.look() == bool(watcher.full)
    return watcher.full


def test_a_run_that_wrote_more_than_its_share_is_stopped() -> None:
    found = watched(100 * GIB, 79 * GIB, written=21 * GIB)
    assert found == "21 GiB written, and its share of the disk is 20 GiB; --disk sets a limit"


def test_a_run_is_not_stopped_for_data_that_others_wrote() -> None:
    assert watched(100 * GIB, 50 * GIB, written=20 * GIB) == ""


def test_the_share_also_counts_on_a_nearly_full_disk() -> None:
    assert "its share of the disk" in watched(4 * GIB, 4 * GIB, written=21 * GIB)


def test_a_run_that_filled_the_disk_is_stopped_within_its_share() -> None:
    assert "only 512 MiB are left for all runs" in watched(12 * GIB, GIB // 2, written=11 * GIB)
    assert watched(12 * GIB, GIB, written=11 * GIB) == "", "less than twenty times the free space"


def test_without_a_share_only_a_full_disk_stops_a_run() -> None:
    assert watched(100 * GIB, 10 * GIB, written=90 * GIB, share=None) == ""


def test_a_nearly_full_disk_stops_every_run_since_not_all_that_is_written_is_measured() -> None:
    found = watched(100 * GIB, GIB // 2, written=0)
    assert found == "only 512 MiB of the disk are left, which ends every run without its own disk"
    assert watched(100 * GIB, GIB, written=0) == ""


def test_a_run_may_use_half_of_what_was_left_of_a_nearly_full_disk() -> None:
    assert watched(GIB, GIB // 2, written=0) == ""
    assert "of the disk are left" in watched(GIB, GIB // 2 - 1, written=0)


def test_a_limited_run_is_stopped_on_a_nearly_full_disk_even_between_two_measurements() -> None:
    stopped, measured = threading.Event(), list[float]()
    free = iter([4 * GIB, 4 * GIB, GIB // 4])

    def written() -> int:
        measured.append(0)
        time.sleep(1)  # so the next measurement is ten seconds later
        return 0

    with DiskWatcher(written, lambda: next(free), stopped.set, limit=GIB) as watcher:
        assert stopped.wait(60)
    assert "256 MiB of the disk are left" in watcher.full and len(measured) == 1


def test_no_run_is_stopped_if_the_free_space_is_unknown() -> None:
    assert watched(None, None, written=90 * GIB) == ""


def test_unmeasurable_usage_does_not_exceed_the_share() -> None:
    assert watched(100 * GIB, 70 * GIB, written=None) == ""
