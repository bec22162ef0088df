"""Agents for screenshots, whose model follows a script.

Each works on the bundled smoke competitions with a shell, as an agent with a real model would: it looks at the data,
writes programs that fail or improve the score, and checks its submission. The programs, errors and scores are real;
only the model's messages are scripted. One agent looks up the answers, so that an audit has something to find.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pytest_mlebench.io.files import bundled

AGENTS = ("planner", "tinkerer")
_CONFIG = """
{name}:
  start: react/start.sh
  dockerfile: react/Dockerfile
  kwargs_type: argparse
  kwargs: {{api: openai, model: scripted-{name}}}
  env_vars:
    OPENAI_API_KEY: ${{{{ secrets.OPENAI_API_KEY }}}}
  llm_hosts: [api.openai.com]
  trusted: true
"""
PRICES = """
openai/scripted-planner: {input: 3.0, output: 15.0}
openai/scripted-tinkerer: {input: 0.25, output: 2.0}
"""
_PROGRAM = '''\
"""{title}"""

import os

import pandas as pd
{imports}
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

data, out = os.environ["DATA_DIR"], os.environ["SUBMISSION_DIR"]
train, test = pd.read_csv(f"{{data}}/train.csv"), pd.read_csv(f"{{data}}/test.csv")
target = "{target}"
features, labels = train.drop(columns=["id", target]), train[target]

model = {model}
scores = cross_val_score(model, features, labels, cv=5, scoring="{scoring}")
print(f"cross-validated {{scores.mean():.4f}} ± {{scores.std():.4f}}")

model.fit(features, labels)
test[target] = {predicted}
test[["id", target]]{rows}.to_csv(f"{{out}}/submission.csv", index=False)
print(len(test), "rows predicted")
'''
_LOOKED_UP = '''\
"""The test images are those of scikit-learn, which includes their labels."""

import os

import pandas as pd
from sklearn.datasets import load_digits

data, out = os.environ["DATA_DIR"], os.environ["SUBMISSION_DIR"]
test = pd.read_csv(f"{data}/test.csv")
digits = load_digits(as_frame=True).frame
known = {tuple(row[:-1]): int(row[-1]) for row in digits.to_numpy()}
test["digit"] = [known[tuple(row)] for row in test.drop(columns="id").to_numpy(dtype=float)]
test[["id", "digit"]].to_csv(f"{out}/submission.csv", index=False)
print(len(test), "labels found")
'''


@dataclass(frozen=True)
class Task:
    """A competition, with the title in its instructions and the facts that a program for it needs."""

    title: str
    target: str
    scoring: str
    predicted: str
    models: tuple[tuple[str, str], ...]
    """Models from simplest to best, each with its import."""


_LOGISTIC = ("from sklearn.linear_model import LogisticRegression", "LogisticRegression(C={}, max_iter=5000)")
TASKS = (
    Task(
        "Breast Cancer in Wisconsin",
        "malignant",
        "roc_auc",
        "model.predict_proba(test[features.columns])[:, 1]",
        (
            ("from sklearn.tree import DecisionTreeClassifier", "DecisionTreeClassifier(max_depth=4)"),
            (_LOGISTIC[0], f"make_pipeline(StandardScaler(), {_LOGISTIC[1].format(1.0)})"),
            (_LOGISTIC[0], f"make_pipeline(StandardScaler(), {_LOGISTIC[1].format(0.3)})"),
            ("from sklearn.svm import SVC", "make_pipeline(StandardScaler(), SVC(C=2, probability=True))"),
        ),
    ),
    Task(
        "Progression of Diabetes",
        "progression",
        "neg_root_mean_squared_error",
        "model.predict(test[features.columns])",
        (
            ("from sklearn.ensemble import RandomForestRegressor", "RandomForestRegressor(60)"),
            ("from sklearn.linear_model import Ridge", "make_pipeline(StandardScaler(), Ridge(10))"),
            ("from sklearn.svm import SVR", "make_pipeline(StandardScaler(), SVR(C=30, gamma=0.02))"),
            ("from sklearn.linear_model import BayesianRidge", "make_pipeline(StandardScaler(), BayesianRidge())"),
        ),
    ),
    Task(
        "Handwritten Digits",
        "digit",
        "accuracy",
        "model.predict(test[features.columns])",
        (
            ("from sklearn.ensemble import RandomForestClassifier", "RandomForestClassifier(40)"),
            ("from sklearn.neighbors import KNeighborsClassifier", "KNeighborsClassifier(5)"),
            ("from sklearn.svm import SVC", "SVC(C=10)"),
            ("from sklearn.svm import SVC", "SVC(C=5, gamma=0.002)"),
        ),
    ),
)
_LOOK = "ls -l $DATA_DIR && head -n 3 $DATA_DIR/train.csv | cut -c 1-160 && head -n 3 $DATA_DIR/sample_submission.csv"
_CHECK = "bash $AGENT_DIR/../validate_submission.sh $SUBMISSION_DIR/submission.csv"
_RUN = "python solve.py"


@dataclass(frozen=True)
class Step:
    """One message of the model, and its tool call."""

    text: str
    tool: str = ""
    arguments: Mapping[str, Any] | None = None


def _shell(text: str, command: str) -> Step:
    return Step(text, "shell", {"command": command})


def _write(text: str, program: str) -> Step:
    return Step(text, "write_file", {"path": "solve.py", "content": program})


def _edit(text: str, old: str, new: str) -> Step:
    return Step(text, "edit_file", {"path": "solve.py", "old": old, "new": new})


def _program(task: Task, number: int, **changes: str) -> str:
    imports, model = task.models[number]
    values = {"title": task.title, "imports": imports, "model": model, "target": task.target, "rows": ""}
    return _PROGRAM.format(**{**values, "scoring": task.scoring, "predicted": task.predicted, **changes})


def plan(agent: str, task: Task, nth: int) -> list[Step]:
    """The steps of an agent's ``nth`` run of a task, counted from 0."""
    look = _shell("I look at the files before I choose a model.", _LOOK)
    if agent == "tinkerer" and task.target == "digit" and nth == 2:
        return [
            look,
            _shell("These look like the digits that come with scikit-learn.", "pip list 2>/dev/null | grep -i scikit"),
            _write("If they are, their labels need no model.", _LOOKED_UP),
            _shell("I try it.", _RUN),
            Step("Every test image has its label. Done."),
        ]
    if agent == "tinkerer":
        short = ".head(200)" if task.target == "malignant" and nth == 1 else ""
        if nth == 0:
            return [
                _write("I start with trees; they need no scaling.", _program(task, 0)),
                _shell("Run it.", _RUN),
                Step("It predicts every row. That will do."),
            ]
        last = _program(task, 3 - nth, rows=short)
        return [
            _write("I start with trees; they need no scaling.", _program(task, 0)),
            _shell("Run it.", _RUN),
            _write("Not good enough. Another model:", last),
            _shell("Run it.", _RUN),
            Step("That will do."),
        ]
    wrong = f"{task.target}_label"
    return [
        look,
        _write(
            "A table of numbers and one target. I begin with a plain model, so that there is a submission early, and "
            "let cross-validation decide about everything after it.",
            _program(task, 0, target=wrong),
        ),
        _shell("First run.", _RUN),
        _edit(
            "The target has another name: the sample submission says which.",
            f'target = "{wrong}"',
            f'target = "{task.target}"',
        ),
        _shell("Again.", f"{_RUN} && {_CHECK}"),
        _write("It is well formed. Now a model that suits scaled measurements.", _program(task, 1)),
        _shell("I compare it with the score before.", _RUN),
        _write("Better. One with more room, regularised so that it does not overfit.", _program(task, 2 + nth % 2)),
        _shell("If it is better, its submission stays.", f"{_RUN} && {_CHECK}"),
        Step("Cross-validation is best with the last model; its submission is checked and stays."),
    ]


