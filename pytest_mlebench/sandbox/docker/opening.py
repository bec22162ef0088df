"""Opening the container engine that a session asks for."""

from __future__ import annotations

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox.docker.engine import DOCKER, PODMAN, Engine, connect, docker_host, is_podman
from pytest_mlebench.sandbox.docker.podman import open_podman


def open_engine(kind: str = DOCKER, runtime: str | None = None) -> Engine:
    """The engine ``docker`` or ``podman`` of this machine, for containers with this runtime or its usual one.

    Raises SandboxError that says how to get it.
    """
    if kind == PODMAN:
        return open_podman(runtime)
    if kind != DOCKER:
        raise SandboxError(f"engine {kind!r} must be {DOCKER} or {PODMAN}")
    client = connect()
    if is_podman(client):
        raise SandboxError(f"the engine at {docker_host()} is Podman: use it with --sandbox=podman")
    return Engine(client, docker_host())
