"""Requests of several threads at once, for which Ctrl-C does not wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TypeVar

Item = TypeVar("Item")
T = TypeVar("T")


def in_parallel(
    call: Callable[[Item], T], items: Sequence[Item], threads: int, stopped: Event | None = None
) -> list[T]:
    """What ``call`` returns for each item, in their order.

    An error of a call is raised when the calls that have begun have ended; no other begins. Ctrl-C leaves them behind:
    a server that does not answer may hold a thread for minutes, and Python waits for those of an executor. ``stopped``
    is set after the first error, for calls that wait.
    """
    stopped = stopped or Event()
    waiting: SimpleQueue[tuple[int, Item]] = SimpleQueue()
    ended: SimpleQueue[tuple[int, T | BaseException, bool]] = SimpleQueue()
    for number, item in enumerate(items):
        waiting.put((number, item))

    def begin_no_more() -> None:
        with suppress(Empty):
            while True:
                waiting.get_nowait()

    def work() -> None:
        with suppress(Empty):
            while True:
                number, item = waiting.get_nowait()
                try:
                    ended.put((number, call(item), False))
                except BaseException as error:
                    begin_no_more()
                    ended.put((number, error, True))
                    stopped.set()

    running = [Thread(target=work, daemon=True) for _ in range(min(threads, len(items)))]
    for thread in running:
        thread.start()
    results: dict[int, T] = {}
    try:
        for _ in items:
            number, result, failed = ended.get()
            if failed:
                raise result  # type: ignore[misc]
            results[number] = result  # type: ignore[assignment]
    except BaseException as error:
        begin_no_more()
        stopped.set()
        if isinstance(error, Exception):
            for thread in running:
                thread.join()
        raise
    return [results[number] for number in range(len(items))]
