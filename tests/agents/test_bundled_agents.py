"""Bundled agents, each in real containers without any network, solve smoke competitions with a scripted model.

The model speaks the real API of the agent's provider, over TLS; only the gateway reaches it.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.agents import Agent, Permissions
from pytest_mlebench.agents.registry import AgentRegistry
from pytest_mlebench.cli.main import main
from pytest_mlebench.defaults import MEDALS
from pytest_mlebench.extras.bundles.api import group_files
from pytest_mlebench.extras.bundles.bundle import TABLES, write_bundle
from pytest_mlebench.io.files import bundled
from pytest_mlebench.io.values import json_text
from pytest_mlebench.llm.accounting import GatewaySettings
from pytest_mlebench.llm.budget import BudgetLimits as Budget
from pytest_mlebench.llm.ledger import read_bodies, read_calls
from pytest_mlebench.llm.trajectory import TRAJECTORY
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.results import read_group
from pytest_mlebench.results.findings import Verdict, read_findings
from pytest_mlebench.sandbox import Limits
from tests.agents.scripted_model import AGAIN, FAILED, SOLVED, ScriptedModel, ScriptedPrograms, ScriptedResearch, Shell
from tests.extent import ALL
from tests.left import contents
from tests.llm.atif import problems
from tests.llm.test_runs import run
from tests.llm.upstreams import KEY, Failure, Seen, Upstream
from tests.sandbox.conftest import require_docker
from tests.sandbox.scripted import docker_sandbox, local_sandbox

PROMPT = ("What to leave", "no GPU", "minutes left", "## Evaluation")
"""In every agent's prompt: instructions, hardware, time and description."""
PATIENT = Limits(time_limit=1800, memory=4 << 30)
"""Longer than an agent needs on a busy machine."""
SUBMIT = Shell("cp $DATA_DIR/sample_submission.csv $SUBMISSION_DIR/submission.csv")
LOOK = Shell("echo $RANDOM")  # always different, since some agents stop a model that repeats itself
WAIT = Shell("python -c 'import time; time.sleep(1000)'")  # agents reject a plain sleep, or stop waiting for it
URLS = {
    "OPENAI_API_KEY": ("OPENAI_BASE_URL", "/v1"),
    "ANTHROPIC_API_KEY": ("ANTHROPIC_BASE_URL", ""),
    "GEMINI_API_KEY": ("GOOGLE_GEMINI_BASE_URL", ""),
}


@dataclass(frozen=True)
class Case:
    agent: str
    path: str
    """The path of the agent's requests."""
    last: str = ""
    budget: int = 9
    """Enough calls for the model's script, but used up once the agent is asked to improve its result."""
    model: type[ScriptedModel] = ScriptedModel
    kwargs: dict[str, Any] = field(default_factory=dict)


