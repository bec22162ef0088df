"""``mlebench trajectory``: what an agent and its models said in a run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_mlebench.cli.common import add_options, bundle_at, open_group, read_settings, user_path, write_output
from pytest_mlebench.errors import UsageError, unusable
from pytest_mlebench.io.json_files import json_text
from pytest_mlebench.io.paths import expanded
from pytest_mlebench.llm.trajectory import TRAJECTORY, build
from pytest_mlebench.records.group import LAST, find_group
from pytest_mlebench.records.layout import RECORD, RUNNING
from pytest_mlebench.reports.trajectory import markdown, page

SHOWN = 5
"""The most runs that are named where one has to be chosen."""


def add(commands: Any) -> None:
    command = commands.add_parser("trajectory", help="show the messages of a run: its agent and its models")
    command.add_argument(
        "run",
        metavar="RUN",
        help="a run's directory, GROUP/RUN or RUN below --runs-dir; GROUP or last, if it has one run; or BUNDLE/RUN",
    )
    command.add_argument(
        "--format",
        choices=FORMATS,
        default="md",
        help="md (readable text), html (a page) or atif (Agent Trajectory Interchange Format) (default: md)",
    )
    add_options(command, "--runs-dir")
    command.add_argument(
        "-o", "--output", type=user_path, metavar="FILE", help="write to this file instead of standard output"
    )
    command.set_defaults(command=_trajectory)


def _trajectory(options: argparse.Namespace) -> int:
    run_dir = find_run(options.run, read_settings(options).runs_dir)
    text = FORMATS[options.format](_read(run_dir))
    write_output(text, options.output)
    return 0


def find_run(name: str, runs_dir: Path) -> Path:
    """The directory of a run: given as a path, as GROUP/RUN, or as RUN below ``runs_dir``. Raises UsageError."""
    if (found_in := _in_bundle(name, runs_dir)) is not None:
        return found_in
    try:
        for folder in (expanded(name), runs_dir / name):
            if folder.is_dir():
                return _only_run(folder)
    except OSError as error:
        raise UsageError(f"run {name!r} cannot be looked for: {unusable(error)}") from error
    except ValueError as error:
        raise UsageError(f"run {name!r} cannot be looked for: {error}") from error
    found = [path for path in runs_dir.glob("*/*") if path.name == name and path.is_dir()]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"run {name} is in several groups: {', '.join(path.parent.name for path in found)}; add which")
    if name == LAST:
        return _only_run(find_group(name, runs_dir))
    raise UsageError(f"run {name} does not exist, neither as a directory nor below {runs_dir}")


def _in_bundle(name: str, runs_dir: Path) -> Path | None:
    """The directory of a run in a bundle: FILE, where it has one run, or FILE/RUN. Raises UsageError."""
    bundle, _, run_id = name.rpartition("/")
    if bundle_at(name) is not None:
        return _only_run(open_group(name, runs_dir), name)
    if not bundle or bundle_at(bundle) is None:
        return None
    runs = {path.parent.name: path.parent for path in open_group(bundle, runs_dir).glob(f"*/{RECORD}")}
    if run_id not in runs:
        raise UsageError(f"{bundle} has no run {run_id!r}: it has {', '.join(sorted(runs)[:SHOWN]) or 'none'}")
    return runs[run_id]


def _only_run(folder: Path, name: str = "") -> Path:
    """The folder, or the only run of it if it is a run group; raises UsageError that names the runs if it has more."""
    runs = sorted({path.parent for file in (RECORD, RUNNING) for path in folder.glob(f"*/{file}")})
    if len(runs) < 2:
        return runs[0] if runs else folder
    more = ", …" if len(runs) > SHOWN else ""
    names = ", ".join(path.name for path in runs[:SHOWN])
    shown = name or folder
    raise UsageError(f"{shown} has {len(runs)} runs; name one, for example {shown}/{runs[0].name} ({names}{more})")


def _read(run_dir: Path) -> Mapping[str, Any]:
    """The run's ``trajectory.json``; one that was interrupted has none, only the recording."""
    path = run_dir / TRAJECTORY
    if path.is_file():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"{path} cannot be read: {error}") from error
        if not isinstance(found, dict) or not isinstance(found.get("steps"), list):
            raise UsageError(f"{path} is no trajectory: it has no steps")
        return found
    built = build(run_dir, agent="agent")
    if built is None:
        raise UsageError(
            f"{run_dir} has no trajectory: its agent asked no model through the gateway, "
            "or what was said was not recorded (--llm-record)"
        )
    return built


def _markdown(trajectory: Mapping[str, Any]) -> str:
    return markdown(trajectory)


def _html(trajectory: Mapping[str, Any]) -> str:
    return page(trajectory)


FORMATS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "md": _markdown,
    "html": _html,
    "atif": lambda trajectory: json_text(trajectory).replace("##", "#\\u0023") + "\n",
}
