"""Competitions' data for items: prepared when they need it, or skipped, as ``--prepare`` says."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_mlebench.bench import Bench
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data import jobs
from pytest_mlebench.data.dataset import OBFUSCATED, Dataset
from pytest_mlebench.data.download.kaggle import KaggleDownloads
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import CompetitionError, DataError, UsageError
from pytest_mlebench.plugin.running import AgentRun
from pytest_mlebench.plugin.session import NOT_PREPARED


def provide(item: pytest.Item, competition: Competition, store: DataStore, bench: Bench) -> Dataset:
    """The competition's data set, ready to use; of a run that another machine does, as it is here.

    Skips the item if data may not be prepared; raises DataError.
    """
    settings, options = bench.settings, bench.prepare_options
    if settings.nodes_pull and isinstance(item, AgentRun):
        return store.dataset(competition)
    if settings.prepare == "never":
        if store.is_usable(competition, **options):
            return store.dataset(competition)
        source = () if settings.description in (None, OBFUSCATED) else (f"--description {settings.description}",)
        item.stash[NOT_PREPARED] = reason = store.not_prepared(competition, *source)
        pytest.skip(reason)
    return store.prepare(competition, downloads=KaggleDownloads(), reporter=bench.reporter, **options)


def _see_obfuscated(competitions: Iterable[Competition]) -> None:
    missing = []
    for competition in competitions:
        try:
            _ = competition.obfuscated_description
        except CompetitionError as error:
            missing.append(str(error))
    if missing:
        raise UsageError("\n".join(missing))


def check(bench: Bench, folders: Iterable[str]) -> bool:
    """See before the first test that the data of these competitions can be had; raises UsageError.

    With ``--prepare=never``: whether that of any is there.
    """
    settings, competitions = bench.settings, []
    for folder in folders:
        with suppress(CompetitionError):  # its items report it
            competitions.append(Competition.load(Path(folder), version=settings.version))
    if not competitions:
        return False
    if settings.description == OBFUSCATED:
        if not settings.has_runs and settings.real_data:
            raise UsageError("--description=obfuscated is for runs: add --agent=ID, or leave it out")
        _see_obfuscated(competitions)
    options = bench.prepare_options
    try:
        store = bench.store
        if settings.prepare == "never":
            store.check()
            return any(store.is_usable(competition, **options) for competition in competitions)
        if settings.nodes_pull:  # each has a disk of its own
            options["check_disk"] = False
        if absent := jobs.check(store, competitions, KaggleDownloads(), reporter=bench.reporter, **options):
            raise DataError("\n".join(map(str, absent.values())))
    except DataError as error:
        advice = "" if settings.prepare == "never" else "\nTo run what is prepared and skip the rest: --prepare=never"
        raise UsageError(f"{error}{advice}") from error
    return True
