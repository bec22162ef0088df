"""Runs of agents that use models: in both sandboxes, without a key, and in a container without a network."""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.agents import Agent, Permissions
from pytest_mlebench.agents.registry import AgentRegistry
from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import AgentError, SandboxError
from pytest_mlebench.io.files import bundled
from pytest_mlebench.llm.accounting import GatewaySettings
from pytest_mlebench.llm.budget import BudgetLimits as Budget
from pytest_mlebench.llm.ledger import BODIES, CALLS, Ledger, read_bodies, read_calls
from pytest_mlebench.llm.trajectory import TRAJECTORY
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.run_details import ending_in_words, failure_text
from pytest_mlebench.reports.run_details import properties as run_properties
from pytest_mlebench.runs.run import RunOptions, run_agent
from pytest_mlebench.sandbox import Limits, Sandbox
from tests.left import contents, left
from tests.llm.atif import problems
from tests.llm.upstreams import KEY, REPLY, Failure, Seen, Upstream
from tests.sandbox.conftest import require_docker
from tests.sandbox.scripted import docker_sandbox, local_sandbox, script_agent

ASK = """
import json, os, urllib.request
body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Which model first?"}]}
for number in range(TIMES):
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            print(json.load(answer)["choices"][0]["message"]["content"])
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode())
print(json.dumps(dict(os.environ)))
"""
SCRIPT = (
    'cp "$DATA_DIR/sample_submission.csv" "$SUBMISSION_DIR/submission.csv"; env > "$LOGS_DIR/environment"; '
    'cat /proc/[0-9]*/environ > "$LOGS_DIR/environments" 2>/dev/null; '
    'cat /proc/[0-9]*/cmdline > "$LOGS_DIR/commands" 2>/dev/null; python3 -c "$ASK"'
)


def asking_agent(times: int = 1) -> Agent:
    return script_agent(
        kwargs={"script": SCRIPT},
        env_vars={"OPENAI_API_KEY": "${{ secrets.OPENAI_API_KEY }}", "ASK": ASK.replace("TIMES", str(times))},
    )


@pytest.fixture(params=[pytest.param("local"), pytest.param("docker", marks=pytest.mark.docker)])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    if request.param == "local":
        return local_sandbox()
    require_docker()
    return docker_sandbox(network="none")


def run(
    sandbox: Sandbox,
    folder: Path,
    agent: Agent | None = None,
    *,
    gateway: GatewaySettings | None = None,
    competition: str = "smoke-digits",
    **options: Any,
) -> tuple[RunRecord, Path]:
    chosen = default_catalogue()[competition]
    dataset = DataStore(folder / "data").prepare(chosen)
    settings = gateway or GatewaySettings()
    made = RunOptions(
        folder=folder / "runs/group",
        gateway=lambda: settings,
        **{"limits": Limits(time_limit=300, memory=4 << 30), **options},
    )
    record = run_agent(agent or asking_agent(), chosen, dataset, sandbox, made)
    return record, made.folder / record.run_id


FILES_OF_A_RUN = {"run.json", "run.log", "files.zip", "submission/submission.csv", CALLS, BODIES, TRAJECTORY}
"""An additional file exists in each of thousands of runs. Add one only if no other file can contain its data."""


def test_an_agent_calls_a_model_with_a_token_instead_of_the_key(
    sandbox: Sandbox, upstream: Upstream, tmp_path: Path
) -> None:
    record, run_dir = run(sandbox, tmp_path)

    log = (run_dir / "run.log").read_text()
    assert record.error is None
    assert REPLY in log
    assert record.report.valid_submission
    assert upstream.seen[0].headers["Authorization"] == f"Bearer {KEY}"
    assert (record.llm["gateway"], record.llm["providers"], record.llm["calls"]) == ("on", ["openai"], 1)
    assert record.llm["cost"] == read_calls(run_dir)[0]["cost"] > 0
    assert list(record.llm["models"]) == ["gpt-4o"]
    assert RunRecord.from_json(json.loads((run_dir / "run.json").read_text())) == record
    trajectory = json.loads((run_dir / TRAJECTORY).read_text())
    assert problems(trajectory) == []
    files = {path.relative_to(run_dir).as_posix() for path in run_dir.rglob("*") if path.is_file()}
    files = {file for file in files if not file.startswith("snapshots/")}
    assert len(files) < 12 and files == FILES_OF_A_RUN
    assert [step["message"] for step in trajectory["steps"]] == ["Which model first?", REPLY]
    assert trajectory["final_metrics"]["total_cost_usd"] == record.llm["cost"]


