"""Invalid calls of every command: each option and argument of the parser with each kind of mistake.

New commands and options are tested automatically. Each call has one mistake.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_mlebench import Bench
from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.cli.main import main, parser_and_commands
from tests.groups import make_group
from tests.interop.harbor_jobs import add_trial, make_job

pytestmark = pytest.mark.full

SECONDS = 60
"""A call that takes longer has not noticed the mistake: it serves pages, waits for an engine, or downloads."""
MOST_LINES = 3
PATHS = {"FILE", "DIR", "FILE.jsonl", "FILE.tar.zst", "KEY", "RUNS_DIR", "PLAN"}
NUMBERS = {"N", "DOLLARS", "SECONDS", "TIME", "SIZE"}
GROUPS = {"GROUP", "RUN"}
FREE = {"TEXT", "IMAGE", "ID,…"}
"""Kinds of values that may be any string."""
MAY_BE_EMPTY = {"--title", "--note"}
NOT_SEEN = {
    **dict.fromkeys(
        ("doctor --runtime", "reproduce --runtime", "serve-episodes --runtime"), "the engine knows it, and none answers"
    ),
    "familiarity --model": "the server knows it, which is not asked here",
    "run-one --name": "another name: the job is over",
    "new-agent NAME": "a new one may have any",
    "new-competition ID": "a new one may have any",
}
"""Values that a call cannot recognise as invalid, with reasons."""
FAILURES = {"--data-dir", "--data-source", "URL", "--runtime", "--model"}
"""Options where a valid value may still fail, with exit status 1."""
NOT_THERE = {"list", "remove", "doctor", "audit", "board", "bundle", "regrade", "kernels"}
"""Commands that work without a data folder, and mention that it is missing."""


@dataclass(frozen=True)
class Place:
    """An option or an argument of a command that takes a value."""

    command: str
    action: argparse.Action

    @property
    def option(self) -> str:
        """The longest name of the option; empty for an argument."""
        return max(self.action.option_strings, key=len, default="")

    @property
    def kind(self) -> str:
        return self.action.metavar if isinstance(self.action.metavar, str) else "CHOICE"

    @property
    def name(self) -> str:
        return self.option or self.kind

    def __str__(self) -> str:
        return f"{self.command} {self.name}"


COMMANDS = parser_and_commands()[1]
PLACES = [
    Place(command, action)
    for command, parser in COMMANDS.items()
    for action in parser._actions
    if action.nargs not in (0, argparse.REMAINDER)
]


def mistakes(place: Place) -> list[str]:
    """Invalid values for this option or argument. One in braces is a file or folder of ``here``."""
    found = [] if place.name in MAY_BE_EMPTY else [""]
    if place.kind in PATHS:
        is_folder = place.kind in ("DIR", "RUNS_DIR")
        found += [
            "/proc/x/y",
            "{file}/below",
            "{long}",
            "~nobody-of-this-name/x",
            "{file}" if is_folder else "{folder}",
        ]
    elif place.kind in NUMBERS:
        found += ["-1", "nan", "many", "1e999", "9" * 5000]
    elif place.kind in GROUPS:
        found += ["/proc/x/y", "{file}", "{folder}", "{broken}", "{long}", "no-such-group", "~nobody-of-this-name/x"]
    elif place.kind == "URL":
        found += ["ftp://x/y", "http://[", "x"]
    elif place.kind not in FREE and str(place) not in NOT_SEEN:
        found += ["no-such-name", "{long}", "/proc/x/y"]
    return found


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files, folders and run groups to call commands with."""
    folder = tmp_path_factory.mktemp("here")
    catalogue = default_catalogue()
    make_group(folder / "reports/good", competitions=[*catalogue.split("smoke"), *catalogue.split("dev")], seeds=1)
    run = next(folder.glob("reports/good/smoke-digits*"))
    steps = [{"step_id": 1, "source": "user", "message": "solve it"}]
    (run / "trajectory.json").write_text(json.dumps({"schema_version": "ATIF-v1.8", "steps": steps}))
    (folder / "folder").mkdir()
    (folder / "file").write_text("some text\n")
    (folder / "broken").mkdir()
    (folder / "broken/metadata.json").write_text("[]")
    (folder / "subs.jsonl").write_text(json.dumps({"competition_id": "smoke-digits", "submission_path": "file"}))
    bench = Bench(sandbox="local", runs_dir=folder / "reports", data_dir=folder / "data")
    bench.run("dummy", "smoke-diabetes", group="real")
    assert main(["bundle", str(folder / "reports/real"), f"--output={folder / 'real.tar.zst'}"]) == 0
    add_trial(make_job(folder / "job"))
    names = {name: str(folder / name) for name in ("folder", "file", "broken", "subs.jsonl", "real.tar.zst", "job")}
    return {**names, "here": str(folder), "long": "x" * 300, "run": f"good/{run.name}"}


