"""What a session is about to do: its runs, and the data that they need. xdist's workers send theirs.

Data is prepared when an item needs it, or the item is skipped, as ``--prepare`` says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_mlebench.bench import Bench
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data import jobs
from pytest_mlebench.data.dataset import OBFUSCATED, Dataset
from pytest_mlebench.data.download.kaggle import KaggleDownloads
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import CompetitionError, DataError, UsageError
from pytest_mlebench.grading.twins import no_twin
from pytest_mlebench.io.progress import WarningNote
from pytest_mlebench.plugin import events, internals
from pytest_mlebench.plugin.collection import competition_of
from pytest_mlebench.plugin.group import for_workers, plan_runs
from pytest_mlebench.plugin.running import AgentRun
from pytest_mlebench.plugin.session import NOT_PREPARED, is_worker, session_of, usage_errors

if TYPE_CHECKING:
    from pytest_mlebench.catalog import Catalogue


_DATASET = "dataset"
"""The fixture that needs a competition's data."""
_SENT = "mlebench_plan"
_CHECKED = pytest.StashKey[bool]()


@dataclass(frozen=True)
class Plan:
    """The runs among a session's items, each as agent, competition id, seed and node id; the folder of each competition
    whose data is needed; and whether there are items, but none that runs an agent. These are plain values, which xdist
    can send."""

    runs: tuple[tuple[str, str, int, str], ...]
    folders: tuple[str, ...]
    runs_nothing: bool

    @classmethod
    def of(cls, items: Sequence[pytest.Item], catalogue: Catalogue) -> Plan:
        needed = [
            competition.folder
            for item in items
            if _DATASET in getattr(item, "fixturenames", ())
            and (competition := competition_of(item, catalogue)) is not None
        ]
        return cls(
            runs=tuple((*item.key, item.nodeid) for item in items if isinstance(item, AgentRun)),
            folders=tuple(dict.fromkeys(map(str, needed))),
            runs_nothing=bool(items) and not any(_runs_agent(item) for item in items),
        )


def _runs_agent(item: pytest.Item) -> bool:
    return isinstance(item, AgentRun) or "agent" in getattr(item, "fixturenames", ())


def configure_worker(node: Any) -> None:
    """Before xdist starts a worker: give it the run group, and let it send its plan and its events."""
    node.workerinput.update(for_workers(node.config))
    internals.open_worker_channel(node, partial(_receive, node))


def _receive(node: Any, message: tuple[str, Any]) -> None:
    kind, values = message
    if kind == "plan":
        setattr(node, _SENT, Plan(*values))
    else:
        events.receive(node.config, node.gateway.id, values)


def collection_finished(session: pytest.Session) -> None:
    """When all items are chosen, and some are about competitions; with xdist the controller has none."""
    plan = Plan.of(session.items, session_of(session.config).bench.catalogue)
    if is_worker(session.config):
        internals.send_to_controller(session.config, ("plan", (plan.runs, plan.folders, plan.runs_nothing)))
    else:
        _take_up(session.config, plan)


def worker_collection_finished(node: Any) -> None:
    """When an xdist worker has sent its items; all workers have the same."""
    if (plan := getattr(node, _SENT, None)) is not None and not node.config.stash.get(_CHECKED, False):
        node.config.stash[_CHECKED] = True
        _take_up(node.config, plan)


def _take_up(config: pytest.Config, plan: Plan) -> None:
    """See before the first test that data can be had, and then, as that may take minutes, that runs can start; note
    them in the run group. Raises pytest.UsageError."""
    bench = session_of(config).bench
    with usage_errors():
        if bench.settings.has_runs and plan.runs_nothing:
            where = ", ".join(config.args)
            raise UsageError(f"--agent: nothing in {where} runs an agent: name a competition's folder, or leave it out")
        if config.option.collectonly:
            return

        has_data = check(bench, plan.folders, [Path(arg.partition("::")[0]).name for arg in config.args])
        plan_runs(config, plan.runs, build=has_data)


def provide(item: pytest.Item, competition: Competition, store: DataStore, bench: Bench) -> Dataset:
    """The competition's data set, ready to use; of a run that another machine does, as it is here.

    Skips the item if data may not be prepared; raises DataError.
    """
    settings, options = bench.settings, bench.prepare_options
    if settings.has_twins and not competition.has_twin:
        item.stash[NOT_PREPARED] = reason = no_twin(competition)
        pytest.skip(reason)
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


def _with_twins(competitions: Sequence[Competition], named: Collection[str]) -> list[Competition]:
    """Those that have twins; the others are skipped. Raises UsageError where one was asked for by name, or none has."""
    lacking = [own for own in competitions if not own.has_twin]
    if errors := [no_twin(own) for own in lacking if own.id in named or len(lacking) == len(competitions)]:
        raise UsageError("\n".join(errors[:5] + ([f"and {len(errors) - 5} more"] if len(errors) > 5 else [])))
    return [own for own in competitions if own not in lacking]


def check(bench: Bench, folders: Iterable[str], named: Collection[str] = ()) -> bool:
    """See before the first test that the data of these competitions can be had; raises UsageError.

    With ``--prepare=never``: whether that of any is there. ``named`` are the ids that the user asked for by name.
    """
    settings, competitions = bench.settings, []
    for folder in folders:
        with suppress(CompetitionError):  # its items report it
            competitions.append(Competition.load(Path(folder), version=settings.version))
    if not competitions:
        return False
    if settings.has_twins:  # which have thresholds of their own
        competitions = _with_twins(competitions, named)
    elif settings.has_runs:
        for placeholder in filter(None, (own.placeholder_scores for own in competitions)):
            bench.reporter(WarningNote(f"medals mean nothing yet: {placeholder}"))
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
