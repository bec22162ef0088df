"""Which sandbox a run gets."""

from __future__ import annotations

from functools import cache

from pytest_mlebench.agents.definition import Agent
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox.base import Sandbox
from pytest_mlebench.sandbox.local import LocalSandbox


def choose(kind: str, agent: Agent) -> Sandbox:
    """The sandbox for ``auto``, ``docker`` or ``local``; raises SandboxError where there is none.

    ``auto`` is Docker where an engine answers, else local for agents that are trusted.
    """
    if kind == "local":
        return LocalSandbox()
    problem = docker_problem()
    if problem is None:
        raise SandboxError("the Docker sandbox is not there yet")
    if kind == "auto" and agent.trusted:
        return LocalSandbox()
    ways = "start a Docker engine (see https://docs.docker.com/engine/install)"
    if kind == "auto":
        ways += ", or run it without isolation, if you trust it, with --sandbox local"
    raise SandboxError(f"no Docker engine answers ({problem}), and agent {agent.id} needs one: {ways}")


@cache
def docker_problem() -> str | None:
    """Why no Docker engine can be used; None if one answers."""
    import docker

    try:
        client = docker.from_env(timeout=10)
        client.ping()
        client.close()
    except Exception as error:  # the client's errors have no common base
        return str(error).splitlines()[0][:200]
    return None
