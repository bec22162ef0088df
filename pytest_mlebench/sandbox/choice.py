"""Which sandbox a run gets."""

from __future__ import annotations

from collections.abc import Callable

from pytest_mlebench.agents.definition import Agent
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox.contract import Sandbox


def choose(kind: str, agent: Agent, *, local: Callable[[], Sandbox], container: Callable[[str], Sandbox]) -> Sandbox:
    """The sandbox for ``auto``, ``docker``, ``podman`` or ``local``; raises SandboxError where there is none.

    ``auto`` is Docker where an engine answers, else local for agents that are trusted.
    """
    if kind == "local":
        return local()
    try:
        return container("docker" if kind == "auto" else kind)
    except SandboxError as error:
        if kind != "auto":
            raise
        if agent.trusted:
            return local()
        raise SandboxError(f"agent {agent.id} is not trusted and needs a container: {error}") from error
