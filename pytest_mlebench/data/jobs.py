"""Preparing several competitions at once, each in a process of its own."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Unpack

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.download.contract import Downloads
from pytest_mlebench.data.store import DataStore, PrepareOptions
from pytest_mlebench.errors import CompetitionError, DataError, MLEBenchError
from pytest_mlebench.io import files
from pytest_mlebench.io.progress import Event, Note, Reporter, log_reported, silent
from pytest_mlebench.io.units import pluralize

DEFAULT_JOBS = 4
logger = logging.getLogger("pytest_mlebench")


@dataclass(frozen=True, kw_only=True)
class PreparationResult:
    """How the preparation of a competition ended: ``error`` says why it failed."""

    competition: Competition
    error: str | None = None


def check(
    store: DataStore,
    competitions: Iterable[Competition],
    downloads: Downloads,
    *,
    jobs: int = DEFAULT_JOBS,
    skip_denied: bool = False,
    reporter: Reporter = silent,
    **options: Unpack[PrepareOptions],
) -> dict[str, DataError]:
    """Check, before anything is downloaded, that credentials, accepted rules and disk suffice for all of these.

    Modules that preparing needs must be there too. Raises DataError that lists what is missing; returns, by id, why
    others are not available (see Downloads). Kaggle is not asked where nothing must come from there. What the store's
    source lacks is said, too.
    """
    waiting = [competition for competition in competitions if not store.is_ready(competition, **options)]
    if waiting:
        store.check()
    finders: tuple[Callable[[Competition], None], ...] = (
        Competition.require_modules,
        lambda competition: store.find(competition, reporter, **options),
    )
    for find in finders:
        lacking = []
        for competition in waiting:
            try:
                find(competition)
            except (CompetitionError, DataError) as error:
                lacking.append(str(error))
        if lacking:
            raise DataError("\n".join(lacking))
    asked = [competition for competition in waiting if store.needs_archive(competition, **options)]
    absent: dict[str, DataError] = {}
    if asked or (waiting and options.get("description") == "kaggle"):  # whose pages need credentials alone
        reporter(Note(f"checking access to {pluralize(len(asked), 'competition')} on Kaggle"))
        try:
            absent = downloads.check(asked, skip_denied=skip_denied, reporter=reporter)
        except DataError as error:
            advice = [_advice(store, own, force=options.get("force", False)) for own in asked if not own.url]
            raise DataError("\n".join([str(error), *advice])) from error
    if options.get("check_disk", True):
        rest = [competition for competition in waiting if competition.id not in absent]
        needs = [store.need(competition, downloads, reporter, **options) for competition in rest]
        files.require_space(store.root, needs, jobs)
    return absent


def _advice(store: DataStore, competition: Competition, *, force: bool) -> str:
    """What to do about a competition that is not on Kaggle."""
    again = ("--force",) if force else ()
    synthetic = f": `{store.command('prepare', competition, '--synthetic', *again)}`"
    return (
        f"If the data is your own: `{store.command('prepare', competition, '--raw-dir=FOLDER', *again)}`; "
        f"to try without it{', add --data=twin' if competition.has_twin else synthetic}"
    )


def prepare_all(
    store: DataStore,
    competitions: Sequence[Competition],
    connect: Callable[[], Downloads],
    reporter: Reporter = silent,
    *,
    ended: Callable[[PreparationResult], None] = lambda result: None,
    jobs: int = DEFAULT_JOBS,
    **options: Unpack[PrepareOptions],
) -> list[PreparationResult]:
    """Prepare competitions, ``jobs`` at once; one that fails does not stop the others.

    ``reporter`` gets the events of all of them, ``ended`` is called with each result as it comes.

    A process of its own prepares each competition, which gives its memory back, and takes no other along if it is
    killed. That process holds the competition's lock itself, and ends with this one; ``connect``, which is pickled,
    gives it its downloads. An exception here, such as Ctrl-C, kills all of them: a later call resumes their work.
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
                process = context.Process(target=_work, args=(sender, store, competition, connect, options))
                process.start()
                running[receiver] = (competition, process)
                sender.close()  # so that the end of the process is the end of the pipe
            for ready in connection.wait(list(running)):
                assert isinstance(ready, Connection)
                competition, process = running[ready]
                try:
                    message: Event | PreparationResult = ready.recv()
                except EOFError:
                    process.join()
                    message = PreparationResult(competition=competition, error=_death(competition, process.exitcode))
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


def _work(
    sender: Connection,
    store: DataStore,
    competition: Competition,
    connect: Callable[[], Downloads],
    options: PrepareOptions,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends Ctrl-C to all: the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sending, error = threading.Lock(), None

    def send(message: Event | PreparationResult) -> None:
        with sending:  # libraries may log from threads of their own
            sender.send(message)

    with log_reported(send, logging.getLogger(), logging.WARNING), log_reported(send, logger):
        try:
            store.prepare(competition, downloads=connect(), reporter=send, **options)
        except MLEBenchError as failure:
            error = str(failure)
    send(PreparationResult(competition=competition, error=error))


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _death(competition: Competition, exit_code: int | None) -> str:
    cause = f"exit status {exit_code}"
    if exit_code is not None and exit_code < 0:
        cause = signal.Signals(-exit_code).name
        cause += ", perhaps as memory ran out (fewer --jobs need less)" if -exit_code == signal.SIGKILL else ""
    return f"{competition.id}: the process that prepared it ended with {cause}; call again to resume"