CASES = (
    Case("react/dev", "/v1/chat/completions"),
    Case("claude-code/dev", "/v1/messages"),
    Case("codex/dev", "/v1/responses"),
    Case("gemini-cli/dev", "/v1beta/models/gemini-3.5-flash-lite:streamGenerateContent"),
    Case("opencode/dev", "/v1/responses", budget=10),  # it also requests a title
    Case("mini-swe-agent/dev", "/v1/chat/completions", last="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
    Case("openhands/dev", "/v1/responses"),
    # The number of steps after which it is done. It does more if it must use all its time.
    Case("aide/dev", "/v1/responses", budget=12, model=ScriptedPrograms, kwargs={"agent.steps": 5}),
)


def bundled_agent(id: str) -> Agent:
    return AgentRegistry(bundled("agents"))[id]


def check_run(case: Case, record: RunRecord, run_dir: Path, upstream: Upstream) -> None:
    """Check for a medal after one failed and one good attempt, all through the gateway, and for no key anywhere."""
    assert record.error is None
    assert record.outcome in MEDALS, (record.detail, (run_dir / "run.log").read_text()[-3000:])
    bodies = [str(body) for body in read_bodies(run_dir)]
    assert any(FAILED in body for body in bodies)
    assert any(SOLVED in body for body in bodies)
    assert {seen.path for seen in upstream.seen} >= {case.path}
    assert record.llm["calls"] == [call["status"] for call in read_calls(run_dir)].count(200) > 4
    assert record.sandbox.connections == ()
    trajectory = json.loads((run_dir / TRAJECTORY).read_text())
    assert problems(trajectory) == []
    assert [name for name, content in contents(run_dir) if KEY.encode() in content] == []


@dataclass(frozen=True)
class Ran:
    case: Case
    record: RunRecord
    run_dir: Path
    upstream: Upstream

    @property
    def prompts(self) -> list[str]:
        assert isinstance(self.upstream.play, ScriptedModel)
        return [str(body) for body in self.upstream.play.prompts]

    def solved(self) -> None:
        check_run(self.case, self.record, self.run_dir, self.upstream)
        assert [text for text in PROMPT if text not in self.prompts[0]] == []


@dataclass
class Runs:
    """Runs a case's agent, each time with a separate provider, so that several can run at once."""

    case: Case
    agent: Agent
    folder: Path
    tls: ssl.SSLContext
    network: str = "none"

    def __call__(
        self, competition: str, *, steps: tuple[Shell, ...] = (), rest: Shell | None = None, **options: Any
    ) -> Ran:
        patient = options.get("until") == "limit"
        model = self.case.model(last=self.case.last, steps=list(steps), rest=rest, patient=patient)
        down_after = options.pop("down_after", None)
        with Upstream(tls=self.tls) as upstream:
            upstream.play = model

            def fail(seen: Seen) -> None:
                if down_after is not None and len(upstream.seen) > down_after:
                    error = {"type": "api_error", "message": "the provider is down"}
                    upstream.failures.append(Failure(500, {"type": "error", "error": error}))

            upstream.on_request = fail
            urls = {
                variable: upstream.url + path
                for secret, (variable, path) in URLS.items()
                if secret in self.agent.secret_names
            }
            variables = {**self.agent.env_vars, **urls, "MODEL_ATTEMPTS": "2"}
            agent = replace(self.agent, env_vars=variables, kwargs={**self.agent.kwargs, **self.case.kwargs})
            options = {"limits": PATIENT, "permissions": Permissions(allow_hosts=[upstream.url]), **options}
            record, run_dir = run(
                docker_sandbox(network=self.network), self.folder, agent, competition=f"smoke-{competition}", **options
            )
        return Ran(self.case, record, run_dir, upstream)


def done(runs: Runs) -> Ran:
    ran = runs("breast-cancer")
    ran.solved()
    assert ran.record.ending == "finished"
    if runs.case.model is not ScriptedResearch:  # this model's agent has no tools
        assert '"tool_calls": [' in (ran.run_dir / TRAJECTORY).read_text()
    return ran


def out_of_time(runs: Runs) -> None:
    limits = Limits(time_limit=40, memory=4 << 30)
    ran = runs("diabetes", steps=(SUBMIT,), rest=WAIT, limits=limits)
    assert (ran.record.ending, ran.record.error) == ("timed out", None)
    if len(ran.prompts) > 1:  # on a busy machine, starting may take all the agent's time
        assert ran.record.report.valid_submission


def out_of_budget(runs: Runs) -> None:
    """An agent that finishes is asked again, in the same conversation, until its budget is exhausted."""
    gateway = GatewaySettings(limits=Budget(max_calls=runs.case.budget))
    ran = runs("digits", rest=LOOK, gateway=gateway, until="limit")
    ran.solved()
    assert ran.record.ending == "budget ended"
    assert ran.record.llm["calls"] == runs.case.budget
    assert AGAIN not in ran.prompts[0]
    if runs.case.model is ScriptedPrograms:
        assert len(ran.prompts) > runs.case.kwargs["agent.steps"]
    else:
        assert any(AGAIN in prompt and "## Evaluation" in prompt for prompt in ran.prompts)


def without_a_provider(runs: Runs) -> None:
    ran = runs("breast-cancer", steps=(SUBMIT,), rest=LOOK, down_after=5)
    assert (ran.record.ending, ran.record.error, ran.record.report.valid_submission) == ("crashed", None, True)
    assert ran.record.llm["errors"].keys() == {"500"}


def killed(runs: Runs) -> None:
    ran = runs("diabetes", rest=Shell("kill -KILL -1"))
    ran.solved()
    assert (ran.record.ending, ran.record.signal) == ("crashed", "SIGKILL")


ENDINGS: tuple[Callable[[Runs], object], ...] = (out_of_time, done, out_of_budget, without_a_provider, killed)
"""Three are the smoke split, with a medal each. The first one mostly waits, so it runs in parallel with the others."""
IN_EVERY_WAY = ("react/dev", "claude-code/dev")
"""Agents tested with all of these endings; the others with the first three, or all (see ``tests.extent``)."""


@contextmanager
def said_of(what: Callable[[Runs], object]) -> Iterator[None]:
    try:
        yield
    except AssertionError as error:
        error.add_note(f"a run that ends {what.__name__.replace('_', ' ')}")
        raise


def check_endings(runs: Runs) -> None:
    ran: dict[str, Any] = {}
    endings = ENDINGS if ALL or runs.case.agent in IN_EVERY_WAY else ENDINGS[:3]
    with ThreadPoolExecutor(2) as pool:
        for ending, ended in [(ending, pool.submit(ending, runs)) for ending in endings]:
            with said_of(ending):
                ran[ending.__name__] = ended.result()
    check_audit(runs, ran["done"], len(endings))


def check_audit(runs: Runs, solved: Ran, count: int) -> None:
    """However a fair run ends, its audit finds no violation; in a solved run, it finds nothing to review either."""
    group = runs.folder / "runs/group"
    for number, path in enumerate(sorted(group.glob("*/run.json"))):  # so that copies do not replace each other
        replace(RunRecord.from_json(json.loads(path.read_text())), seed=number).write(path.parent)
    assert main(["audit", str(group), f"--data-dir={runs.folder / 'data'}"]) == 0
    found = read_findings(group)
    assert found is not None and len(found.runs) == count
    assert Verdict.violation not in found.verdicts.values(), found.findings
    assert found.verdicts[solved.record.run_id] is Verdict.clean, found.of(solved.record.run_id)


@pytest.fixture
def tls(certificates: tuple[ssl.SSLContext, Path], upstream: Upstream) -> ssl.SSLContext:
    """An environment with certificates for the providers, and with keys."""
    return certificates[0]


@pytest.mark.docker
@pytest.mark.full
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.agent)
def test_an_agent_earns_medals_without_a_network_and_ends_properly_in_every_way(
    case: Case, tls: ssl.SSLContext, tmp_path: Path
) -> None:
    require_docker()
    check_endings(Runs(case, bundled_agent(case.agent), tmp_path, tls))


