"""Competitions' data for items: prepared as they need it, or skipped, as ``--prepare`` says."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress

import pytest

from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.store import DataStore, PrepareOptions
from pytest_mlebench.errors import CompetitionError, DataError, UsageError
from pytest_mlebench.items import CompetitionItem, key_of, settings_of
from pytest_mlebench.settings import Settings

FIXTURE = "dataset"
_NOT_PREPARED = "is not prepared; run: "
_CHECKED = pytest.StashKey[bool]()


def provide(competition: Competition, store: DataStore, settings: Settings, tell: Callable[[str], None]) -> Dataset:
    """The competition's data set, ready to use. Skips the test where it may not be prepared; raises DataError."""
    from pytest_mlebench.data.kaggle import KaggleDownloads
    from pytest_mlebench.progress import Lines

    options = _options(settings)
    if settings.prepare == "never" and not store.is_ready(competition, **options):
        source = () if settings.description is None else (f"--description {settings.description}",)
        pytest.skip(f"{competition.id} {_NOT_PREPARED}{store.command('prepare', competition, *source)}")
    if competition.source == "bundled":  # it takes a moment, of which there is nothing to tell
        return store.prepare(competition, **options)
    lines = Lines(tell)
    return store.prepare(
        competition, downloads=KaggleDownloads(), tell=lambda step: lines(competition, step), **options
    )


def not_prepared(report: pytest.TestReport) -> str:
    """The reason why a test was skipped, where it was for want of its data; else empty."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    return reason.removeprefix("Skipped: ") if _NOT_PREPARED in reason else ""


def check_items(session: pytest.Session) -> None:
    """Before the first test: see that the data which the collected items need can be had; raises pytest.UsageError.

    With xdist the controller has no items, and asks for all workers when the first of them has told its own.
    """
    needed = {
        competition.id: competition
        for item in session.items
        if FIXTURE in getattr(item, "fixturenames", ()) and (competition := _competition_of(item)) is not None
    }
    if not hasattr(session.config, "workerinput"):
        _check(session.config, needed.values())


def check_ids(config: pytest.Config, ids: Collection[str]) -> None:
    """The same for items that a worker has told by their node ids."""
    settings = settings_of(config)
    if _CHECKED in config.stash or not (settings.has_runs or settings.real_data):
        return
    config.stash[_CHECKED] = True
    files = {settings.find(id) for id in ids if key_of(id) not in settings.finished}
    needed = []
    for file in files:
        with suppress(CompetitionError):  # its items tell; or it is another test's file
            needed.append(Competition.load(file))
    _check(config, needed)


def _check(config: pytest.Config, competitions: Collection[Competition]) -> None:
    settings = settings_of(config)
    if not competitions or settings.prepare == "never" or config.option.collectonly:
        return
    from pytest_mlebench.data import jobs  # multiprocessing, which starting pytest need not wait for
    from pytest_mlebench.data.kaggle import KaggleDownloads

    store = DataStore(settings.data_dir)
    try:
        if absent := jobs.check(store, competitions, KaggleDownloads(), **_options(settings)):
            raise DataError("\n".join(map(str, absent.values())))
    except DataError as error:
        raise pytest.UsageError(f"{error}\nOr run what is prepared, and skip the others: --prepare=never") from error


def _options(settings: Settings) -> PrepareOptions:
    # What lay in the store before this session is the user's, and stays.
    return PrepareOptions(keep_raw=None, description=settings.description)


def _competition_of(item: pytest.Item) -> Competition | None:
    if isinstance(item, CompetitionItem):
        return item.competition
    mark = item.get_closest_marker("competition")
    try:
        return default_catalogue()[mark.args[0]] if mark is not None and mark.args else None
    except UsageError:
        return None  # its fixture tells
