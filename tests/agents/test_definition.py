"""Agent definitions in MLE-bench's format."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_mlebench.agents import AgentRegistry
from pytest_mlebench.errors import AgentError, UsageError

CONFIG = """
vars:
  step_count: &step_count 2000

defaults: &defaults
  start: scaffold/start.sh
  dockerfile: scaffold/Dockerfile
  kwargs_type: omegaconf
  kwargs: &kwargs
    agent.steps: *step_count
    agent.model: some-model
  env_vars: &env_vars
    API_KEY: ${{ secrets.TEST_API_KEY }}
    HOME_PAGE: here

scaffold:
  <<: *defaults

scaffold/dev:
  <<: *defaults
  kwargs_type: argparse
  kwargs:
    <<: *kwargs
    agent.steps: 1
    key: ${{secrets.TEST_API_KEY}}
  privileged: true
  llm_hosts: [api.example.com]
"""


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    (tmp_path / "scaffold").mkdir()
    (tmp_path / "scaffold/start.sh").write_text("true")
    (tmp_path / "scaffold/config.yaml").write_text(CONFIG)
    return tmp_path


def test_keys_with_a_start_are_agents_and_others_only_carry_anchors(agents: Path) -> None:
    assert sorted(AgentRegistry(agents).load()) == ["scaffold", "scaffold/dev"]


def test_omegaconf_arguments_are_key_equals_value(agents: Path) -> None:
    launch = AgentRegistry(agents)["scaffold"].launch({"TEST_API_KEY": "k"})
    assert launch.arguments == ("agent.steps=2000", "agent.model=some-model")
    assert launch.environment == {"API_KEY": "k", "HOME_PAGE": "here"}
    assert launch.secrets == {"k"}


def test_argparse_arguments_are_options_and_secrets_are_filled_in(agents: Path) -> None:
    agent = AgentRegistry(agents)["scaffold/dev"]
    words = agent.launch({"TEST_API_KEY": "k"}).arguments
    assert words == ("--agent.steps", "1", "--agent.model", "some-model", "--key", "k")
    assert (agent.privileged, agent.trusted, agent.llm_hosts) == (True, False, ("api.example.com",))


def test_a_missing_secret_is_named(agents: Path) -> None:
    with pytest.raises(AgentError, match="agent scaffold needs TEST_API_KEY"):
        AgentRegistry(agents)["scaffold"].launch({"TEST_API_KEY": ""})


def test_secret_values_are_in_no_description(agents: Path) -> None:
    agent = AgentRegistry(agents)["scaffold/dev"]
    launch = agent.launch({"TEST_API_KEY": "hunter2"})
    assert "hunter2" not in f"{agent!r} {agent.describe()} {launch!r}"
    assert agent.describe()["env_vars"]["API_KEY"] == "${{ secrets.TEST_API_KEY }}"


def test_an_unknown_agent_is_told_with_close_matches(agents: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown agent 'scaffold/def'; did you mean scaffold/dev"):
        AgentRegistry(agents)["scaffold/def"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "cannot be read"),
        ("- a", "must be a mapping"),
        ("vars: {a: 1}", "defines no agent"),
        ("scaffold: {start: scaffold/none.sh}", "start script .*none.sh does not exist"),
        ("scaffold: {start: scaffold/start.sh, kwarg: {}}", "unknown keys kwarg"),
        ("scaffold: {start: scaffold/start.sh, kwargs: {a: 1}}", "kwargs_type is None"),
        ("scaffold: {start: scaffold/start.sh, kwargs: [a]}", "must be mappings"),
        ("'../x': {start: scaffold/start.sh}", "an id is made of"),
    ],
)
def test_a_broken_definition_is_told_with_file_and_key(agents: Path, text: str, message: str) -> None:
    (agents / "scaffold/config.yaml").write_text(text)
    with pytest.raises(AgentError, match=f"config.yaml.*{message}"):
        AgentRegistry(agents).load()