def test_the_record_notes_calls_that_are_missing_from_the_recording(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("pytest_mlebench.llm.accounting.Ledger", partial(Ledger, max_body_bytes=100))
        record, _ = run(local_sandbox(), tmp_path)
    assert "the recording lacks 1 model call, or their contents: it would be too large" in record.sandbox.notes
    record, _ = run(local_sandbox(), tmp_path)
    assert not any("lacks" in note for note in record.sandbox.notes)


def test_the_record_notes_that_the_disk_was_full(upstream: Upstream, tmp_path: Path) -> None:
    def fill(_: Seen) -> None:
        for link in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                if link.readlink().match(CALLS):
                    full = os.open("/dev/full", os.O_WRONLY)
                    os.dup2(full, int(link.name))
                    os.close(full)

    upstream.on_request = fill
    record, run_dir = run(local_sandbox(), tmp_path)
    assert record.error is None and record.llm["calls"] == 1 and record.llm["cost"] > 0
    assert REPLY in (run_dir / "run.log").read_text()
    why = "it would be too large, or could not be written: No space left on device"
    assert f"the recording lacks 1 model call, or their contents: {why}" in record.sandbox.notes


def test_a_failure_to_create_a_trajectory_does_not_fail_the_run(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr("pytest_mlebench.llm.trajectory.call_content", fail)
    record, run_dir = run(local_sandbox(), tmp_path)
    assert record.report.valid_submission and not (run_dir / TRAJECTORY).exists()
    assert "no trajectory: RecursionError: too deep" in record.sandbox.notes


def key_forms() -> Iterator[bytes]:
    for text in (KEY.encode(), KEY[::-1].encode()):
        yield text
        for shift in range(3):  # at any offset in the encoded data
            yield base64.b64encode(b"x" * shift + text)[4 if shift else 0 : -4]
        yield gzip.compress(text)[10:-8]
        yield text.hex().encode()


@pytest.mark.docker
def test_the_key_is_found_nowhere(upstream: Upstream, tmp_path: Path) -> None:
    require_docker()
    found: list[str] = []

    def look(where: str, content: bytes) -> None:
        found.extend(f"{where}: {form!r}" for form in key_forms() if form in content)

    def look_around(seen: Seen) -> None:
        """Runs while the agent waits for its response."""
        listing = ["docker", "ps", "--format={{.Names}}"]
        containers = subprocess.run(listing, capture_output=True, check=True, text=True).stdout.split()
        for command in (["inspect"], ["top"], ["logs"]):
            for container in containers:
                done = subprocess.run(["docker", *command, container], capture_output=True)
                look(f"docker {command[0]}", done.stdout + done.stderr)
                for pid in _pids(container):  # none if it belongs to another test and has ended
                    looked_inside.add(container)
                    look("environment", _read(Path(f"/proc/{pid}/environ")))
        for process in Path("/proc").glob("[0-9]*"):
            look("process list", _read(process / "cmdline"))
        looked.append(seen)

    looked: list[Seen] = []
    looked_inside: set[str] = set()
    upstream.on_request = look_around
    upstream.echo = f" {KEY}"
    record, run_dir = run(docker_sandbox(network="none"), tmp_path)

    assert looked
    assert record.error is None
    assert record.sandbox.container in looked_inside
    for name, content in contents(tmp_path / "runs"):
        look(name, content)
    look("bodies", json.dumps(list(read_bodies(run_dir))).encode())
    look("record", repr(record).encode())
    assert "environments" in {path.rpartition("/")[2] for path in left(run_dir)}
    assert found == []


def _pids(container: str) -> list[str]:
    done = subprocess.run(["docker", "top", container, "-o", "pid"], capture_output=True, text=True)
    return done.stdout.split()[1:]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process has ended
        return b""


def test_an_exhausted_budget_is_recorded(sandbox: Sandbox, upstream: Upstream, tmp_path: Path) -> None:
    record, run_dir = run(sandbox, tmp_path, asking_agent(4), gateway=GatewaySettings(limits=Budget(max_calls=2)))
    assert record.report.valid_submission
    assert record.outcome.passed
    assert (record.ending, record.detail) == ("budget ended", "--max-calls=2")
    assert record.llm["budget_ended"] == "--max-calls=2"
    assert (record.llm["calls"], record.llm["errors"]) == (2, {"402": 2})
    assert "insufficient_quota" in (run_dir / "run.log").read_text()


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("nobody-knows", "model nobody-knows has no known price, so a budget cannot be enforced: add it with --prices"),
        (
            "gpt-4o,::stop-commands::x",
            "model 'gpt-4o,::stop-commands::x' is not passed on: it is not the name of a single model",
        ),
    ],
)
def test_the_runs_detail_explains_why_the_gateway_rejected_all_calls(
    model: str, said: str, upstream: Upstream, tmp_path: Path
) -> None:
    agent = asking_agent(2)
    ask = agent.env_vars["ASK"].replace("gpt-4o", model)
    agent = replace(agent, env_vars={**agent.env_vars, "ASK": ask})
    record, _ = run(local_sandbox(), tmp_path, agent, gateway=GatewaySettings(limits=Budget(max_cost=Decimal(1))))
    assert record.detail == f"2 model calls failed: {said}"
    assert record.llm["refusals"] == {said: 2}
    assert upstream.seen == []