@pytest.mark.docker
@pytest.mark.full
@pytest.mark.parametrize(
    ("agent", "path"),
    [
        ("react/claude-sonnet-5-5", "/v1/messages"),
        ("react/gemini-3.8-flash", "/v1beta/models/gemini-3.8-flash:generateContent"),
    ],
)
def test_react_speaks_every_api(agent: str, path: str, tls: ssl.SSLContext, tmp_path: Path) -> None:
    require_docker()
    done(Runs(Case(agent, path), bundled_agent(agent), tmp_path, tls))


@pytest.mark.full
def test_react_runs_in_the_local_sandbox_and_its_group_can_be_verified(
    upstream: Upstream, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upstream.play = ScriptedModel(code=".")
    agent: Any = bundled_agent("react/dev")
    record, run_dir = run(local_sandbox(), tmp_path, agent)
    check_run(CASES[0], record, run_dir, upstream)
    bundle, data = tmp_path / "group.tar.zst", f"--data-dir={tmp_path / 'data'}"
    assert main(["audit", str(run_dir.parent), data]) == 0
    assert "1 clean, 0 look, 0 violation" in capsys.readouterr().out
    assert main(["bundle", str(run_dir.parent), "-o", str(bundle)]) == 2
    assert "the manifest does not say which runs were planned" in capsys.readouterr().err, "there was no session"
    text = json_text(group_files(read_group(run_dir.parent))[TABLES])
    write_bundle(run_dir.parent, bundle, extra={TABLES: text.encode()})
    assert main(["verify", str(bundle), data, "--json"]) == 1
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks.pop("records")["result"] == checks.pop("settings")["result"] == "differs"
    assert {name: check["result"] for name, check in checks.items()} == dict.fromkeys(checks, "agrees")
    assert {"models", "grades", "audit", "evidence"} <= checks.keys()
    assert main(["reproduce", str(run_dir), data, "--sandbox=local", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["likeness"] == "equal"
