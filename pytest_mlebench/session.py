"""What happens behind the hooks in the course of a pytest session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableSequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.catalog.catalogue import BENCHMARK, bundled, unknown
from pytest_mlebench.catalog.competition import FILE_NAME
from pytest_mlebench.datasets import not_prepared
from pytest_mlebench.errors import SandboxError, UsageError
from pytest_mlebench.items import RECORD, SETTINGS, TROUBLE, CompetitionItem, settings_of, teller
from pytest_mlebench.outcomes import BY_NAME, outcome_of
from pytest_mlebench.results import html
from pytest_mlebench.results.grading_report import write_group
from pytest_mlebench.results.group import read_group
from pytest_mlebench.results.manifest import UNKNOWN
from pytest_mlebench.results.record import REPORT, RunRecord, read_records
from pytest_mlebench.results.terminal import write_medal_table
from pytest_mlebench.run_group import OpenRunGroup, join
from pytest_mlebench.settings import Settings

_ATTRIBUTE = "mlebench_record"
_RUN_DIR = "mlebench_run_dir"
_TROUBLE = "mlebench_trouble"
_ANY = pytest.StashKey[bool]()
_GROUP = pytest.StashKey[OpenRunGroup]()
_JOINED = pytest.StashKey[int | None]()
_NO_PATHS = (pytest.Config.ArgsSource.INVOCATION_DIR, pytest.Config.ArgsSource.TESTPATHS)


def configure(config: pytest.Config) -> None:
    """Read the settings and choose what to collect."""
    settings = Settings(config)
    config.stash[SETTINGS] = settings
    config.addinivalue_line("markers", "competition(id): the competition for the fixtures of pytest-mlebench")
    config.addinivalue_line("markers", "agent(id): the agent for the fixtures of pytest-mlebench")
    if not _is_worker(config):
        settings.validate()
    # A worker is given the command line as the user wrote it, and must find the same items.
    if config.args_source in _NO_PATHS and (settings.has_runs or settings.split):
        config.args = settings.resumed_arguments
        if not config.args:
            # `-k spaceship` needs no --split=dev.
            config.stash[_ANY] = settings.split is None and bool(config.option.keyword or config.option.markexpr)
            chosen = default_catalogue() if config.stash[_ANY] else settings.competitions
            config.args = [str(competition.folder / FILE_NAME) for competition in chosen]
    else:
        config.args = [_bundled_argument(argument, config.invocation_params.dir) for argument in config.args]


def prefer_the_benchmark(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without --split, -k and -m choose among the benchmark, and among dev and smoke where none of that matches."""
    if not config.stash.get(_ANY, False):
        return
    inside = [item for item in items if isinstance(item, CompetitionItem) and item.competition.split in BENCHMARK]
    if inside:
        kept = set(inside)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = inside


def wants_html(config: pytest.Config) -> bool:
    """Whether this session runs agents and pytest-html is asked for a report."""
    runs = settings_of(config).has_runs and not config.option.collectonly and not _is_worker(config)
    return runs and bool(getattr(config.option, "htmlpath", None))


def _bundled_argument(argument: str, here: Path) -> str:
    """``competitions/ID/…`` names a bundled competition also where there is no such folder, as node ids do."""
    path = argument.split("::")[0]
    inside = bundled("competitions").parent / path
    if not path.startswith("competitions/") or (here / path).exists():
        return argument
    if not inside.exists():
        raise pytest.UsageError(str(unknown("competition", Path(path).parts[1], default_catalogue().ids)))
    return str(bundled("competitions").parent / argument)


def tell_worker(node: Any) -> None:
    """An xdist worker writes into the controller's run group."""
    node.workerinput["mlebench_run_group"] = settings_of(node.config).run_group.name


def open_run_group(config: pytest.Config) -> None:
    """Open the run group; build images before the workers start, where their progress can be seen.

    Trouble with images is told by the items. Raises UsageError where the run group cannot be gone on with.
    """
    settings = settings_of(config)
    if not settings.has_runs or config.option.collectonly:
        return
    if _is_worker(config):
        config.stash[_JOINED] = join(settings.run_group.folder)
        return
    kinds = {}
    for agent in settings.agents:
        kinds[agent.id] = UNKNOWN
        with suppress(SandboxError):
            sandbox = settings.choose_sandbox(agent, teller(config))
            kinds[agent.id] = sandbox.name
            sandbox.prepare(agent)
    workers = len(getattr(config.option, "tx", None) or ()) or 1
    try:
        config.stash[_GROUP] = OpenRunGroup(settings, workers=workers, sandboxes=kinds, tell=teller(config))
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error
    if "docker" in kinds.values() and len(config.stash[_GROUP].manifest.sessions) > 1:
        from pytest_mlebench.sandbox.cleanup import clean

        with suppress(SandboxError):
            for leftover in clean(run_group=settings.run_group_name):
                teller(config)(f"removed {leftover}, which a killed session left")


