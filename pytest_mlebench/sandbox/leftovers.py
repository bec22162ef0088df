"""What sessions that were killed left on this machine, and its removal."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_mlebench.io.files import remove_tree
from pytest_mlebench.io.processes import dead_folders
from pytest_mlebench.io.progress import Note, Reporter, silent
from pytest_mlebench.sandbox.checker import UPLOADS

HOME = ".home-"
"""How the name of a local agent's home begins, in its run directory."""
MEMORY_GROUP = "mlebench-memory-"
"""How the names of control groups begin, which limit the memory of runs."""
SOCKETS = "mlebench-run-"
"""How the names of folders of sockets begin (see ``wiring.socket_folder``)."""
PODMAN = "mlebench-podman-"
"""The same of a Podman service of a session's own (see ``docker.podman``)."""


@dataclass(frozen=True)
class Leftover:
    """Something that a dead session left: what it is, its name, and the run group that it belonged to."""

    kind: str
    name: str
    run_group: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" (run group {self.run_group})" if self.run_group else "")

    def report(self, reporter: Reporter, *, dry_run: bool) -> None:
        reporter(Note(f"{'would remove' if dry_run else 'removing'} {self}"))


def clean_folders(
    run_dirs: Iterable[Path] = (), *, dry_run: bool = False, reporter: Reporter = silent
) -> list[Leftover]:
    """Remove the temporary folders of dead sessions; returns what they were, and reports each.

    ``run_dirs`` are run directories, and the run group around them, in which agents that ran without a container had
    their homes. With ``dry_run`` nothing is removed.
    """
    temporary = {Path(tempfile.gettempdir()), Path("/tmp")}
    found = []
    names = (SOCKETS, UPLOADS, PODMAN)
    folders = [*(folder for name in names for folder in dead_folders(name, temporary)), *dead_folders(HOME, run_dirs)]
    for folder in folders:
        found.append(Leftover("folder", str(folder)))
        found[-1].report(reporter, dry_run=dry_run)
        if not dry_run:
            remove_tree(folder)
    for group in dead_folders(MEMORY_GROUP, [Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")]):
        found.append(Leftover("control group", str(group)))
        found[-1].report(reporter, dry_run=dry_run)
        if not dry_run:
            with suppress(OSError):  # a supervisor is still ending its processes
                group.rmdir()
    return found
