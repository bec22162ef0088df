"""The real AIDE package in a real container solves a competition with a model whose replies are scripted here.

The model is a local server with OpenAI's chat completions API. Its first draft fails, its second is good,
and its third is worse.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.agents import AgentRegistry, Permissions
from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.io.files import bundled
from pytest_mlebench.runs.run import RunOptions, run_agent
from pytest_mlebench.sandbox import Limits
from tests.left import left
from tests.sandbox.scripted import docker_sandbox

KEY = "sk-test-0123456789abcdef"

FAILING = """Fit a model on the table.

```python
import pandas as pd
train = pd.read_csv("./input/train.csv")
print(train["no_such_column"].mean())
```
"""
GOOD = """Scale the measurements and fit a logistic regression.

```python
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

train, test = pd.read_csv("./input/train.csv"), pd.read_csv("./input/test.csv")
features = train.columns.drop(["id", "malignant"])
model = make_pipeline(StandardScaler(), LogisticRegression(C=0.5, max_iter=5000))
print("AUC:", cross_val_score(model, train[features], train["malignant"], scoring="roc_auc", cv=5).mean())
model.fit(train[features], train["malignant"])
test["malignant"] = model.predict_proba(test[features])[:, 1]
test[["id", "malignant"]].to_csv("./working/submission.csv", index=False)
```
"""
WORSE = """Predict the same for everybody.

```python
import pandas as pd
test = pd.read_csv("./input/test.csv")
test["malignant"] = 0.5
test[["id", "malignant"]].to_csv("./working/submission.csv", index=False)
print("AUC: 0.5")
```
"""


class Model(ThreadingHTTPServer):
    """Returns the scripted programs in order, and reviews each program by its output."""

    daemon_threads = True

    def __init__(self, *drafts: str) -> None:
        super().__init__(("127.0.0.1", 0), _Completions)
        self.drafts = list(drafts)
        self.requests: list[dict[str, Any]] = []
        self.keys: set[str] = set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(request)
        if "tools" not in request:
            return {"role": "assistant", "content": self.drafts.pop(0)}
        output = request["messages"][-1]["content"].rpartition("# Execution output")[2]
        metric = next((float(line.split()[1]) for line in output.splitlines() if line.startswith("AUC:")), None)
        review = {"is_bug": metric is None, "summary": "reviewed", "metric": metric, "lower_is_better": False}
        function = {"name": request["tools"][0]["function"]["name"], "arguments": json.dumps(review)}
        return {"role": "assistant", "tool_calls": [{"id": "call-1", "type": "function", "function": function}]}


class _Completions(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.keys.add(self.headers["Authorization"])
        answer = {
            "id": "completion-1",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": self.server.reply(request)}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        content = json.dumps(answer).encode()
        self.send_response(200 if self.path == "/v1/chat/completions" else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def model() -> Iterator[Model]:
    with Model(FAILING, GOOD, WORSE) as model:
        yield model
        model.shutdown()


@pytest.mark.docker
def test_aide_solves_a_competition_through_the_proxy(
    docker_engine: None, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base_url = f"http://host.docker.internal:{model.server_address[1]}/v1"
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", base_url)
    competition = default_catalogue()["smoke-breast-cancer"]
    agent = AgentRegistry(bundled("agents"))["aide/local"]
    agent = replace(agent, kwargs={**agent.kwargs, "agent.steps": 3})
    group = RunOptions(
        folder=tmp_path / "runs/group",
        limits=Limits(time_limit=600, memory=4 << 30),
        gateway=None,
        permissions=Permissions(allow_secrets=["OPENAI_API_KEY", "OPENAI_BASE_URL"]),
    )

    record = run_agent(agent, competition, DataStore(tmp_path / "data").prepare(competition), docker_sandbox(), group)

    run_dir = group.folder / record.run_id
    log = (run_dir / "run.log").read_text()
    assert record.error is None
    assert (record.ending, record.exit_code) == ("finished", 0), log
    assert record.report.valid_submission
    assert record.report.score is not None
    assert record.report.score > 0.98
    assert "step 1/3: failed" in log
    assert "step 2/3: metric 0.9" in log
    assert "step 3/3: metric 0.50000" in log

    # Its steps can be read afterwards.
    assert "LogisticRegression" in left(run_dir)["code/solution.py"].decode()
    journal = json.loads(left(run_dir)["logs/journal.json"])
    assert [node["is_buggy"] for node in journal["nodes"]] == [True, False, False]
    assert "no_such_column" in json.dumps(journal["nodes"][0])

    # It connected only to its model, through the proxy.
    assert model.keys == {f"Bearer {KEY}"}
    assert len(model.requests) == 6
    assert "Breast Cancer in Wisconsin" in json.dumps(model.requests[0])
    connections = record.sandbox.connections
    assert {(entry.host, entry.allowed) for entry in connections} == {("host.docker.internal", True)}

    # No file contains its key.
    for path in filter(Path.is_file, group.folder.rglob("*")):
        assert KEY.encode() not in path.read_bytes(), path


def test_every_variant_names_its_provider_its_key_and_its_models() -> None:
    agents = AgentRegistry(bundled("agents")).load()
    variants = {id: agent for id, agent in agents.items() if id.split("/")[0] == "aide"}
    assert {"aide", "aide/dev", "aide/local"} <= variants.keys()
    for id, agent in variants.items():
        assert agent.llm_hosts or id == "aide/local"
        assert any(name.endswith("_API_KEY") for name in agent.secret_names)
        assert {"agent.code.model", "agent.feedback.model", "agent.steps", "exec.timeout"} <= agent.kwargs.keys()
        assert not agent.trusted
        assert not agent.privileged
