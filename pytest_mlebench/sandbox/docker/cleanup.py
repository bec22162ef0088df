"""What sessions that died left on this machine: containers, their disks, and the folders of their sockets."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import NotFound

from pytest_mlebench.progress import Note, Reporter, silent
from pytest_mlebench.sandbox.docker.engine import connect, engine_errors
from pytest_mlebench.sandbox.docker.loop_disk import PREFIX as DISK_PREFIX
from pytest_mlebench.sandbox.docker.loop_disk import remove_disk
from pytest_mlebench.sandbox.docker.socket_folder import PREFIX
from pytest_mlebench.sandbox.owner import LABEL, is_dead, start_time


@dataclass(frozen=True)
class Leftover:
    """Something that a dead session left: what it is, its name, and the run group that it belonged to."""

    kind: str
    name: str
    run_group: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" (run group {self.run_group})" if self.run_group else "")


def clean(
    *, kept: bool = False, dry_run: bool = False, run_group: str | None = None, reporter: Reporter = silent
) -> list[Leftover]:
    """Remove what dead sessions of this machine left, and nothing else; returns what it was, and reports each.

    With ``run_group`` only the containers of this group are considered; with ``dry_run`` nothing is removed.

    A session is dead when the process that made the container runs no more: neither its number nor another process that
    has the number now. What sessions of other machines, or in other process namespaces, left cannot be judged and
    stays. So do containers that were kept on purpose, unless ``kept``. Raises SandboxError if no engine answers.
    """
    found: list[Leftover] = []

    def removing(leftover: Leftover) -> bool:
        found.append(leftover)
        reporter(Note(f"{'would remove' if dry_run else 'removing'} {leftover}"))
        return not dry_run

    client = connect()
    try:
        for leftover in _dead_containers(client, kept):
            if run_group in (None, leftover.run_group) and removing(leftover):
                _remove(client, leftover.name)
    finally:
        client.close()
    if run_group is None:
        for folder in _dead_folders(DISK_PREFIX, Path("/var/tmp")):
            if removing(Leftover("disk", str(folder))):
                remove_disk(folder)
        for folder in _dead_folders(PREFIX, Path(tempfile.gettempdir()), Path("/tmp")):
            if removing(Leftover("folder", str(folder))):
                shutil.rmtree(folder, ignore_errors=True)
    return found


def _dead_containers(client: docker.DockerClient, kept: bool) -> list[Leftover]:
    with engine_errors("list its containers"):
        entries = client.api.containers(all=True, filters={"label": f"{LABEL}pid"})
    found = []
    for entry in entries:
        labels = entry.get("Labels") or {}
        if is_dead(labels) and (kept or f"{LABEL}keep" not in labels):
            name = (entry.get("Names") or [entry["Id"]])[0]  # one that is being removed has no name any more
            found.append(Leftover("container", name.lstrip("/"), labels.get(f"{LABEL}run-group", "")))
    return found


def _remove(client: docker.DockerClient, name: str) -> None:
    with engine_errors(f"remove container {name}"), suppress(NotFound):
        client.api.remove_container(name, force=True, v=True)


def _dead_folders(prefix: str, *bases: Path) -> list[Path]:
    """Folders of this user's dead sessions; each name says which process owns it."""
    name = re.compile(rf"{re.escape(prefix)}(?P<pid>\d+)-(?P<start>\d+)-")
    found = []
    for base in set(bases):
        for folder in base.glob(f"{prefix}*"):
            match = name.match(folder.name)
            if match is None or folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            if start_time(int(match["pid"])) != match["start"]:
                found.append(folder)
    return sorted(found)
