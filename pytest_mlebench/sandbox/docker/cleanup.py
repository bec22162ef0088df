"""Removes what dead sessions left on this machine: containers, their disks, and temporary folders."""

from __future__ import annotations

import os
import shutil
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import docker
from docker.errors import APIError, NotFound

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.processes import LABEL, dead_folders, is_dead
from pytest_mlebench.io.progress import Reporter, silent
from pytest_mlebench.sandbox.contract import Leftover, clean_folders, remove_leftovers
from pytest_mlebench.sandbox.docker.client import DOCKER, PODMAN, client_errors
from pytest_mlebench.sandbox.docker.container import PREFIX as DISK_PREFIX
from pytest_mlebench.sandbox.docker.container import remove_disk
from pytest_mlebench.sandbox.docker.podman import open_client


def clean(
    engine: str = DOCKER, *, kept: bool = False, dry_run: bool = False, reporter: Reporter = silent
) -> list[Leftover]:
    """Remove what dead sessions of this machine left, and nothing else. Reports each item, and returns them.

    With ``dry_run``, nothing is removed.

    A session is dead if the process that created the container has ended, even if its id has been reused. Leftovers of
    other machines, or of other process namespaces, cannot be judged and stay. So do containers that were kept on
    purpose, unless ``kept``. Raises SandboxError if no engine answers.
    """
    with closing(open_client(engine)) as opened:
        containers = _dead_containers(opened.client, kept)
        removals = {leftover: partial(_remove, opened.client, leftover.name) for leftover in containers}
        disks = dead_folders(DISK_PREFIX, [Path("/var/tmp")])
        removals |= {Leftover("disk", str(folder)): partial(remove_disk, folder) for folder in disks}
        found = remove_leftovers(removals, dry_run=dry_run, reporter=reporter)
    return found + clean_folders(dry_run=dry_run, reporter=reporter)


def clean_all(*, kept: bool = False, dry_run: bool = False, reporter: Reporter = silent) -> list[Leftover]:
    """Run ``clean`` for each engine of this machine.

    If none answers, only temporary folders are removed. Raises SandboxError then, unless this machine has no engine, as
    is usual for the nodes of a cluster.
    """
    found, problems = [], []
    engines = [DOCKER, PODMAN] if shutil.which("podman") else [DOCKER]
    for engine in engines:
        try:
            found += clean(engine, kept=kept, dry_run=dry_run, reporter=reporter)
        except SandboxError as error:
            problems.append(error)
    if len(problems) == len(engines):
        found += clean_folders(dry_run=dry_run, reporter=reporter)
        if "DOCKER_HOST" in os.environ or any(map(shutil.which, (DOCKER, PODMAN))):
            raise problems[0]
    return found


def _dead_containers(client: docker.DockerClient, kept: bool) -> list[Leftover]:
    with client_errors("list its containers"):
        entries = client.api.containers(all=True, filters={"label": f"{LABEL}pid"})
    found = []
    for entry in entries:
        labels = entry.get("Labels") or {}
        if is_dead(labels) and (kept or labels.get(f"{LABEL}keep") != "true"):
            name = (entry.get("Names") or [entry["Id"]])[0]  # one that is being removed has no name
            found.append(Leftover("container", name.lstrip("/"), labels.get(f"{LABEL}run-group", "")))
    return found


def _remove(client: docker.DockerClient, name: str) -> None:
    with client_errors(f"remove container {name}"), suppress(NotFound):
        try:
            client.api.remove_container(name, force=True, v=True)
        except APIError as error:
            if error.status_code != 409:  # another session is removing it
                raise
