"""The private home of an agent that runs as a local process."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from pytest_mlebench.records.account import COLLECTED
from pytest_mlebench.sandbox.contract import Task
from pytest_mlebench.sandbox.instructions import INSTRUCTIONS, VALIDATE, clock, render_instructions, scripts

HOME = ".home-"
"""How the name of a home begins, in its run directory."""
MEMORY_GROUP = "mlebench-memory-"
"""How the names of control groups begin, which limit the memory of runs."""
USER = "nonroot"
"""The agent's own home, empty at first, beside its other folders: named and placed as in a container."""


def create_home(home: Path, task: Task, validation_url: str) -> dict[str, str]:
    """Lay out the agent's home; returns the agent's environment variables."""
    folders = {name: home / name for name in (*COLLECTED, "tmp", "data", USER)}
    for folder in folders.values():
        folder.mkdir()
    # A tree of its own: the folder next to the store's public data holds the answers.
    link_tree(task.public, folders["data"])
    for folder in _folders(folders["data"]):
        folder.chmod(0o555)
    shutil.copytree(task.agent.folder, home / "agent")
    for file in scripts():
        shutil.copy(file, home)
    directories = {name: str(folder) for name, folder in folders.items() if name not in ("tmp", USER)}
    script = str(home / VALIDATE)
    (home / INSTRUCTIONS).write_text(
        render_instructions(validate=script, limits=task.limits, **directories),
        encoding="utf-8",
    )
    environment = {
        # The agent's `python` is ours: a trusted agent can count on the harness's packages.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "HOME": str(folders[USER]),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(folders["tmp"]),
        **{f"{name.upper()}_DIR": directory for name, directory in directories.items()},
        "AGENT_DIR": str(home / "agent"),
        "INSTRUCTIONS": str(home / INSTRUCTIONS),
        "COMPETITION_ID": task.competition_id,
        **clock(task.limits),
        "VALIDATION_URL": validation_url,
    }
    return environment | dict(task.launch.environment)


def _folders(root: Path) -> list[Path]:
    return [root, *(path for path in root.rglob("*") if path.is_dir())]


def link_tree(source: Path, target: Path) -> None:
    """The files below ``source`` in the folder ``target`` too: as hard links where possible, else as copies.

    In the order of their names, and with the same times.
    """
    folders = [(source, target)]
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        if path.is_dir():
            copy.mkdir(parents=True, exist_ok=True)
            folders.append((path, copy))
            continue
        try:
            os.link(path.resolve(), copy)
        except OSError:  # another file system, a limit on links, or files of another owner
            shutil.copyfile(path, copy)
            _copy_times(path, copy)
    for folder, copy in folders:
        _copy_times(folder, copy)


def _copy_times(source: Path, target: Path) -> None:
    about = source.stat()
    os.utime(target, ns=(about.st_mtime_ns, about.st_mtime_ns))
