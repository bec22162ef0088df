"""What a run without a limit on disk space may write."""

from __future__ import annotations

import pytest

from pytest_mlebench.sandbox.limits import FreeSpaceWatcher, disk_share

GIB = 1 << 30


@pytest.mark.parametrize(
    ("free", "workers", "share"),
    [(100 * GIB, 1, 90 * GIB), (100 * GIB, 4, 22.5 * GIB), (100 * GIB, 40, 5 * GIB), (GIB, 1, 5 * GIB)],
)
def test_runs_share_what_is_free_and_none_gets_less_than_five_gibibytes(free: int, workers: int, share: float) -> None:
    assert disk_share(free, workers) == int(share)


def test_where_the_free_space_is_unknown_there_is_no_share() -> None:
    assert disk_share(None, 2) is None


def watched(*free: int | None, written: int | None, share: int | None = 20 * GIB) -> str:
    """What the watcher found after a look at each of these free spaces; the first is the one at the run's start."""
    spaces = iter(free)
    watcher = FreeSpaceWatcher(lambda: next(spaces), lambda: written, lambda: None, share=share)
    for _ in free[1:]:
        assert watcher.look() == bool(watcher.full)
    return watcher.full


def test_a_run_that_wrote_more_than_its_share_is_stopped() -> None:
    found = watched(100 * GIB, 79 * GIB, written=21 * GIB)
    assert found == "21 GiB written, and its share of the disk is 20 GiB; --disk sets a limit"


def test_a_run_is_not_stopped_for_what_others_wrote() -> None:
    assert watched(100 * GIB, 50 * GIB, written=20 * GIB) == ""


def test_on_a_disk_that_is_nearly_full_the_share_counts_as_well() -> None:
    assert "its share of the disk" in watched(4 * GIB, 4 * GIB, written=21 * GIB)


def test_a_run_that_filled_the_disk_is_stopped_although_it_has_a_larger_share() -> None:
    assert "only 512 MiB are left for all runs" in watched(12 * GIB, GIB // 2, written=11 * GIB)
    assert watched(12 * GIB, GIB, written=11 * GIB) == "", "less than twenty times of what is free"


def test_without_a_share_only_a_full_disk_stops_a_run() -> None:
    assert watched(100 * GIB, 10 * GIB, written=90 * GIB, share=None) == ""


def test_where_nobody_knows_what_is_free_nothing_is_stopped() -> None:
    assert watched(None, None, written=90 * GIB) == ""


def test_what_cannot_be_measured_is_not_more_than_the_share() -> None:
    assert watched(100 * GIB, 70 * GIB, written=None) == ""
