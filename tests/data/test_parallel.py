from __future__ import annotations

import threading
import time

import pytest

from pytest_mlebench.data.download.transfers import in_parallel


def test_results_are_in_the_order_of_the_items() -> None:
    def call(number: int) -> int:
        time.sleep(0.01 * (5 - number))
        return number * number

    assert in_parallel(call, range(5), 3) == [0, 1, 4, 9, 16]
    assert in_parallel(call, [], 3) == []


def test_an_error_is_raised_after_started_calls_end() -> None:
    begun, ended = [], []
    both = threading.Barrier(2)

    def call(number: int) -> None:
        begun.append(number)
        both.wait(10)
        if number == 0:
            raise ValueError("no")
        time.sleep(0.2)
        ended.append(number)

    with pytest.raises(ValueError, match="no"):
        in_parallel(call, range(10), 2)
    assert sorted(begun) == [0, 1] and ended == [1]
