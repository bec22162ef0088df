"""Bundled agents, each in a real container without any network, solve smoke competitions with a scripted model.

The model speaks the real API of the agent's provider, over TLS; only the gateway reaches it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench._paths import bundled
from pytest_mlebench.agents import Agent
from pytest_mlebench.agents.registry import AgentRegistry
from pytest_mlebench.catalog.leaderboard import MEDALS
from pytest_mlebench.llm.budget import Limits as Budget
from pytest_mlebench.llm.ledger import read_bodies, read_calls
from pytest_mlebench.llm.settings import GatewaySettings
from pytest_mlebench.llm.trajectory import TRAJECTORY
from pytest_mlebench.runs.record import RunRecord
from pytest_mlebench.sandbox import Limits
from tests.agents.scripted_model import FAILED, SOLVED, ScriptedModel, ScriptedPrograms, Shell
from tests.llm.atif import problems
from tests.llm.test_runs import run
from tests.llm.upstreams import KEY, Failure, Seen, Upstream
from tests.sandbox.conftest import require_docker
from tests.sandbox.scripted import docker_sandbox, local_sandbox

PROMPT = ("What to leave", "no GPU", "minutes left", "## Evaluation")
"""Instructions, hardware, time and description, whatever the agent."""
PATIENT = Limits(time_limit=1800, memory=4 << 30)
"""More than an agent needs on a busy machine."""
SMOKE = ("smoke-breast-cancer", "smoke-digits", "smoke-diabetes")


@dataclass(frozen=True)
class Case:
    agent: str
    path: str
    """Of the requests that the agent makes."""
    last: str = ""
    competitions: tuple[str, ...] = SMOKE[:1]
    asked_again: bool = True
    """Whether it can be, with ``--until=limit``."""
    aside: int = 0
    """The questions that it asks its model beside the conversation."""
    model: type[ScriptedModel] = ScriptedModel


CASES = (
    Case("react/dev", "/v1/chat/completions", competitions=SMOKE),
    Case("react/claude-sonnet-5-5", "/v1/messages"),
    Case("react/gemini-3.8-flash", "/v1beta/models/gemini-3.8-flash:generateContent"),
    Case("claude-code/dev", "/v1/messages"),
    Case("codex/dev", "/v1/responses", competitions=SMOKE[1:2]),
    Case("gemini-cli/dev", "/v1beta/models/gemini-3.5-flash-lite:streamGenerateContent", competitions=SMOKE[2:]),
    Case("opencode/dev", "/v1/responses", aside=1),
    Case(
        "mini-swe-agent/dev",
        "/v1/chat/completions",
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
        competitions=SMOKE[1:2],
        asked_again=False,
    ),
    Case("openhands/dev", "/v1/responses", competitions=SMOKE[2:]),
    Case("aide/dev", "/v1/responses", asked_again=False, model=ScriptedPrograms),
)


def bundled_agent(id: str) -> Agent:
    return AgentRegistry(bundled("agents"))[id]


def check_run(case: Case, record: RunRecord, run_dir: Path, upstream: Upstream) -> None:
    """A medal after a failed attempt and a good one, all through the gateway, and no key anywhere."""
    assert record.error is None
    assert record.outcome in MEDALS, (record.detail, (run_dir / "run.log").read_text()[-3000:])
    bodies = [str(body) for body in read_bodies(run_dir)]
    assert any(FAILED in body for body in bodies)
    assert any(SOLVED in body for body in bodies)
    assert {seen.path for seen in upstream.seen} >= {case.path}
    assert record.llm["calls"] == len(read_calls(run_dir)) > 4
    assert record.sandbox.connections == ()
    trajectory = json.loads((run_dir / TRAJECTORY).read_text())
    assert problems(trajectory) == []
    for path in filter(Path.is_file, run_dir.rglob("*")):
        assert KEY.encode() not in path.read_bytes(), path


@pytest.mark.docker
@pytest.mark.full
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.agent)
def test_an_agent_earns_medals_without_a_network(case: Case, upstream: Upstream, tmp_path: Path) -> None:
    require_docker()
    for competition in case.competitions:
        model = upstream.play = case.model(last=case.last)
        agent = bundled_agent(case.agent)
        sandbox = docker_sandbox(network="none")
        record, run_dir = run(sandbox, tmp_path, agent, competition=competition, limits=PATIENT)
        check_run(case, record, run_dir, upstream)
        assert record.ending == "finished"
        assert '"tool_calls": [' in (run_dir / TRAJECTORY).read_text()
        prompt = str(model.prompts[0])
        assert [text for text in PROMPT if text not in prompt] == []


ENDING = tuple(case for case in CASES if case.agent in ("react/dev", "claude-code/dev", "codex/dev", "aide/dev"))
each_ending = pytest.mark.parametrize("case", ENDING, ids=lambda case: case.agent)


def attempt(case: Case, upstream: Upstream, folder: Path, *steps: Shell, **options: Any) -> tuple[RunRecord, Path]:
    """A run whose model does as told, over and over, after it has left a submission."""
    require_docker()
    upstream.play = case.model(
        steps=[Shell("cp $DATA_DIR/sample_submission.csv $SUBMISSION_DIR/submission.csv"), *steps]
    )
    agent = bundled_agent(case.agent)
    agent = replace(agent, env_vars={**agent.env_vars, "MODEL_ATTEMPTS": "2"})
    return run(docker_sandbox(network="none"), folder, agent, **{"limits": PATIENT, **options})


@pytest.mark.docker
@pytest.mark.full
@each_ending
def test_a_run_whose_time_is_over_has_timed_out(case: Case, upstream: Upstream, tmp_path: Path) -> None:
    waiting = Shell("python -c 'import time; time.sleep(1000)'")  # agents refuse a plain sleep, or stop waiting for it
    limits = Limits(time_limit=35, memory=4 << 30)
    record, _ = attempt(case, upstream, tmp_path, *[waiting] * 5, limits=limits)
    assert (record.ending, record.error) == ("timed out", None)
    model = upstream.play
    assert isinstance(model, ScriptedModel)
    if len(model.prompts) > 1:  # on a busy machine an agent may take all the time to start
        assert record.report.valid_submission


@pytest.mark.docker
@pytest.mark.full
@each_ending
def test_a_run_whose_budget_is_over_ends_by_itself(case: Case, upstream: Upstream, tmp_path: Path) -> None:
    """An agent that says that it is done is asked again, in the same conversation, until its budget is over."""
    calls = 5 + case.aside
    steps = [Shell("true")] * (2 if case.asked_again else 50)
    gateway = GatewaySettings(limits=Budget(max_calls=calls))
    record, _ = attempt(case, upstream, tmp_path, *steps, gateway=gateway, until="limit")
    assert (record.ending, record.error, record.report.valid_submission) == ("budget ended", None, True)
    assert record.llm["calls"] == calls
    model = upstream.play
    assert isinstance(model, ScriptedModel)
    first, last = str(model.prompts[0]), str(model.prompts[-1])
    assert ("Improve your result" in last) == case.asked_again and "Improve your result" not in first
    assert "## Evaluation" in last


@pytest.mark.docker
@pytest.mark.full
@each_ending
def test_a_run_whose_provider_is_gone_for_good_ends_by_itself(case: Case, upstream: Upstream, tmp_path: Path) -> None:
    def fail(seen: Seen) -> None:
        if len(upstream.seen) > 3:
            error = {"type": "api_error", "message": "the provider is down"}
            upstream.failures.append(Failure(500, {"type": "error", "error": error}))

    upstream.on_request = fail
    record, _ = attempt(case, upstream, tmp_path, *[Shell("true")] * 50)
    assert (record.ending, record.error, record.report.valid_submission) == ("crashed", None, True)
    assert record.llm["errors"].keys() == {"500"}


@pytest.mark.docker
@pytest.mark.full
@each_ending
def test_a_run_that_is_killed_has_crashed_with_its_submission(case: Case, upstream: Upstream, tmp_path: Path) -> None:
    record, _ = attempt(case, upstream, tmp_path, Shell("kill -KILL -1"))
    assert (record.ending, record.error, record.report.valid_submission) == ("crashed", None, True)
    assert record.signal == "SIGKILL"


@pytest.mark.full
def test_react_runs_in_the_local_sandbox_too(upstream: Upstream, tmp_path: Path) -> None:
    upstream.play = ScriptedModel(code=".")
    agent: Any = bundled_agent("react/dev")
    record, run_dir = run(local_sandbox(), tmp_path, agent)
    check_run(CASES[0], record, run_dir, upstream)
