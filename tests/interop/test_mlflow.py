"""Runs and traces in a real MLflow, read back with its client. ``MLEBENCH_TEST_MLFLOW`` is a Python that has it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import urllib3

from pytest_mlebench.results import read_group
from tests.cluster.ports import free_ports
from tests.interop.recorded import recorded_group
from tests.interop.test_bounds import CALLS, MOST, RUNS, peak
from tests.interop.test_secrets import SECRET, leaking_group
from tests.reports.browser import Open

pytestmark = pytest.mark.full
READ = """
import json, sys
from mlflow import MlflowClient
client = MlflowClient(sys.argv[1])
experiment = client.get_experiment_by_name(sys.argv[2])
runs = []
for run in client.search_runs([experiment.experiment_id]):
    files = {file.path: file.file_size for file in client.list_artifacts(run.info.run_id)}
    history = client.get_metric_history(run.info.run_id, "timeline.score")
    runs.append({"id": run.info.run_id, "status": run.info.status, "params": run.data.params, "tags": run.data.tags,
                 "metrics": run.data.metrics, "files": files, "history": [[own.step, own.value] for own in history]})
traces = [
    {"state": str(trace.info.state), "spans": [span.name for span in trace.data.spans],
     "tokens": trace.info.token_usage,
     "events": [[event.name, event.attributes] for span in trace.data.spans for event in span.events]}
    for trace in client.search_traces(locations=[experiment.experiment_id])
]
print(json.dumps({"experiment": experiment.experiment_id, "runs": runs, "traces": traces}))
"""


class Server:
    """An MLflow server with a separate store."""

    def __init__(self, python: str, folder: Path) -> None:
        self.python, self.folder = python, folder
        folder.mkdir(parents=True, exist_ok=True)
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.start()

    def start(self) -> None:
        command = [self.python, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{self.folder}/store.db"]
        command += ["--artifacts-destination", f"{self.folder}/files", "--port", self.url.rpartition(":")[2]]
        environment = os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true"}
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--workers", "1"], stdout=log, stderr=log, env=environment, start_new_session=True
            )
        deadline = time.monotonic() + 300
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                    return
            except OSError:
                assert self._process.poll() is None and time.monotonic() < deadline, (self.folder / "log").read_text()
                time.sleep(0.2)

    def stop(self) -> None:
        os.killpg(self._process.pid, 9)
        self._process.wait()

    def read(self, experiment: str) -> Any:
        """An experiment as read by MLflow's client."""
        command = [self.python, "-c", READ, self.url, experiment]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    python = os.environ.get("MLEBENCH_TEST_MLFLOW")
    if not python:
        pytest.skip("MLEBENCH_TEST_MLFLOW names no Python that has mlflow")
    server = Server(python, tmp_path_factory.mktemp("mlflow"))
    try:
        yield server
    finally:
        server.stop()


