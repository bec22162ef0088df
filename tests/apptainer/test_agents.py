"""Bundled agents in Apptainer's containers, whose images are built from their Dockerfiles without Docker."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tests.agents.test_bundled_agents import CASES, Case, Runs, bundled_agent, check_endings, tls
from tests.extent import only_all
from tests.llm.conftest import certificates, upstream
from tests.sandbox.scripted import ENGINE

__all__ = ["certificates", "tls", "upstream"]

pytestmark = [
    pytest.mark.docker,
    pytest.mark.serial,
    pytest.mark.skipif(ENGINE != "apptainer", reason="MLEBENCH_TEST_ENGINE=apptainer runs it"),
]
REAL = ("claude-code/dev", "codex/dev", "openhands/dev", "aide/dev")


@pytest.mark.parametrize(("network", "competitions"), [("none", "breast-cancer diabetes digits"), ("llm", "digits")])
def test_react_earns_medals(network: str, competitions: str, tls: ssl.SSLContext, tmp_path: Path) -> None:
    runs = Runs(CASES[0], bundled_agent("react/dev"), tmp_path, tls, network)
    for competition in competitions.split():
        ran = runs(competition)
        ran.solved()
        assert (ran.record.ending, ran.record.sandbox.network) == ("finished", network)


@only_all
@pytest.mark.parametrize("case", [case for case in CASES if case.agent in REAL], ids=lambda case: case.agent)
def test_real_agents_earn_medals_and_end_properly(case: Case, tls: ssl.SSLContext, tmp_path: Path) -> None:
    check_endings(Runs(case, bundled_agent(case.agent), tmp_path, tls))
