"""Agent definitions in MLE-bench's format."""

from __future__ import annotations

import os
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from pytest_mlebench.agents import Agent, AgentRegistry
from pytest_mlebench.agents.registry import Launch, check_folder, default_agents
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
  env_vars:
    <<: *env_vars
    KEY: sk ${{secrets.TEST_API_KEY}}
  privileged: true
  llm_hosts: [api.example.com]
"""


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    (tmp_path / "scaffold").mkdir()
    (tmp_path / "scaffold/start.sh").write_text("true")
    (tmp_path / "scaffold/config.yaml").write_text(CONFIG)
    return tmp_path


def test_keys_with_a_start_are_agents_and_others_hold_anchors(agents: Path) -> None:
    assert sorted(AgentRegistry(agents).load()) == ["scaffold", "scaffold/dev"]


def test_omegaconf_arguments_are_key_equals_value(agents: Path) -> None:
    launch = AgentRegistry(agents)["scaffold"].launch({"TEST_API_KEY": "k-12345678"})
    assert launch.arguments == ("agent.steps=2000", "agent.model=some-model")
    assert launch.environment == {"API_KEY": "k-12345678", "HOME_PAGE": "here"}
    assert launch.secrets == {"k-12345678"}


def test_argparse_arguments_are_options_and_secrets_are_filled_in(agents: Path) -> None:
    agent = AgentRegistry(agents)["scaffold/dev"]
    launch = agent.launch({"TEST_API_KEY": "k-12345678"})
    assert launch.arguments == ("--agent.steps", "1", "--agent.model", "some-model")
    assert launch.environment["KEY"] == "sk k-12345678"
    assert (agent.privileged, agent.trusted, agent.llm_hosts) == (True, False, ("api.example.com",))


def test_an_agent_names_its_version_and_its_models(agents: Path) -> None:
    agent = AgentRegistry(agents)["scaffold/dev"]
    assert (agent.version, agent.models) == ("", ("some-model",))
    agent.dockerfile.write_text("FROM mlebench-env\nARG VERSION=1.2.3\nARG AGENT_DIR\n")
    assert agent.version == "1.2.3"
    agent.dockerfile.write_text("FROM mlebench-env\n")
    assert agent.version == ""
    agent.dockerfile.write_bytes(b"ARG VERSION=\xff\n")
    assert agent.version == ""
    others = replace(agent, kwargs={"model": "a", "x.model": "b", "y.model": "a", "models": "c", "model.name": "d"})
    assert others.models == ("a", "b")


def test_a_definition_requests_no_permissions_by_default(tmp_path: Path) -> None:
    agent = Agent(id="mine", folder=tmp_path, start=tmp_path / "start.sh", dockerfile=tmp_path / "Dockerfile")
    assert agent.describe() == {
        "id": "mine",
        "kwargs_type": None,
        "kwargs": {},
        "env_vars": {},
        "privileged": False,
        "trusted": False,
        "llm_hosts": [],
    }
    assert not agent.bundled and not agent.may_ask_models and agent.launch() == Launch()
    assert replace(agent, base_image="cuda").describe()["base_image"] == "cuda"
    for asking in (
        {"llm_hosts": ("a.example",)},
        {"env_vars": {"X": "${{ secrets.X }}"}},
        {"env_vars": {"X": "a://b"}},
    ):
        assert replace(agent, **asking).may_ask_models
    assert not replace(agent, env_vars={"X": "a//b"}).may_ask_models
    with pytest.raises(FrozenInstanceError):
        agent.trusted = True  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        Launch().secrets = frozenset({"x"})  # type: ignore[misc]
    with pytest.raises(TypeError, match="positional"):
        Agent("mine", tmp_path, tmp_path, tmp_path)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        Launch(("x",))  # type: ignore[call-arg]


def test_an_agent_reads_until_if_one_of_its_files_mentions_it(tmp_path: Path) -> None:
    agent = Agent(id="mine", folder=tmp_path, start=tmp_path / "start.sh", dockerfile=tmp_path / "Dockerfile")
    (tmp_path / "ask.sh").mkdir()
    (tmp_path / "weights.bin").write_bytes(b"\xff UNTIL")
    (tmp_path / "start.sh").write_text("UNTILS=1; task.shell\n")
    assert agent.reads_until is False
    for text in ("seq $UNTIL", "bash ask.sh"):
        (tmp_path / "start.sh").write_text(text)
        assert agent.reads_until is True


def test_keys_that_hold_anchors_are_not_bundled_agents() -> None:
    folders = {agent.folder.name for agent in default_agents().load().values()}
    assert {id.partition("/")[0] for id in default_agents().load()} == folders


def test_a_missing_secret_is_named(agents: Path) -> None:
    with pytest.raises(AgentError, match="agent scaffold needs TEST_API_KEY"):
        AgentRegistry(agents)["scaffold"].launch({"TEST_API_KEY": ""})
    with pytest.raises(AgentError, match="agent scaffold needs TEST_API_KEY"):
        AgentRegistry(agents)["scaffold"].launch()


def test_a_secret_too_short_to_be_masked_in_logs_is_rejected(agents: Path) -> None:
    with pytest.raises(AgentError, match="the secret TEST_API_KEY has 1 character, but needs at least 8"):
        AgentRegistry(agents)["scaffold"].launch({"TEST_API_KEY": "5"})
    with pytest.raises(AgentError, match="has 7 characters"):
        AgentRegistry(agents)["scaffold"].launch({"TEST_API_KEY": "1234567"})
    assert AgentRegistry(agents)["scaffold"].launch({"TEST_API_KEY": "12345678"}).secrets == {"12345678"}


def test_descriptions_contain_no_secret_values(agents: Path) -> None:
    agent = AgentRegistry(agents)["scaffold/dev"]
    launch = agent.launch({"TEST_API_KEY": "hunter22"})
    assert "hunter22" not in f"{agent!r} {agent.describe()} {launch!r}"
    assert repr(launch) == "Launch()"
    assert agent.describe()["env_vars"]["API_KEY"] == "${{ secrets.TEST_API_KEY }}"


def test_the_error_for_an_unknown_agent_suggests_close_matches(agents: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown agent 'scaffold/def'; did you mean scaffold/dev"):
        AgentRegistry(agents)["scaffold/def"]


def test_the_error_for_an_unregistered_local_agent_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents/mine").mkdir(parents=True)
    (tmp_path / "agents/mine/config.yaml").write_text("mine: {start: mine/start.sh}\n")
    with pytest.raises(UsageError, match=r"to use agents/mine, add --agents-dir=agents$"):
        default_agents()["mine/fast"]
    with pytest.raises(UsageError, match=r"agents/mine is a folder: use its name, mine, and add --agents-dir=agents$"):
        default_agents()["agents/mine"]


def test_the_error_for_an_unknown_agent_lists_agents_and_how_to_add_one(agents: Path) -> None:
    with pytest.raises(UsageError) as caught:
        default_agents(agents)["mine"]
    text = str(caught.value)
    assert "choose from aide" in text and "baseline" in text and ", scaffold." in text and "…" not in text
    assert text.endswith("; --agents-dir=DIR adds its parent folder")


def test_a_folder_without_agents_or_of_a_single_agent_is_rejected(agents: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"scaffold is an agent's own folder: give its parent folder"):
        AgentRegistry(agents / "scaffold")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"empty has no agent \(a folder with config\.yaml\)"):
        AgentRegistry(tmp_path / "empty")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "is not YAML"),
        ("- a", "must be a mapping"),
        ("vars: {a: 1}", "defines no agent"),
        ("scaffold: {start: scaffold/none.sh}", "start script .*none.sh does not exist"),
        ("scaffold: {start: scaffold/start.sh, kwarg: {}}", "unknown keys kwarg"),
        ("scaffold: {start: scaffold/start.sh, kwargs: {a: 1}}", "kwargs_type must be argparse or omegaconf, not None"),
        ("scaffold: {start: scaffold/start.sh, kwargs: [a]}", "kwargs must be a mapping, not the list"),
        ("'../x': {start: scaffold/start.sh}", "an id consists of up to 200 letters"),
        ('scaffold: {start: scaffold/start.sh, trusted: "no"}', "trusted must be true or false .* the string 'no'"),
        ('scaffold: {start: scaffold/start.sh, privileged: "false"}', "privileged must be true or false .*'false'"),
        ("scaffold: {start: scaffold/start.sh, privileged: 1}", "privileged must be true or false .*, not the value 1"),
        ("scaffold: {start: scaffold/start.sh, trusted: [false]}", "trusted must be true or false .*, not the list"),
        ("scaffold: {start: scaffold/start.sh, llm_hosts: api.example.com}", "llm_hosts must be a list .* the string"),
        ("scaffold: {start: scaffold/start.sh, llm_hosts: [1]}", "llm_hosts must be a list of strings.*, not the list"),
        ("scaffold: {start: scaffold/start.sh, env_vars: {A: '${{ secret.X }}'}}", "A: '.*must be of the form"),
        ("scaffold: {start: scaffold/start.sh, env_vars: {A: '${{ secrets.X-Y }}'}}", "A: '.*must be of the form"),
        (
            "scaffold: {start: scaffold/start.sh, kwargs_type: argparse, kwargs: {a: 'x ${{secrets.A}} ${{ env.B }}'}}",
            "a: '.*must be of the form",
        ),
        ("scaffold: {start: scaffold/start.sh, env_vars: {A: [1]}}", "A must be a string or number, not the list"),
        ("scaffold: {start: scaffold/start.sh, base_image: 3.12}", "base_image must be the name .* not the value 3.12"),
        ("scaffold: {start: scaffold/start.sh, base_image: 'a b'}", "base_image must be the name .* the string 'a b'"),
        ("scaffold: {start: scaffold/start.sh, base_image: 'a..b'}", "base_image must be the name .* 'a..b'"),
        ("scaffold: {start: scaffold/start.sh, env_vars: {'A=B': 1}}", "not a valid variable name"),
        ('scaffold: {start: scaffold/start.sh, env_vars: {A: "x\\0y"}}', "A contains a NUL character"),
        (
            "scaffold: {start: scaffold/start.sh, dockerfile: /etc/passwd}",
            "dockerfile must be a path inside .*, not '/etc/passwd'",
        ),
        ("scaffold: {start: scaffold/start.sh, dockerfile: scaffold/../../x}", "dockerfile must be a path inside"),
        ("scaffold: {start: scaffold/start.sh, dockerfile: [x]}", "dockerfile must be a path .* not the list"),
        ("scaffold: {start: ../outside.sh}", "start must be a path inside .*, not '../outside.sh'"),
        ("scaffold: {start: /etc/passwd}", "start must be a path inside .*, not '/etc/passwd'"),
        ("scaffold: {start: scaffold/link.sh}", "a link that leaves the agent's folder"),
        ("scaffold: {start: start.sh}", "must be <folder>/<script>"),
        ("scaffold: {start: {a: b}}", "start must be a path .*, not the mapping"),
        ("[" * 900, "more than 20 levels"),
        ("[" * 3000, "(more than 20 levels|maximum nesting depth)"),  # libyaml has its own limit
        ("a: " + "{b: " * 900, "more than 20 levels"),
        ("a: &a [*a]", "refers to a value that contains it"),
        (
            "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
            + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)),
            "more than 20,000 values",
        ),
        ("#" * (1 << 20) + "\n\n", "it has more than 1,048,576 bytes"),
        (
            "scaffold: {start: scaffold/start.sh, kwargs_type: argparse, kwargs: {key: 'x${{ secrets.KEY }}'}}",
            "kwargs: key requests the secret KEY, .* list of processes: request it in env_vars",
        ),
        ("scaffold: {start: scaffold/start.sh, privileged: false, privileged: true}", "has the key 'privileged' twice"),
        (
            "scaffold: {start: scaffold/start.sh}\nscaffold: {start: scaffold/none.sh}",
            "the key 'scaffold' twice .line 2",
        ),
        ("scaffold/../x: {start: scaffold/start.sh}", "an id consists of up to 200 letters"),
        ('"scaffold\\n": {start: scaffold/start.sh}', r"'scaffold\\n': an id consists of up to 200 letters"),
        ("scaffold: {start: scaffold/start.sh, privileged: 0x" + "f" * 9000 + "}", "privileged is a number with more"),
        (
            "scaffold: {start: scaffold/start.sh, kwargs_type: argparse, kwargs: {a: [0x" + "f" * 9000 + "]}}",
            "kwargs.a is a number with more than 64 bits: write it in quotes",
        ),
        ("scaffold: {start: scaffold/start.sh, a: " + ":".join(["59"] * 5000) + ".5}", "fit its type: int too large"),
        (
            "scaffold: {start: scaffold/start.sh, kwargs_type: argparse, kwargs: {a: 2001-01-01}}",
            "kwargs.a is a date: write it in quotes",
        ),
        (
            "scaffold: {start: scaffold/start.sh, kwargs_type: argparse, kwargs: {a: !!binary aGVsbG8=}}",
            "kwargs.a is a bytes: write it in quotes",
        ),
        ("scaffold: {start: scaffold/" + "x" * 900 + "}", "start must be a path inside"),
    ],
)
def test_the_error_for_an_invalid_definition_names_file_and_key(agents: Path, text: str, message: str) -> None:
    (agents / "scaffold/config.yaml").write_text(text)
    (agents / "scaffold/link.sh").symlink_to("/etc/passwd")
    with pytest.raises(AgentError, match=f"config.yaml.*{message}") as caught:
        AgentRegistry(agents).load()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("kind", "message"), [("device", "not a regular"), ("pipe", "not a regular"), ("huge", "more")]
)
def test_a_definition_that_cannot_be_read_whole_is_rejected(agents: Path, kind: str, message: str) -> None:
    scaffold, config = AgentRegistry(agents)["scaffold"], agents / "scaffold/config.yaml"
    config.unlink()
    if kind == "device":
        config.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(config)
    else:
        config.write_text("#" * (1 << 20) + CONFIG)
    assert not scaffold.reads_until and not replace(scaffold, dockerfile=config).version
    for read in (AgentRegistry(agents).load, lambda: AgentRegistry(agents)["scaffold"]):
        with pytest.raises(AgentError, match=f"config.yaml: cannot be read: it .*{message}"):
            read()


def test_an_agent_is_the_same_alone_and_among_all_whatever_its_folder_is_called(agents: Path) -> None:
    other = agents / "zoo"
    other.mkdir()
    (other / "start.sh").write_text("true")
    one = "{start: zoo/start.sh, dockerfile: zoo/Dockerfile}"
    (other / "config.yaml").write_text(f"scaffold: {one}\nscaffold/new: {one}\naide: {one}")
    registry = default_agents(agents)
    found = registry.load()
    for id in ("scaffold", "scaffold/new", "scaffold/dev", "aide", "aide/dev", "baseline"):
        assert registry[id] == found[id]
    assert registry["aide"].folder == registry["scaffold/new"].folder == other
    (other / "config.yaml").write_text("broken: [")
    assert AgentRegistry(agents)["scaffold"].folder == agents / "scaffold", "another agent's mistake does not matter"


def test_circular_links_are_rejected(agents: Path) -> None:
    agent = AgentRegistry(agents)["scaffold"]
    (agents / "scaffold/loop").symlink_to("loop")
    with pytest.raises(AgentError, match="loop is a link that leaves the agent's folder"):
        check_folder(agent)
    (agents / "scaffold/config.yaml").write_text("scaffold: {start: scaffold/loop}")
    with pytest.raises(AgentError, match="scaffold/loop' is a link that leaves the agent's folder"):
        AgentRegistry(agents).load()


def test_a_link_that_leaves_the_agents_folder_is_rejected(agents: Path) -> None:
    agent = AgentRegistry(agents)["scaffold"]
    (agents / "scaffold/inside").symlink_to("start.sh")
    check_folder(agent)
    (agents / "scaffold/private").symlink_to(agents.parent)
    with pytest.raises(AgentError, match="scaffold/private is a link that leaves the agent's folder"):
        check_folder(agent)


def test_agents_that_can_be_asked_again_are_recognised() -> None:
    agents = default_agents()
    assert agents["aide"].reads_until and agents["codex"].reads_until
    assert not agents["baseline"].reads_until
