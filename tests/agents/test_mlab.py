"""MLAgentBench's research agent, whose source is only on GitHub.

If ``MLEBENCH_TEST_MLAB`` is its archive (of the commit in the agent's Dockerfile), the agent is built from it and run.
Without it, that test is not collected, since no package registry has the source.
"""

from __future__ import annotations

import os
import shutil
import ssl
from pathlib import Path

import pytest

from pytest_mlebench.agents import Agent, AgentRegistry
from pytest_mlebench.io.files import bundled
from tests.agents.scripted_model import ScriptedResearch
from tests.agents.test_bundled_agents import Case, Runs, check_endings, tls
from tests.llm.test_runs import run
from tests.llm.upstreams import Upstream
from tests.sandbox.conftest import require_docker
from tests.sandbox.scripted import docker_sandbox

__all__ = ["tls"]

ARCHIVE = os.environ.get("MLEBENCH_TEST_MLAB")


def mlab_from(source: str, folder: Path) -> Agent:
    """The bundled agent with another source in its Dockerfile."""
    shutil.copytree(bundled("agents") / "mlab", folder / "agents/mlab")
    dockerfile = folder / "agents/mlab/Dockerfile"
    lines = dockerfile.read_text().splitlines(keepends=True)
    assert sum(line.startswith("ARG SOURCE=https://github.com/") for line in lines) == 1
    dockerfile.write_text(
        "".join(f"ARG SOURCE={source}\n" if line.startswith("ARG SOURCE=") else line for line in lines)
    )
    return AgentRegistry(folder / "agents")["mlab/dev"]


@pytest.mark.docker
@pytest.mark.full
def test_the_error_for_an_unreachable_source_says_what_to_do(upstream: Upstream, tmp_path: Path) -> None:
    require_docker()
    source = "https://localhost:9/MLAgentBench.tar.gz"  # nothing listens there
    record, _ = run(docker_sandbox(network="none"), tmp_path, mlab_from(source, tmp_path))
    advice = (
        f"MLAgentBench cannot be fetched from {source}: put its archive into agents/mlab and name it in the Dockerfile"
    )
    assert record.error is not None and advice in record.error


if ARCHIVE:

    @pytest.mark.docker
    @pytest.mark.full
    def test_mlab_earns_medals_without_a_network_and_ends_properly_in_every_way(
        tls: ssl.SSLContext, tmp_path: Path
    ) -> None:
        require_docker()
        agent = mlab_from("source.tgz", tmp_path)
        shutil.copy(str(ARCHIVE), agent.folder / "source.tgz")
        case = Case("mlab/dev", "/v1/chat/completions", budget=18, model=ScriptedResearch)
        check_endings(Runs(case, agent, tmp_path, tls))
