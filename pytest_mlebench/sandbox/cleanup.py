"""What sessions that died left on this machine: containers, and the folders of their sockets."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import DockerException, NotFound

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox.engine import connect
from pytest_mlebench.sandbox.owner import LABEL, is_dead, start_time
from pytest_mlebench.sandbox.run_folder import PREFIX

_FOLDER = re.compile(rf"{re.escape(PREFIX)}(?P<pid>\d+)-(?P<start>\d+)-")


@dataclass(frozen=True)
class Leftover:
    """Something that a dead session left: what it is, its name, and the run group that it belonged to."""

    kind: str
    name: str
    run_group: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" (run group {self.run_group})" if self.run_group else "")


def clean(*, kept: bool = False, dry_run: bool = False, run_group: str | None = None) -> list[Leftover]:
    """Remove what dead sessions of this machine left, and nothing else; returns what it was.

    With ``run_group`` only the containers of this group are looked at.

    A session is dead when the process that made the container runs no more: neither its number nor another process that
    has the number now. What sessions of other machines, or in other process namespaces, left cannot be judged and
    stays. So do containers that were kept on purpose, unless ``kept``. Raises SandboxError if no engine answers.
    """
    client = connect()
    try:
        found = [leftover for leftover in _dead_containers(client, kept) if run_group in (None, leftover.run_group)]
        if not dry_run:
            for leftover in found:
                _remove(client, leftover.name)
    finally:
        client.close()
    for folder in _dead_folders() if run_group is None else ():
        found.append(Leftover("folder", str(folder)))
        if not dry_run:
            shutil.rmtree(folder, ignore_errors=True)
    return found


def _dead_containers(client: docker.DockerClient, kept: bool) -> list[Leftover]:
    try:
        entries = client.api.containers(all=True, filters={"label": f"{LABEL}pid"})
    except (DockerException, OSError) as error:
        raise SandboxError(f"the Docker engine does not list its containers: {error}") from error
    found = []
    for entry in entries:
        labels = entry.get("Labels") or {}
        if is_dead(labels) and (kept or f"{LABEL}keep" not in labels):
            found.append(Leftover("container", entry["Names"][0].lstrip("/"), labels.get(f"{LABEL}run-group", "")))
    return found


def _remove(client: docker.DockerClient, name: str) -> None:
    try:
        client.api.remove_container(name, force=True, v=True)
    except NotFound:
        return
    except (DockerException, OSError) as error:
        raise SandboxError(f"container {name} cannot be removed: {error}") from error


def _dead_folders() -> list[Path]:
    """Folders of this user's dead sessions; each name tells its owner's process."""
    found = []
    for base in {Path(tempfile.gettempdir()), Path("/tmp")}:
        for folder in base.glob(f"{PREFIX}*"):
            match = _FOLDER.match(folder.name)
            if match is None or folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            if start_time(int(match["pid"])) != match["start"]:
                found.append(folder)
    return sorted(found)
