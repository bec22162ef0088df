"""Every use of what pytest, argparse and xdist do not document. Each has a test that notices when they change it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest

_CHANNEL = "mlebench_channel"
_NO_PATHS = (pytest.Config.ArgsSource.INVOCATION_DIR, pytest.Config.ArgsSource.TESTPATHS)


def taken_option_names(parser: pytest.Parser) -> set[str]:
    """The command-line options that other plugins and conftests have added so far."""
    return {name for group in parser._groups for option in group.options for name in option.names()}


def release_option_names(config: pytest.Config, names: Mapping[str, str]) -> None:
    """Let conftests that are loaded later add options of these names, each given with the ``dest`` of ours.

    The command line has been parsed already.
    """
    actions = config._parser.optparser._option_string_actions
    for name, dest in names.items():
        if name in actions and actions[name].dest == dest:
            del actions[name]


def has_paths(config: pytest.Config) -> bool:
    """Whether the command line names what to collect."""
    return config.args_source not in _NO_PATHS


def initial_paths(config: pytest.Config) -> list[str]:
    """What pytest is to start with, before it has parsed its command line: paths, node ids, or the current folder."""
    known = config.known_args_namespace
    paths, _ = config._decide_args(
        args=known.file_or_dir,
        pyargs=known.pyargs,
        testpaths=config.getini("testpaths"),
        invocation_dir=config.invocation_params.dir,
        rootpath=config.rootpath,
        warn=False,
    )
    return paths


def set_paths(config: pytest.Config, paths: Iterable[str]) -> None:
    """Collect these paths and node ids."""
    config.args = list(paths)


def capture_suspended(config: pytest.Config) -> AbstractContextManager[None]:
    """Context manager: what is printed is seen at once, even while a test runs."""
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    return capture.global_and_fixture_disabled() if capture else nullcontext()


def write_line(config: pytest.Config, text: str) -> None:
    """Write a line of its own at once, even while a test runs or a line of letters is being written."""
    from pytest_mlebench.io.units import inert

    text = inert(text)
    terminal: Any = config.pluginmanager.getplugin("terminalreporter")
    with capture_suspended(config):
        if terminal is None:
            print(text, file=sys.stderr, flush=True)
            return
        terminal.ensure_newline()
        if terminal._tw.width_of_current_line:  # letters without a file's name before them, as with xdist
            terminal._tw.line()
        terminal.write_line(text)
        terminal.flush()


def name_interrupt(config: pytest.Config, message: str) -> None:
    """Have pytest end with this message, in place of the line of code that Ctrl-C interrupted, unless --full-trace."""
    terminal: Any = config.pluginmanager.getplugin("terminalreporter")
    memo = getattr(terminal, "_keyboardinterrupt_memo", None)
    if memo is not None and memo.reprcrash is not None and not config.option.fulltrace:
        memo.reprcrash.message = message


def terminal_copy(config: pytest.Config) -> AbstractContextManager[Callable[[str], None]] | None:
    """A function that writes a line to the terminal from any thread, also while a test's output is captured.

    None where there is no terminal reporter, or it writes to no file. To be called while nothing is captured: what is
    written goes to a copy of the file's descriptor, which capturing does not redirect.
    """
    terminal: Any = config.pluginmanager.getplugin("terminalreporter")
    try:
        copy = os.dup(terminal._tw._file.fileno())
    except (AttributeError, OSError, ValueError):
        return None

    @contextmanager
    def opened() -> Iterator[Callable[[str], None]]:
        def write(line: str) -> None:
            start = "\n" if terminal._tw.width_of_current_line else ""
            os.write(copy, f"{start}{line}\n".encode())

        try:
            yield write
        finally:
            os.close(copy)

    return opened()


def is_on(config: pytest.Config, part: str) -> bool:
    """Whether a part of the plugin is on: ``-p no:mlebench-PART``, also among ``addopts``, turns it off.

    xdist gives its workers the option, but lets them block no plugin that only ``addopts`` names.
    """
    return f"no:mlebench-{part}" not in (config.getoption("plugins") or ())


def add_to_allure(config: pytest.Config, values: Iterable[tuple[str, Any]]) -> None:
    """Add parameters to the test that runs, as ``allure.dynamic.parameter`` does, where allure-pytest writes results.

    They are no part of what identifies the test.
    """
    listener: Any = config.pluginmanager.getplugin("allure_listener")
    if listener is not None:
        for name, value in values:
            listener.add_parameter(name=name, value=value, excluded=True, mode=None)


def has_workers(config: pytest.Config) -> bool:
    """Whether other processes run this one's tests."""
    return bool(getattr(config.option, "tx", None))


def parsed_id(item_id: Any) -> Any:
    """An item's id as pytest reads it back from text, which is how ``--lf`` compares it.

    The seed in brackets must be a part of its own in it, as if a parametrisation had made it.
    """
    return item_id.parse(str(item_id))


def worker_count(config: pytest.Config) -> int:
    """The number of processes that run tests."""
    known = (worker_input(config) or {}).get("workercount")
    return known or len(getattr(config.option, "tx", None) or ()) or 1


def worker_input(config: pytest.Config) -> dict[str, Any] | None:
    """What xdist's controller sent to this worker; None in any other process."""
    values: dict[str, Any] | None = getattr(config, "workerinput", None)
    return values


def open_worker_channel(node: Any, receive: Callable[[Any], None]) -> None:
    """Let an xdist worker send values to this process.

    ``receive`` is called in execnet's thread, before xdist handles what the worker sends afterwards.
    """
    channel = node.gateway.newchannel()
    channel.setcallback(receive)
    node.workerinput[_CHANNEL] = channel


def send_to_controller(config: pytest.Config, values: Any) -> None:
    """As an xdist worker: send values of plain types."""
    (worker_input(config) or {})[_CHANNEL].send(values)


def reports_of(reporter: pytest.TerminalReporter, categories: Iterable[str]) -> Iterator[Any]:
    """The reports that the terminal has counted in these categories."""
    for category in categories:
        yield from reporter.getreports(category)


def run_item(session: pytest.Session, item: pytest.Item, *, is_last: bool) -> None:
    """Run one item as pytest's own loop does, where it is not known yet which one comes next.

    pytest ends what the next item does not need. The session stands for that item: all that is narrower ends.
    """
    following: Any = None if is_last else session
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)


def keep_fixtures(item: pytest.Function, names: Iterable[str], module: str) -> None:
    """Let an item use the fixtures of a module by these names, also where conftests have others."""
    for name in names:
        found = item.session._fixturemanager.getfixturedefs(name, item) or ()
        item._fixtureinfo.name2fixturedefs[name] = [one for one in found if one.func.__module__ == module]
