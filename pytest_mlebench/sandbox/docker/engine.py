"""The Docker engine of this machine."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import docker
from docker.errors import APIError, DockerException

from pytest_mlebench.errors import SandboxError

TIMEOUT = 600
"""Seconds that the engine may take for an answer: removing a container with many files takes long."""


def connect() -> docker.DockerClient:
    """A client of the local engine; raises SandboxError that says how to get one."""
    try:
        _try_socket()
        client = docker.from_env(timeout=TIMEOUT)
        client.ping()
    except (DockerException, OSError) as error:
        raise SandboxError(_no_engine(error)) from error
    if not str(client.api.base_url).startswith("http+docker://"):
        raise SandboxError(
            f"the Docker engine at {client.api.base_url} is on another machine: the submission checker and the data "
            "reach a container through this machine's file system. Unset DOCKER_HOST to use the local engine."
        )
    return client


def engine_info(client: docker.DockerClient) -> dict[str, Any]:
    """What the engine says of itself; raises SandboxError."""
    try:
        return dict(client.info())
    except (DockerException, OSError) as error:
        raise SandboxError(_no_engine(error)) from error


def explain(error: Exception) -> str:
    """Why the engine refused something, in its own words and without the address that was asked."""
    if isinstance(error, APIError) and error.explanation:
        return str(error.explanation).strip()
    return str(error)


@contextmanager
def engine_errors(action: str) -> Iterator[None]:
    """Inside, an error of the engine is a SandboxError of one line: the engine could not ``action``."""
    try:
        yield
    except (DockerException, OSError) as error:
        raise SandboxError(f"the Docker engine could not {action}: {explain(error)}") from error


def _try_socket() -> None:
    """Raises OSError where nothing listens: docker's client would leave a socket open that cannot be connected."""
    host = _host()
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(TIMEOUT)
            probe.connect(host.removeprefix("unix://"))


def _host() -> str:
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def _no_engine(error: Exception) -> str:
    text = str(error)
    if "Permission denied" in text:
        return (
            "this user may not use the Docker engine: join the group docker (`sudo usermod -aG docker $USER`, then log "
            "in again), or set up rootless Docker"
        )
    cause = re.search(r"\[Errno -?\d+\] ([^()'\"]+)", text)  # the rest names the libraries in between
    what = f"{_host()}: {cause[1].strip()}" if cause else text
    return (
        f"no Docker engine answers ({what}): start one (`sudo systemctl start docker`), or run agents that you trust "
        "without one (`--sandbox=local`)"
    )