def plan(config: pytest.Config, nodeids: Iterable[str]) -> None:
    """Note in the run group which runs this session is for; each worker tells the same."""
    if (group := config.stash.get(_GROUP, None)) is not None:
        group.plan(nodeids)


def header(config: pytest.Config) -> list[str]:
    settings = settings_of(config)
    if not settings.has_runs:
        return []
    agents = ", ".join(agent.id for agent in settings.agents)
    lines = [f"mlebench: {agents}, sandbox {settings.sandbox}, run group {settings.run_group.folder}"]
    if settings.finished:
        lines.append(f"mlebench: {len(settings.finished)} runs of this group are finished; they are not run again")
    return lines


def attach_record(item: pytest.Item, report: pytest.TestReport) -> None:
    """Plain attributes of a report travel from the workers to the controller."""
    if report.when == "call" and TROUBLE in item.stash:
        setattr(report, _TROUBLE, True)
    if report.when == "call" and (record := item.stash.get(RECORD, None)) is not None:
        setattr(report, _ATTRIBUTE, record.to_json())
        setattr(report, _RUN_DIR, str(settings_of(item.config).run_group.folder / record.run_id))


def record_of(report: Any) -> RunRecord | None:
    values = getattr(report, _ATTRIBUTE, None)
    return RunRecord.from_json(values) if values is not None else None


def status(report: pytest.TestReport) -> tuple[str, str, tuple[str, Mapping[str, bool]]] | None:
    """Category, letter, and word with colour of a run; None for all other reports."""
    record = record_of(report)
    if record is None:
        return ("error", "E", ("ERROR", {"red": True})) if hasattr(report, _TROUBLE) else None
    outcome = outcome_of(record)
    if outcome.passed and report.failed:  # less than --min-medal asks for
        return "failed", "F", (f"FAILED ({outcome.category})", {"red": True})
    return outcome.category, outcome.letter, (outcome.word, outcome.markup)


def finish(session: pytest.Session) -> None:
    """Write the run group's metadata and grading report, complete its manifest, and write its page."""
    group = session.config.stash.get(_GROUP, None)
    if group is None:
        return
    try:
        records = read_records(group.folder)
        if records:
            write_group(group.folder, group.folder.name, group.manifest.created_at, records)
        group.close(records)
        _write_page(group.folder)
    except (OSError, UsageError) as error:  # each run's own record is there already
        teller(session.config)(f"the run group's reports cannot be written: {error}")


def _write_page(folder: Path) -> None:
    # Jinja2 and the pictures, which starting pytest must not import.
    from pytest_mlebench.results.overview import overview
    from pytest_mlebench.results.page import page

    (folder / REPORT).write_text(page(overview([read_group(folder)])), encoding="utf-8")


def summarise(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the failed runs, then the medal table."""
    settings = settings_of(config)
    if not settings.has_runs or config.option.collectonly:
        return
    if skipped := sorted({text for report in reporter.getreports("skipped") if (text := not_prepared(report))}):
        reporter.write_sep("=", "not prepared")
        for text in skipped:
            reporter.write_line(text)
    failed = [
        report
        for outcome in BY_NAME.values()
        if not outcome.passed and outcome.category != "error"  # pytest prints errors itself
        for report in reporter.getreports(outcome.category)
    ]
    if failed and config.option.tbstyle != "no":
        reporter.write_sep("=", "failed runs")
        for report in failed:
            reporter.write_sep("_", report.nodeid, red=True)
            reporter.write_line(report.longreprtext)
    try:
        if (group := read_group(settings.run_group.folder)).records:
            write_medal_table(reporter, group)
    except UsageError as error:
        reporter.write_line(f"no medals: {error}")


def html_summary(prefix: MutableSequence[str], session: pytest.Session) -> None:
    with suppress(UsageError):  # there is no run to sum up
        prefix.extend(html.summary(read_group(settings_of(session.config).run_group.folder)))


def html_header(cells: MutableSequence[str]) -> None:
    cells[1:] = html.header()  # the first, pytest-html's own result, is what its filters go by


def html_row(report: Any, cells: MutableSequence[str]) -> None:
    record = record_of(report)
    cells[1:] = html.row(record) if record else html.plain_row(report.nodeid)


def html_details(report: Any, data: MutableSequence[str]) -> None:
    if record := record_of(report):
        html.details(record, Path(getattr(report, _RUN_DIR)), data)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")
