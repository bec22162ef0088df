"""All uses of undocumented features of pytest, argparse and xdist. Each has a test that detects changes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import pytest

_CHANNEL = "mlebench_channel"
_NO_PATHS = (pytest.Config.ArgsSource.INVOCATION_DIR, pytest.Config.ArgsSource.TESTPATHS)


def taken_option_names(parser: pytest.Parser) -> set[str]:
    """Return the command-line options that other plugins and conftests have added so far."""
    return {name for group in parser._groups for option in group.options for name in option.names()}


def release_option_names(config: pytest.Config, names: Mapping[str, str]) -> None:
    """Let conftests that are loaded later add options with these names. ``names`` maps them to our ``dest``.

    The command line has already been parsed.
    """
    actions = config._parser.optparser._option_string_actions
    for name, dest in names.items():
        if name in actions and actions[name].dest == dest:
            del actions[name]


def has_paths(config: pytest.Config) -> bool:
    """Whether the command line has paths or node ids."""
    return config.args_source not in _NO_PATHS


def initial_paths(config: pytest.Config) -> list[str]:
    """Return the paths and node ids that pytest will start with, or the current folder, before it parses options."""
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


def ini_value_as_written(config: pytest.Config, key: str) -> object:
    """Return an ini key's value with its type in a TOML file, which ``getini`` may reject; None if there is none."""
    values = config._inicfg if hasattr(config, "_inicfg") else config.inicfg  # pytest 9.0
    found = values.get(key)
    return None if found is None else found.value


def set_paths(config: pytest.Config, paths: Iterable[str]) -> None:
    config.args = list(paths)


def capture_suspended(config: pytest.Config) -> AbstractContextManager[None]:
    """Context manager: suspend capturing, so that output is visible immediately even while a test runs."""
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    return capture.global_and_fixture_disabled() if capture else nullcontext()


def write_line(config: pytest.Config, text: str) -> None:
    """Write a separate line immediately, even while a test runs or after unfinished progress letters."""
    from pytest_mlebench.io.units import inert

    text = inert(text)
    terminal: Any = config.pluginmanager.getplugin("terminalreporter")
    with capture_suspended(config):
        if terminal is None:
            print(text, file=sys.stderr, flush=True)
            return
        terminal.ensure_newline()
        if terminal._tw.width_of_current_line:  # progress letters without a file name, as with xdist
            terminal._tw.line()
        terminal.write_line(text)
        terminal.flush()


def name_interrupt(config: pytest.Config, message: str) -> None:
    """Show this message instead of the line of code that Ctrl-C interrupted, unless --full-trace is given."""
    terminal: Any = config.pluginmanager.getplugin("terminalreporter")
    memo = getattr(terminal, "_keyboardinterrupt_memo", None)
    if memo is not None and memo.reprcrash is not None and not config.option.fulltrace:
        memo.reprcrash.message = message


@contextmanager
def terminal_copy(config: pytest.Config) -> Iterator[Callable[[str], None] | None]:
    """Context manager for a function that writes lines from any thread, even while output is captured.

    It is None if there is no terminal reporter or it does not write to a file. Enter it while output is not captured:
    the function writes to a copy of the file descriptor, which capturing does not redirect.
    """
    terminal: Any = config.pluginmanager.getplugin("terminalreporter")
    copy = None
    with suppress(AttributeError, OSError, ValueError):
        copy = os.dup(terminal._tw._file.fileno())
    if copy is None:
        yield None
        return

    def write(line: str) -> None:
        start = "\n" if terminal._tw.width_of_current_line else ""
        os.write(copy, f"{start}{line}\n".encode())

    try:
        yield write
    finally:
        os.close(copy)


def is_on(config: pytest.Config, part: str) -> bool:
    """Whether a part of the plugin is enabled. ``-p no:mlebench-PART``, also in ``addopts``, disables it.

    We check the option ourselves because xdist workers get it but do not block plugins named only in ``addopts``.
    """
    return f"no:mlebench-{part}" not in (config.getoption("plugins") or ())


def add_to_allure(config: pytest.Config, values: Iterable[tuple[str, Any]]) -> None:
    """Add parameters to the current test, like ``allure.dynamic.parameter``, if allure-pytest writes results.

    They are excluded from the test's identity.
    """
    listener: Any = config.pluginmanager.getplugin("allure_listener")
    if listener is not None:
        for name, value in values:
            listener.add_parameter(name=name, value=value, excluded=True, mode=None)


def has_workers(config: pytest.Config) -> bool:
    """Whether xdist workers run the tests of this process."""
    return bool(getattr(config.option, "tx", None))


def parsed_id(item_id: Any) -> Any:
    """Return an item's id as pytest parses it from a string, which is how ``--lf`` compares ids.

    The seed in brackets must be a separate part, as for parametrised tests.
    """
    return item_id.parse(str(item_id))


def worker_count(config: pytest.Config) -> int:
    count = (worker_input(config) or {}).get("workercount")
    return count or len(getattr(config.option, "tx", None) or ()) or 1


def worker_input(config: pytest.Config) -> dict[str, Any] | None:
    """Return what xdist's controller sent to this worker; None if this is not a worker."""
    values: dict[str, Any] | None = getattr(config, "workerinput", None)
    return values


def open_worker_channel(node: Any, receive: Callable[[Any], None]) -> None:
    """Let an xdist worker send values to this process.

    ``receive`` is called in execnet's thread, before xdist handles later messages of the worker.
    """
    channel = node.gateway.newchannel()
    channel.setcallback(receive)
    node.workerinput[_CHANNEL] = channel


def send_to_controller(config: pytest.Config, values: Any) -> None:
    """In an xdist worker: send values of plain types to the controller."""
    (worker_input(config) or {})[_CHANNEL].send(values)


def reports_of(reporter: pytest.TerminalReporter, categories: Iterable[str]) -> Iterator[Any]:
    """Yield the terminal reporter's reports in these categories."""
    for category in categories:
        yield from reporter.getreports(category)


def run_item(session: pytest.Session, item: pytest.Item, *, is_last: bool) -> None:
    """Run one item like pytest's own loop, without knowing the next item.

    pytest tears down the fixtures that the next item does not need. Passing the session as the next item tears down
    everything except session fixtures.
    """
    following: Any = None if is_last else session
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)


_KEPT = pytest.StashKey[dict[str, Any]]()


def keep_fixtures(item: pytest.Function, names: Iterable[str], module: str) -> None:
    """Make an item use the fixtures of a plugin's module with these names, even if conftests override them."""
    session = item.session
    kept = session.stash.get(_KEPT, {})
    if not kept:  # only once: a search for each item takes a tenth of the time of collection
        for name in names:
            found = session._fixturemanager.getfixturedefs(name, session) or ()
            kept[name] = [definition for definition in found if definition.func.__module__ == module]
        session.stash[_KEPT] = kept
    item._fixtureinfo.name2fixturedefs.update(kept)