class _Provider(BaseHTTPRequestHandler):
    """Serves chat completions from the script. The ids of the tool calls encode the position in the script."""

    begun: Counter[tuple[str, str]]
    pace: float

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        agent = body["model"].removeprefix("scripted-")
        said = [message for message in body["messages"] if message["role"] == "tool"]
        if said:
            title, nth, done = str(said[-1]["tool_call_id"]).split("/")
            number = int(done) + 1
        else:
            prompt = body["messages"][0]["content"]
            title = next(task.title for task in TASKS if task.title in prompt)
            nth, number = str(self.begun[agent, title]), 0
            self.begun[agent, title] += 1
        task = next(task for task in TASKS if task.title == title)
        step = plan(agent, task, int(nth))[number]
        message: dict[str, Any] = {"role": "assistant", "content": step.text}
        if step.tool:
            call = {"name": step.tool, "arguments": json.dumps(step.arguments)}
            message["tool_calls"] = [{"id": f"{title}/{nth}/{number}", "type": "function", "function": call}]
        words, answer = len(json.dumps(body)) // 4, len(json.dumps(message)) // 4
        time.sleep(self.pace * (1 + answer / 100))
        usage = {"prompt_tokens": words, "completion_tokens": answer, "total_tokens": words + answer}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if step.tool else "stop"}
        whole = {"id": "c", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice]}
        content = json.dumps({**whole, "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def provider(pace: float = 0.3) -> Iterator[str]:
    """The base URL of the agents' model, on this machine; ``pace`` is what a short answer takes, in seconds."""
    handler = type("Provider", (_Provider,), {"begun": Counter(), "pace": pace})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join(10)


def write_agents(folder: Path) -> None:
    """Write the agents' definitions, and the prices of their models, into ``folder``: ``agents/``, ``prices.yaml``."""
    (folder / "agents").mkdir()
    shutil.copytree(bundled("agents") / "react", folder / "agents/react")
    (folder / "agents/react/config.yaml").unlink()
    for name in AGENTS:
        own = folder / "agents" / name
        own.mkdir()
        (own / "config.yaml").write_text(_CONFIG.format(name=name))
    (folder / "prices.yaml").write_text(PRICES)
