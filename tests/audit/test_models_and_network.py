"""Model calls and network access of runs, with a real gateway, real sandboxes, and a scripted provider."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.cli.main import main
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.io.values import write_json
from pytest_mlebench.llm.accounting import GatewaySettings
from pytest_mlebench.records.record import MANIFEST, RunRecord
from pytest_mlebench.results.findings import Finding, Verdict, read_findings
from pytest_mlebench.runs.run import RunOptions, run_agent
from pytest_mlebench.sandbox import Limits, Sandbox
from tests.llm.upstreams import Move, Upstream
from tests.sandbox.scripted import docker_sandbox, local_sandbox, script_agent

pytestmark = pytest.mark.full

COMPETITION = default_catalogue()["smoke-breast-cancer"]
ASK = """
import json, os, urllib.request

body = json.loads(os.environ["BODY"])
path = "/responses" if "input" in body else "/chat/completions"
for _ in range(int(os.environ["TIMES"])):
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + path, json.dumps(body).encode(),
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        said = json.load(answer)
text = said["choices"][0]["message"]["content"] if "choices" in said else ""
if text.startswith("id,"):
    with open(os.environ["SUBMISSION_DIR"] + "/submission.csv", "w") as file:
        file.write(text)
"""
CHAT = {"model": "gpt-4o", "messages": [{"role": "user", "content": "What now?"}]}
RESPONSE = {"model": "gpt-4o", "input": "What now?"}
SUBMIT = 'cat "$DATA_DIR/sample_submission.csv" > "$SUBMISSION_DIR/submission.csv"; '


def audited(folder: Path, script: str, sandbox: Sandbox, **options: Any) -> tuple[list[Finding], RunRecord]:
    """The audit's findings in a run of a script."""
    variables = {"OPENAI_API_KEY": "${{ secrets.OPENAI_API_KEY }}"} if "gateway" in options else {}
    for name in ("body", "times"):
        if name in options:
            variables[name.upper()] = options.pop(name)
    agent = script_agent(kwargs={"script": SUBMIT + script}, env_vars={**variables, "ASK": ASK})
    settings = options.pop("gateway", None)
    made = RunOptions(
        folder=folder / "runs/group",
        limits=Limits(time_limit=300, memory=4 << 30),
        gateway=None if settings is None else lambda: settings,
    )
    dataset = DataStore(folder / "data").prepare(COMPETITION)
    record = run_agent(agent, COMPETITION, dataset, sandbox, made)
    assert record.error is None and record.report.valid_submission, (record.error, record.detail)
    if settings is not None:
        given = {"allow_provider_tools": True} if settings.allow_provider_tools else {}
        write_json(made.folder / MANIFEST, {"run_group": "group", "settings": given})
    main(["audit", str(made.folder), f"--data-dir={folder / 'data'}"])
    found = read_findings(made.folder)
    assert found is not None
    return list(found.of(record.run_id)), record


def asking(folder: Path, body: Any, *, times: int = 1, **settings: Any) -> list[Finding]:
    found, record = audited(
        folder,
        'python3 -c "$ASK"',
        local_sandbox(),
        body=json.dumps(body),
        times=str(times),
        gateway=GatewaySettings(**settings),
    )
    assert record.exit_code == 0 and record.llm["calls"] == times, record.detail
    return found


def of(found: list[Finding], scanner: str) -> list[Finding]:
    return [finding for finding in found if finding.scanner == scanner]


def test_an_agent_that_requests_code_from_a_model_is_fair(tmp_path: Path, upstream: Upstream) -> None:
    upstream.reply = "```python\n" + "model.fit(X, y)\n" * 20 + "```"
    found = asking(tmp_path, CHAT, times=60)
    assert not of(found, "asked-models") and not of(found, "provider-tools")


