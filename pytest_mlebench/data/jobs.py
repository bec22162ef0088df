"""Prepares several competitions at once, each in its own process."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Unpack

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.download.kaggle import KaggleDownloads
from pytest_mlebench.data.store import DataStore, PrepareOptions
from pytest_mlebench.errors import MLEBenchError
from pytest_mlebench.io.processes import end_with, signal_name
from pytest_mlebench.io.progress import Event, Reporter, log_reported

logger = logging.getLogger("pytest_mlebench")


@dataclass(frozen=True, kw_only=True)
class PreparationResult:
    """How the preparation of a competition ended: ``error`` says why it failed."""

    competition: Competition
    error: str | None = None


def prepare_all(
    store: DataStore,
    competitions: Sequence[Competition],
    reporter: Reporter,
    *,
    ended: Callable[[PreparationResult], None],
    jobs: int,
    **options: Unpack[PrepareOptions],
) -> list[PreparationResult]:
    """Prepare competitions, ``jobs`` at once; a failure does not stop the others. Returns one result per competition.

    ``reporter`` receives the events of all competitions; ``ended`` is called with each result as it arrives.

    Each competition is prepared in its own process, so that its memory is released and a killed process affects no
    other. That process holds the competition's lock, and ends with this one. An exception here, such as Ctrl-C, kills
    all of them; a later call resumes their work.
    """
    context = get_context("spawn")
    todo = list(reversed(competitions))
    running: dict[Connection, tuple[Competition, SpawnProcess]] = {}
    results = {}
    try:
        while todo or running:
            while todo and len(running) < jobs:
                competition = todo.pop()
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(sender, store, competition, options))
                process.start()
                running[receiver] = (competition, process)
                sender.close()  # so that the pipe closes when the process ends
            for ready in connection.wait(list(running)):
                assert isinstance(ready, Connection)
                competition, process = running[ready]
                try:
                    message: Event | PreparationResult = ready.recv()
                except EOFError:
                    process.join()
                    message = PreparationResult(competition=competition, error=_failure(competition, process.exitcode))
                if isinstance(message, PreparationResult):
                    results[competition.id] = message
                    del running[ready]
                    ready.close()
                    process.join()
                    ended(message)
                else:
                    reporter(message)
    finally:
        for _, process in running.values():
            process.kill()
        for _, process in running.values():
            process.join()
    return [results[competition.id] for competition in competitions]


def _work(sender: Connection, store: DataStore, competition: Competition, options: PrepareOptions) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends Ctrl-C to all processes: only the parent reacts
    parent = parent_process()
    assert parent is not None and parent.pid is not None
    end_with(parent.pid)
    sending, error = threading.Lock(), None

    def send(message: Event | PreparationResult) -> None:
        with sending:  # libraries may log from other threads
            sender.send(message)

    with log_reported(send, logging.getLogger(), logging.WARNING), log_reported(send, logger):
        try:
            store.prepare(competition, downloads=KaggleDownloads(), reporter=send, **options)
        except MLEBenchError as failure:
            error = str(failure)
    send(PreparationResult(competition=competition, error=error))


def _failure(competition: Competition, exit_code: int | None) -> str:
    cause = f"exit status {exit_code}"
    if exit_code is not None and exit_code < 0:
        cause = signal_name(-exit_code)
        cause += ", perhaps because memory ran out (try fewer --jobs)" if -exit_code == signal.SIGKILL else ""
    return f"{competition.id}: the process that prepared it ended with {cause}; call again to resume"