@pytest.fixture(autouse=True)
def alone(here: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No engine, no network, no credentials, no data."""
    monkeypatch.chdir(here["here"])
    for name in ("KAGGLE_API_TOKEN", "KAGGLE_USERNAME", "KAGGLE_KEY", "KAGGLE_CONFIG_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MLEBENCH_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")


def right(place: Place, here: dict[str, str]) -> str:
    """A valid value for a required option or argument."""
    if place.action.choices:
        return str(next(iter(place.action.choices)))
    if place.command.startswith("new-"):
        return "new-one"
    if place.command == "bundle" and place.kind == "GROUP":
        return "real"
    if place.command == "unbundle" and place.kind == "FILE":
        return here["real.tar.zst"]
    if str(place) == "board --out":
        return f"{here['here']}/site"
    return {
        "BUNDLE": here["real.tar.zst"],
        "GROUP": "good",
        "RUN": here["run"],
        "FILE.jsonl": here["subs.jsonl"],
        "FILE": here["file"],
        "DIR": here["folder"],
        "ID": "smoke-digits",
        "COMPETITION": "smoke-digits",
        "PLAN": here["file"],
        "URL": "http://127.0.0.1:9",
        "NAME": "some-name",
        "AGENT": "dummy",
        "JOB": here["job"],
    }[place.kind]


def call(place: Place, value: str, here: dict[str, str]) -> list[str]:
    """The command line of a call with a mistake in this option or argument."""
    parser = COMMANDS[place.command]
    options: list[str] = []
    arguments: list[str] = []
    for group in parser._mutually_exclusive_groups:
        if group.required and place.action not in group._group_actions:
            options.append("--competition=smoke-digits")
    for other in (own for own in PLACES if own.command == place.command):
        if other.action is place.action:
            (options if other.option else arguments).append(f"{other.option}={value}" if other.option else value)
        elif other.action.required and other.option:
            options.append(f"{other.option}={right(other, here)}")
        elif not other.option and (other.action.nargs != "?" or other.kind in GROUPS):
            arguments.append(right(other, here))
    return [place.command, *options, *arguments]


@contextmanager
def deadline() -> Iterator[None]:
    def late(*_: object) -> None:
        raise AssertionError("the call does not end")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_the_error_for_a_mistake_is_one_line_that_names_it(
    place: Place, here: dict[str, str], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for mistake in mistakes(place):
        value = mistake.format(**here) if mistake.startswith("{") else mistake
        caplog.clear()
        status, out, err = outcome(call(place, value, here), capsys)
        said = err + caplog.text
        case = f"{place} = {value[:60]!r}: status {status}, {said[:2000]!r}"
        if status == 0:
            assert mistake == "/proc/x/y" and place.name == "--data-dir" and place.command in NOT_THERE, case
        else:
            assert status in ((1, 2) if place.name in FAILURES else (2,)), case
            assert len(said.partition("error: ")[2].splitlines() or said.splitlines()) <= MOST_LINES, case
        assert "Traceback" not in said + out, case
        named = (place.name, value[:200]) if value else (place.name, f"argument of {place.command}")
        assert any(name in said + out for name in named), case


def outcome(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with deadline():
        try:
            status = main(words)
        except SystemExit as end:  # raised by argparse
            assert isinstance(end.code, int), end.code
            status = end.code
    done = capsys.readouterr()
    return status, done.out, done.err