def test_an_unreachable_provider_is_the_runs_detail(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:9/v1")
    record, _ = run(local_sandbox(), tmp_path)
    assert record.detail is not None and "1 model call failed: openai cannot be reached" in record.detail


def test_a_run_without_a_submission_gives_the_providers_error_as_its_reason(upstream: Upstream, tmp_path: Path) -> None:
    upstream.failures.append(Failure(401, {"error": {"message": "Incorrect API key"}}))
    agent = replace(asking_agent(), kwargs={"script": f"{SCRIPT}; rm $SUBMISSION_DIR/*; exit 3"})
    record, _ = run(local_sandbox(), tmp_path, agent)
    assert (record.outcome, record.ending) == ("crashed", "crashed")
    assert record.reason == "no model call was answered (1 failed): openai answered 401: Incorrect API key"
    assert f"reason: {record.reason}" in failure_text(record, "")


@pytest.mark.full
def test_a_run_that_fails_after_its_budget_is_exhausted_has_that_ending(upstream: Upstream, tmp_path: Path) -> None:
    agent = asking_agent(2)
    gateway = GatewaySettings(limits=Budget(max_calls=1))
    agent = replace(agent, kwargs={"script": f"{SCRIPT}; rm $SUBMISSION_DIR/*; exit 3"})
    record, _ = run(local_sandbox(), tmp_path, agent, gateway=gateway)
    assert (record.outcome, record.ending, record.exit_code) == ("budget_ended", "budget ended", 3)
    assert record.detail == "exit code 3; --max-calls=1"
    assert ending_in_words(record).startswith("budget ended after")
    assert dict(run_properties(record))["ending"] == "budget ended"

    agent = replace(agent, kwargs={"script": f"{SCRIPT}; kill -SEGV $$"})
    record, _ = run(local_sandbox(), tmp_path, agent, gateway=gateway)
    assert (record.outcome, record.ending) == ("no_medal", "crashed")
    assert record.detail == "killed by SIGSEGV; budget ended: --max-calls=1"


DIRECTLY = """
import os, urllib.request
urllib.request.urlopen("https://api.openai.com/v1/models", timeout=60)
"""


@pytest.mark.docker
@pytest.mark.full
def test_an_agent_that_bypasses_the_gateway_gets_a_hint(upstream: Upstream, tmp_path: Path) -> None:
    require_docker()
    record, _ = run(
        docker_sandbox(network="llm"), tmp_path, replace(asking_agent(), kwargs={"script": f"python3 -c '{DIRECTLY}'"})
    )
    assert record.detail == (
        "exit code 1; it called api.openai.com directly: let it take its base URL from $OPENAI_BASE_URL, "
        "or use --llm-gateway=off"
    )


def test_an_agent_that_fails_without_a_call_gets_a_hint_about_the_gateway(upstream: Upstream, tmp_path: Path) -> None:
    silent = replace(asking_agent(), kwargs={"script": "exit 3"})
    record, _ = run(local_sandbox(), tmp_path, silent)
    assert record.detail == (
        "exit code 3; it called no model through the gateway: let it take its base URL from $OPENAI_BASE_URL, "
        "or use --llm-gateway=off"
    )
    record, _ = run(local_sandbox(), tmp_path, replace(asking_agent(), kwargs={"script": 'python3 -c "$ASK"; exit 3'}))
    assert record.detail == "exit code 3"


@pytest.mark.full
def test_a_groups_budget_counts_all_its_runs(upstream: Upstream, tmp_path: Path) -> None:
    gateway = GatewaySettings(limits=Budget(max_total_cost=Decimal("0.0145")))  # the cheapest call may cost $0.0104
    ends = [run(local_sandbox(), tmp_path, asking_agent(10), gateway=gateway)[0].llm for _ in range(6)]
    assert 5 < sum(end["calls"] for end in ends) < 60
    assert sum(end["cost"] for end in ends) < 0.0145
    assert ends[-1]["budget_ended"] == "--max-total-cost=$0.0145"


@pytest.mark.full
def test_a_run_is_replayed_without_a_key_or_network(
    sandbox: Sandbox, upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = run(sandbox, tmp_path, asking_agent(2))
    monkeypatch.delenv("OPENAI_API_KEY")
    (tmp_path / "runs/group").rename(tmp_path / "runs/recorded")
    second, run_dir = run(sandbox, tmp_path, asking_agent(2), replay=tmp_path / "runs/recorded")
    assert second.error is None
    assert (run_dir / "run.log").read_text().count(REPLY) == 2
    assert (second.llm["gateway"], second.llm["replayed"], second.llm["cost"]) == ("replay", 2, 0)
    assert second.llm["tokens"] == first.llm["tokens"]
    assert len(upstream.seen) == 2
    with pytest.raises(SandboxError, match="no recording of script on smoke-diabetes"):
        run(sandbox, tmp_path, replay=tmp_path / "runs/recorded", competition="smoke-diabetes")


def test_an_agent_without_models_has_no_gateway(upstream: Upstream, tmp_path: Path) -> None:
    record, run_dir = run(local_sandbox(), tmp_path, script_agent(kwargs={"script": "env"}))
    assert record.llm == {}
    assert "OPENAI" not in (run_dir / "run.log").read_text()
    assert not (run_dir / CALLS).exists()


def test_without_the_gateway_the_agent_has_its_key_and_the_record_notes_it(upstream: Upstream, tmp_path: Path) -> None:
    dataset = DataStore(tmp_path / "data").prepare(competition := default_catalogue()["smoke-digits"])
    options = RunOptions(folder=tmp_path / "runs/group", gateway=None)
    agent = script_agent(
        kwargs={"script": 'test "$KEY" = "' + KEY + '" && echo same'},
        env_vars={"KEY": "${{ secrets.OPENAI_API_KEY }}"},
    )
    with pytest.raises(AgentError, match="--allow-secret=OPENAI_API_KEY gives it the real value"):
        run_agent(agent, competition, dataset, local_sandbox(), options)
    options = replace(options, permissions=Permissions(allow_secrets=["OPENAI_API_KEY"]))
    record = run_agent(agent, competition, dataset, local_sandbox(), options)
    assert "same" in (options.folder / record.run_id / "run.log").read_text()
    assert record.llm == {"gateway": "off"}
    assert record.permissions["used"] == {"secrets": ["OPENAI_API_KEY"], "no_isolation": True}


def test_from_python_an_agent_gets_a_token_unless_the_user_names_the_key(upstream: Upstream, tmp_path: Path) -> None:
    dataset = DataStore(tmp_path / "data").prepare(competition := default_catalogue()["smoke-digits"])
    agent = script_agent(
        kwargs={"script": 'test "$KEY" = "' + KEY + '" && echo same || echo other'},
        env_vars={"KEY": "${{ secrets.OPENAI_API_KEY }}"},
    )
    record = run_agent(agent, competition, dataset, local_sandbox(), options := RunOptions(folder=tmp_path / "group"))
    assert "other" in (options.folder / record.run_id / "run.log").read_text()
    assert record.llm["gateway"] == "on"
    with pytest.raises(AgentError, match="needs OPENAI_API_KEY"):
        agent.launch()


@pytest.mark.docker
@pytest.mark.full
def test_aide_solves_a_competition_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.sandbox.test_aide import FAILING, GOOD, WORSE, Model

    require_docker()
    with Model(FAILING, GOOD, WORSE) as model:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://host.docker.internal:{model.server_address[1]}/v1")
        aide = AgentRegistry(bundled("agents"))["aide/local"]
        aide = replace(aide, kwargs={**aide.kwargs, "agent.steps": 3})
        record, run_dir = run(docker_sandbox(network="none"), tmp_path, aide, competition="smoke-breast-cancer")
        model.shutdown()

    assert record.error is None
    assert record.report.score is not None
    assert record.report.score > 0.98
    assert model.keys == {f"Bearer {KEY}"}
    assert record.llm["calls"] == len(read_calls(run_dir)) == 6
    assert record.llm["cost"] is None  # the cost of `local-model` is unknown
    assert record.sandbox.connections == ()
    assert [name for name, content in contents(tmp_path / "runs") if KEY.encode() in content] == []


@pytest.mark.docker
@pytest.mark.full
@pytest.mark.parametrize(
    ("code", "feedback"),
    [
        ("gpt-4.1-mini", "gemini-2.5-pro"),  # Responses, and Gemini by OpenAI's chat completions
        ("meta-llama/llama-3.1-405b-instruct", "claude-sonnet-4-5"),  # OpenRouter, and Messages
        ("gemini-2.5-pro", "meta-llama/llama-3.1-405b-instruct"),
    ],
)
def test_aide_asks_models_of_every_provider(
    code: str, feedback: str, upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.sandbox.test_aide import GOOD

    require_docker()
    for name, path in (("GEMINI_OPENAI", "/v1beta/openai"), ("OPENROUTER", "/api/v1")):
        monkeypatch.setenv(f"{name}_BASE_URL", upstream.url + path)
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    upstream.reply = GOOD
    upstream.arguments = {"is_bug": False, "summary": "reviewed", "metric": 0.9, "lower_is_better": False}
    aide = AgentRegistry(bundled("agents"))["aide"]
    keys = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")
    models = {"agent.steps": 1, "agent.code.model": code, "agent.feedback.model": feedback}
    aide = replace(aide, kwargs={**aide.kwargs, **models}, env_vars={key: f"${{{{ secrets.{key} }}}}" for key in keys})
    record, run_dir = run(docker_sandbox(network="none"), tmp_path, aide, competition="smoke-breast-cancer")

    assert record.ending == "finished", (run_dir / "run.log").read_text()
    assert record.report.valid_submission
    assert {call["model"]: call["status"] for call in read_calls(run_dir)} == {code: 200, feedback: 200}
    assert all(KEY in json.dumps(seen.headers) for seen in upstream.seen)


@pytest.mark.docker
@pytest.mark.full
def test_aide_ends_when_its_budget_is_exhausted(upstream: Upstream, tmp_path: Path) -> None:
    """AIDE retries forever if a provider answers 429."""
    require_docker()
    aide = AgentRegistry(bundled("agents"))["aide/dev"]
    gateway = GatewaySettings(limits=Budget(max_calls=0))
    record, run_dir = run(
        docker_sandbox(network="none"), tmp_path, aide, gateway=gateway, competition="smoke-breast-cancer"
    )
    assert (record.outcome, record.detail) == ("budget_ended", "exit code 1; --max-calls=0")
    assert len(read_calls(run_dir)) == 5