def export(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_mlebench.cli", "export", *map(str, words)]
    environment = os.environ | variables
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


def test_a_group_is_an_experiment_whose_runs_are_sent_once_and_updated(server: Server, tmp_path: Path) -> None:
    group = tmp_path / "runs/mine"
    recorded_group(group, runs=2)
    command = "--to=mlflow", f"--tracking-uri={server.url}", group
    first = export(*command)
    assert first.returncode == 0, first.stderr
    assert first.stdout == f"{server.url}: experiment mine, 2 runs sent\n"
    gold, crashed = read_group(group).records
    found = {run["tags"]["mlebench.run_id"]: run for run in server.read("mine")["runs"]}
    assert found.keys() == {gold.run_id, crashed.run_id}
    own = found[gold.run_id]
    assert own["status"] == "FINISHED" and found[crashed.run_id]["status"] == "FAILED"
    assert (
        own["params"] | {"agent": "a", "competition": gold.competition_id, "seed": "0", "limits.gpus": "1"}
        == own["params"]
    )
    assert own["metrics"] | {"score": gold.score, "medal": 3.0, "cost": 0.03, "tokens.input": 300.0} == own["metrics"]
    assert own["history"] == [[30, gold.timeline[0].score], [60, gold.score]]
    assert (own["tags"]["mlebench.verified_data"], own["tags"]["mlebench.bench_version"]) == ("yes", "v1")
    assert own["files"].keys() == {"report.json", "run.json", "run.log", "submission.csv", "trajectory.json"}
    again = export(*command)
    assert again.stdout == f"{server.url}: experiment mine, 0 runs sent, 2 were there already\n", again.stderr
    replace(gold, report=replace(gold.report, percentile=12.0)).write(group / gold.run_id)
    assert "1 run sent, 1 were there" in export(*command).stdout
    updated = {run["tags"]["mlebench.run_id"]: run for run in server.read("mine")["runs"]}
    assert len(updated) == 2 and updated[gold.run_id]["id"] == own["id"]
    assert updated[gold.run_id]["metrics"]["percentile"] == 12.0
    assert updated[gold.run_id]["history"] == own["history"]


def test_mlflow_also_accepts_traces_and_shows_both(server: Server, tmp_path: Path, open_tab: Open) -> None:
    group = tmp_path / "runs/traced"
    recorded_group(group, runs=2)
    assert export("--to=mlflow", f"--tracking-uri={server.url}", group).returncode == 0
    experiment = server.read("traced")["experiment"]
    headers = tmp_path / "headers"
    headers.touch(0o600)
    headers.write_text(f"x-mlflow-experiment-id: {experiment}\n")
    for _ in range(2):
        done = export("--to=otlp", f"--endpoint={server.url}", f"--headers={headers}", "--otlp-content", group)
        assert done.returncode == 0, done.stderr
    traces = server.read("traced")["traces"]
    assert sorted(trace["state"].rpartition(".")[2] for trace in traces) == ["ERROR", "OK"]
    names = ["chat gpt-4o"] * 4 + ["execute_tool bash"] * 2 + ["invoke_agent a"]
    assert [sorted(trace["spans"]) for trace in traces] == [names, names]
    assert traces[0]["tokens"]["input_tokens"] == 300
    grades = [event for trace in traces for event in trace["events"] if event[0] == "gen_ai.evaluation.result"]
    assert {event[1]["gen_ai.evaluation.score.label"] for event in grades} == {"gold", "bronze", "none"}
    tab = open_tab(f"{server.url}/#/experiments/{experiment}/runs")
    tab.wait("document.body.innerText.includes('smoke-diabetes_a-0')")
    tab.go(f"{server.url}/#/experiments/{experiment}/traces?startTimeLabel=ALL")
    tab.wait("document.body.innerText.includes('smoke-diabetes_a-1') && document.body.innerText.includes('360')")


def test_mlflow_stores_no_secret(server: Server, tmp_path: Path) -> None:
    leaking_group(tmp_path / "runs/secret")
    done = export("--to=mlflow", f"--tracking-uri={server.url}", tmp_path / "runs/secret", OPENAI_API_KEY=SECRET)
    assert done.returncode == 0, done.stderr
    stored = [path for path in server.folder.rglob("*") if path.is_file()]
    assert any(b"***" in path.read_bytes() for path in stored if path.suffix != ".db")
    assert not [path for path in stored if SECRET.encode() in path.read_bytes()]


@pytest.mark.skipif(find_spec("mlflow") is None, reason="needs the extra mlflow")
@pytest.mark.parametrize("login", [f"me:{SECRET}@", f"me:pa/{SECRET}@"])
def test_an_unreachable_server_is_named_without_its_password(login: str, tmp_path: Path) -> None:
    recorded_group(tmp_path / "runs/mine", runs=1)
    uri, retries = f"--tracking-uri=http://{login}127.0.0.1:9/", {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    done = export("--to=mlflow", uri, tmp_path / "runs/mine", **retries)
    assert done.returncode == 2 and "sends nothing twice" in done.stderr, done.stderr
    assert SECRET not in done.stdout + done.stderr


def test_a_server_killed_half_way_gets_the_rest_without_duplicates(server: Server, tmp_path: Path) -> None:
    own = Server(server.python, tmp_path / "killed")
    group = tmp_path / "runs/long"
    recorded_group(group, runs=6)
    variables = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "0"}
    words = ["-m", "pytest_mlebench.cli", "export", "--to=mlflow", f"--tracking-uri={own.url}", str(group)]
    try:
        environment = os.environ | variables
        with subprocess.Popen([sys.executable, *words], env=environment, stderr=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + 120
            while len(list((own.folder / "files").rglob("run.json"))) < 2:
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.02)
            own.stop()
            _, err = process.communicate(timeout=120)
        assert process.returncode == 2
        assert "the same command continues where this one stopped" in err and "Traceback" not in err
        own.start()
        done = export("--to=mlflow", f"--tracking-uri={own.url}", group)
        assert done.returncode == 0 and "were there already" in done.stdout
        runs = own.read("long")["runs"]
        assert sorted(run["tags"]["mlebench.run_id"] for run in runs) == sorted(
            r.run_id for r in read_group(group).records
        )
        assert all(len(run["history"]) == len({tuple(point) for point in run["history"]}) for run in runs)
        assert all(len(run["files"]) >= 4 for run in runs)
    finally:
        own.stop()


@contextmanager
def careless_proxy(server: Server, answers: dict[str, list[str | int]]) -> Iterator[str]:
    """The URL of a proxy before a server. ``answers`` lists faults by the last part of a path: ``lose`` the response,
    ``drop`` the request, ``stall`` until the client gives up, or a status. Later requests are forwarded."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            plan = answers.get(self.path.partition("?")[0].rpartition("/")[2], [])
            answer = plan.pop(0) if plan else None
            if answer == "drop":
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if answer == "stall":
                self.close_connection = True
                self.connection.recv(1)  # ends when the client has closed the connection
                return
            if isinstance(answer, int):
                self.respond(answer, b"not now")
                return
            headers = {
                name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")
            }
            found = http.request(
                self.command, server.url + self.path, body=body, headers=headers, retries=False, redirect=False
            )
            if answer == "lose":
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.respond(found.status, found.data)

        do_GET = do_PUT = do_PATCH = do_POST

        def respond(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with urllib3.PoolManager() as http, ThreadingHTTPServer(("127.0.0.1", 0), Handler) as proxy:
        proxy.handle_error = lambda *_: None  # type: ignore[method-assign]
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{proxy.server_port}"
        finally:
            proxy.shutdown()
            thread.join()


def test_lost_responses_and_errors_cause_no_duplicates(server: Server, tmp_path: Path) -> None:
    group = tmp_path / "runs/careless"
    recorded_group(group, runs=3)
    answers: dict[str, list[str | int]] = {
        "create": ["lose", 500, "drop", "lose"],
        "log-batch": [503, "lose", "drop", "stall", "lose"],
        "search": ["drop", "stall"],
        "set-tag": ["lose", 500],
        "trajectory.json": ["lose", 413, "stall"],
    }
    variables = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "0"}
    variables |= {"MLFLOW_HTTP_REQUEST_TIMEOUT": "2"}
    with careless_proxy(server, answers) as url:
        for _ in range(12):
            done = export("--to=mlflow", f"--tracking-uri={url}", group, **variables)
            assert "Traceback" not in done.stderr
            if done.returncode == 0:
                break
        assert done.returncode == 0, done.stderr
    assert not any(answers.values()), "each fault occurred"
    runs = server.read("careless")["runs"]
    assert sorted(run["tags"]["mlebench.run_id"] for run in runs) == sorted(r.run_id for r in read_group(group).records)
    for run in runs:
        assert len(run["history"]) == len({tuple(point) for point in run["history"]}) >= 1
        assert run["params"]["agent"] == "a" and len(run["files"]) >= 4 and run["metrics"]["seconds"] == 60.0


def test_10_000_calls_of_225_runs_are_sent_in_bounded_memory(server: Server, tmp_path: Path) -> None:
    recorded_group(tmp_path / "runs/large", runs=RUNS, calls=CALLS, copies=True)
    assert peak("--to=mlflow", f"--tracking-uri={server.url}", tmp_path / "runs/large") < MOST
    runs = server.read("large")["runs"]
    assert len({run["tags"]["mlebench.run_id"] for run in runs}) == len(runs) == RUNS


def test_mlflow_needs_an_address(tmp_path: Path) -> None:
    recorded_group(tmp_path / "runs/mine", runs=1)
    done = export("--to=mlflow", tmp_path / "runs/mine", MLFLOW_TRACKING_URI="")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "--tracking-uri" in done.stderr