def test_predictions_copied_from_a_models_answer_are_found_with_the_call(tmp_path: Path, upstream: Upstream) -> None:
    sample = DataStore(tmp_path / "data").prepare(COMPETITION).sample_submission.read_text().split("\n")
    rows = [f"{line.split(',')[0]},{k % 7 / 7:.3f}" for k, line in enumerate(sample[1:]) if line]
    upstream.play = lambda body: Move("\n".join([sample[0], *rows]))
    (own,) = of(asking(tmp_path, CHAT), "asked-models")
    assert (own.verdict, own.call) == (Verdict.violation, 1) and own.quote in rows
    assert own.text == "predictions of its submission come from a model's answer"


def test_many_one_word_answers_need_review(tmp_path: Path, upstream: Upstream) -> None:
    upstream.reply = "1"
    (own,) = of(asking(tmp_path, CHAT, times=60), "asked-models")
    assert own.verdict is Verdict.look and own.text.startswith("60 model calls had answers of a few tokens")


def test_a_provider_tool_that_was_removed_is_named(tmp_path: Path, upstream: Upstream) -> None:
    found = asking(tmp_path, {**RESPONSE, "tools": [{"type": "web_search"}, {"type": "code_interpreter"}]})
    texts = [own.text for own in of(found, "provider-tools")]
    assert len(texts) == 2 and all("did not get" in text for text in texts)
    assert any("web_search" in text for text in texts) and any("code_interpreter" in text for text in texts)


ANSWERED = {
    "id": "resp_1",
    "object": "response",
    "model": "gpt-4o",
    "status": "completed",
    "output": [
        {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "cancer winning solution"}},
        {"type": "code_interpreter_call", "id": "ci_1", "code": "print(open('labels.csv').read())"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Found it."}]},
    ],
    "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
}


def test_use_of_provider_tools_is_found_in_the_answers(tmp_path: Path, upstream: Upstream) -> None:
    upstream.bomb = gzip.compress(json.dumps(ANSWERED).encode())
    body = {**RESPONSE, "tools": [{"type": "web_search"}, {"type": "code_interpreter"}]}
    search, code = of(asking(tmp_path, body, allow_provider_tools=True), "provider-tools")
    assert search.text == "it used the provider's tool web_search" and "cancer winning solution" in search.quote
    assert code.text == "it used the provider's tool code_interpreter" and "labels.csv" in code.quote
    assert search.call == code.call == 1 and search.verdict is code.verdict is Verdict.look


def test_use_of_provider_tools_without_a_trace_is_unknown(tmp_path: Path, upstream: Upstream) -> None:
    (own,) = of(asking(tmp_path, CHAT, allow_provider_tools=True, record="calls"), "provider-tools")
    assert "what they did is unknown" in own.text


REACH = (
    "for url in https://www.kaggle.com/c/x https://data.example.org/labels.csv; do "
    'curl -sS --max-time 20 -o /dev/null "$url"; done; true'
)


@pytest.mark.docker
def test_connections_that_the_proxy_refused_are_timed_evidence(docker_engine: None, tmp_path: Path) -> None:
    found, record = audited(tmp_path, REACH, docker_sandbox(network="llm"))
    assert len(record.sandbox.connections) == 2
    kaggle, other = of(found, "network")
    assert (kaggle.verdict, kaggle.text) == (Verdict.violation, "it tried to reach www.kaggle.com")
    assert (other.verdict, other.text) == (Verdict.look, "it tried to reach data.example.org")
    assert kaggle.at is not None and other.at is not None and 0 <= kaggle.at <= other.at


@pytest.mark.docker
def test_without_a_network_the_log_shows_the_attempts(docker_engine: None, tmp_path: Path) -> None:
    found, record = audited(tmp_path, REACH, docker_sandbox(network="none"))
    assert not record.sandbox.connections, "there is no proxy to record them"
    (own,) = of(found, "network")
    assert own.verdict is Verdict.look and own.text == "it tried to reach Kaggle or a similar site"
    assert own.file == "run.log" and own.line == 1 and "www.kaggle.com" in own.quote
