"""Files for ``wandb sync``, read back as logs of records with W&B's message classes."""

from __future__ import annotations

import gzip
import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.results import read_group
from tests.interop.recorded import recorded_group
from tests.interop.test_secrets import SECRET, leaking_group

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(find_spec("wandb") is None, reason="needs the extra wandb"),
]
READ = """
import json, sys
from google.protobuf.json_format import MessageToDict
from wandb.proto import wandb_internal_pb2
for line in sys.stdin:
    print(json.dumps(MessageToDict(wandb_internal_pb2.Record.FromString(bytes.fromhex(line)))))
"""
_BLOCK = 1 << 15
_FULL, _LAST = 1, 4


def records_of(file: Path) -> Iterator[bytes]:
    """The records of a log in LevelDB's format: 32 KiB blocks of parts, each after its checksum, length and type."""
    content, at, whole = file.read_bytes(), 7, b""  # after W&B's header
    while at + 7 <= len(content):
        if _BLOCK - at % _BLOCK < 7:
            at += _BLOCK - at % _BLOCK
        _, length, kind = struct.unpack("<IHB", content[at : at + 7])
        whole += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (_FULL, _LAST):
            yield whole
            whole = b""


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Name, configuration, history and summary of each run of a folder, by name."""
    found = {}
    for file in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        lines = "\n".join(record.hex() for record in records_of(file))
        done = subprocess.run([sys.executable, "-c", READ], input=lines, capture_output=True, text=True, check=True)
        own: dict[str, Any] = {"history": [], "summary": {}}
        for record in map(json.loads, done.stdout.splitlines()):
            if "run" in record:
                own["run"] = record["run"]
                own["config"] = {
                    item["key"]: json.loads(item["valueJson"]) for item in record["run"]["config"]["update"]
                }
            elif "history" in record:
                own["history"].append(pairs(record["history"]["item"]))
            elif "summary" in record:
                own["summary"] |= pairs(record["summary"].get("update", []))
            elif "exit" in record:
                own["exit"] = record["exit"].get("exitCode", 0)
        found[own["run"]["displayName"]] = own
    return found


def pairs(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {".".join(item.get("nestedKey", [item.get("key", "")])): json.loads(item["valueJson"]) for item in items}


def export(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_mlebench.cli", "export", "--to=wandb", *map(str, words)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WANDB")} | variables
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


def test_each_record_gets_one_run_and_the_group_one_table_of_outcomes(tmp_path: Path) -> None:
    group, out = tmp_path / "runs/mine", tmp_path / "out"
    for record in recorded_group(group, runs=2, said=f"key {SECRET}"):
        replace(record, detail=SECRET, versions={"agent": SECRET}).write(group / record.run_id)
    for _ in range(2):
        done = export("--offline", "--project=medals", "-o", out, group, OPENAI_API_KEY=SECRET)
        assert (done.returncode, done.stdout) == (0, f"{out}: 2 runs for `wandb sync`\n"), done.stderr
    gold, crashed = read_group(group).records
    found = read(out)
    assert found.keys() == {gold.run_id, crashed.run_id, "mine outcomes"}
    own = found[gold.run_id]
    assert (own["run"]["project"], own["run"]["runGroup"], own["exit"]) == ("medals", "mine", 0)
    assert found[crashed.run_id]["exit"] == 1
    assert own["config"] | {"agent": "a", "seed": 0, "limits.gpus": 1, "versions.agent": "***"} == own["config"]
    assert [(point["_step"], point["timeline.seconds"]) for point in own["history"]] == [(0, 30.0), (1, 60.0)]
    assert own["history"][1]["timeline.score"] == gold.score
    assert own["summary"] | {"score": gold.score, "medal": 3, "cost": 0.03} == own["summary"]
    (table,) = out.glob("wandb/offline-run-*/files/media/table/*.json")
    rows = json.loads(table.read_text())["data"]
    assert [(row[0], row[1], row[3]) for row in rows] == [
        (gold.competition_id, 0, "gold"),
        (crashed.competition_id, 1, "crashed"),
    ]
    assert not [path for path in out.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_a_missing_key_gives_a_one_line_error(tmp_path: Path) -> None:
    recorded_group(tmp_path / "runs/mine", runs=1)
    done = export(tmp_path / "runs/mine", HOME=str(tmp_path), WANDB_BASE_URL="http://127.0.0.1:9")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("mlebench: W&B: ")


class Tracker(BaseHTTPRequestHandler):
    """The part of W&B's API that an export uses, because W&B's server is not free software."""

    takes: int | str = 200
    """The status of responses to a run's data; or ``drop`` its connection, or ``stall`` until the client closes it."""
    takes_uploads = True
    talks_sense = True
    """If False, responses lack the requested values."""
    runs: dict[str, dict[str, Any]]
    """Received data by run ID."""
    received: list[bytes]
    """Each received request, decompressed."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.received.append(f"{self.path}\n{self.headers}".encode() + body)
        if self.path == "/graphql":
            self.answer(200, {"data": self.asked(**json.loads(body))})
            return
        if self.path.endswith("/file_stream") and self.takes == 200:
            self.stream(self.path.split("/")[4], json.loads(body).get("files") or {})
        if self.path.startswith("/upload/") and self.takes == 200:
            _, _, id, name = self.path.split("/", 3)
            if self.takes_uploads:
                self.runs[id]["files"][name] = len(body)
            self.answer(200 if self.takes_uploads else 413, {})
            return
        if isinstance(self.takes, int):
            self.answer(self.takes, {})
            return
        if self.takes == "stall":
            self.connection.recv(1)
        self.close_connection = True

    do_GET = do_PUT = do_POST

    def stream(self, id: str, files: dict[str, Any]) -> None:
        own = self.runs[id]
        if history := files.get("wandb-history.jsonl"):
            lines = [json.loads(line) for line in history["content"]]
            own["history"][history["offset"] :] = lines
        if summary := files.get("wandb-summary.json"):
            own["summary"] = json.loads(summary["content"][-1])

    def asked(self, query: str, variables: dict[str, Any] | None = None, **_: Any) -> dict[str, Any]:
        values = variables or {}
        if "query Runs" in query:
            return {"project": self.found()}
        if "query RunFiles" in query:
            return {"project": {"internalId": "1", "run": self.uploaded(values["name"], values["fileNames"])}}
        project = {"name": values.get("project"), "entity": {"name": "me"}}
        bucket = {"id": "r", "name": values.get("name"), "displayName": "r", "project": project}
        if "mutation UpsertBucket" in query:
            own = self.runs.setdefault(values["name"], {"history": [], "summary": {}, "files": {}})
            own |= {name: values[name] for name in ("displayName", "groupName", "project") if values[name]}
        answer: dict[str, Any] = {
            "viewer": {"id": "u", "entity": "me", "username": "me", "email": "", "flags": "{}", "teams": {"edges": []}},
            "model": {"bucket": self.resumed(values.get("name"))},
            "upsertBucket": {"bucket": bucket, "inserted": True},
        }
        if self.talks_sense:
            url = f"http://{self.headers['Host']}/upload/{values.get('run')}/"
            files = [{"name": name, "uploadUrl": url + name} for name in values.get("files") or []]
            answer["createRunFiles"] = {"runID": "r", "uploadHeaders": [], "files": files}
            answer["project"] = {"artifact": None}
            sequence = {"id": "s", "latestArtifact": {"id": "a", "versionIndex": 0}}
            answer["createArtifact"] = {"artifact": {"id": "a", "state": "COMMITTED", "artifactSequence": sequence}}
        return answer

    def resumed(self, id: str | None) -> dict[str, Any] | None:
        """The state of earlier uploads, as sent to a resumed run."""
        if (own := self.runs.get(id or "")) is None:
            return None
        lines = [json.dumps(line) for line in own["history"]]
        tail = json.dumps(lines[-1:])
        counts = {"historyLineCount": len(lines), "logLineCount": 0, "eventsLineCount": 0}
        summary = json.dumps(own["summary"])
        return (
            counts
            | {"displayName": own["displayName"], "summaryMetrics": summary, "config": "{}"}
            | {"historyTail": tail, "eventsTail": "[]", "notes": "", "wandbConfig": json.dumps({"t": 1})}
        )

    def uploaded(self, id: str, names: list[str]) -> dict[str, Any]:
        kept = {name: size for name, size in self.runs[id]["files"].items() if name in names}
        empty = dict.fromkeys(("url", "directUrl", "mimetype", "updatedAt", "md5"))
        edges = [
            {"node": empty | {"id": name, "name": name, "sizeBytes": size}, "cursor": "1"}
            for name, size in kept.items()
        ]
        return {
            "fileCount": len(edges),
            "files": {"edges": edges, "pageInfo": {"endCursor": "1", "hasNextPage": False}},
        }

    def found(self) -> dict[str, Any]:
        empty = ("sweepName", "jobType", "commit", "description", "notes", "historyKeys")
        moment = "2026-01-01T00:00:00"
        nodes = [
            dict.fromkeys(empty)
            | {"id": id, "projectId": "1", "name": id, "displayName": own["displayName"], "group": own["groupName"]}
            | {"tags": [], "state": "finished", "config": "{}", "readOnly": False, "systemMetrics": "{}"}
            | {"createdAt": moment, "heartbeatAt": moment, "historyLineCount": len(own["history"])}
            | {"summaryMetrics": json.dumps(own["summary"]), "user": {"name": "me", "username": "me"}}
            for id, own in self.runs.items()
        ]
        page = {"endCursor": "1", "hasNextPage": False}
        runs = {"edges": [{"node": node, "cursor": "1"} for node in nodes], "pageInfo": page}
        return {"internalId": "1", "runCount": len(nodes), "readOnly": False, "runs": runs}

    def answer(self, status: int, value: dict[str, Any]) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


IMPATIENT = """
import sys
from pytest_mlebench.cli.main import main
from pytest_mlebench.extras.interop import to_wandb
to_wandb._FINISH_SECONDS = 3
to_wandb._READ_BACK_WAITS = (0, 0.1)
sys.exit(main(["export", "--to=wandb", sys.argv[1]]))
"""
Run = dict[str, Any]


def exported(group: Path, *traits: dict[str, Any]) -> tuple[list[subprocess.CompletedProcess[str]], dict[str, Run]]:
    """Export a group several times to one tracker, with other traits each time; also return its runs by name."""
    runs: dict[str, Run] = {}
    shared: dict[str, Any] = {"runs": runs, "received": []}
    done = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Tracker) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        own = {"WANDB_BASE_URL": f"http://127.0.0.1:{server.server_port}", "WANDB_API_KEY": "a" * 40}
        for now in traits:
            server.RequestHandlerClass = type("Handler", (Tracker,), shared | now)
            done.append(
                subprocess.run(
                    [sys.executable, "-c", IMPATIENT, group],
                    env=os.environ | own | {"HOME": str(group.parent), "OPENAI_API_KEY": SECRET},
                    cwd=group.parent,
                    capture_output=True,
                    text=True,
                    timeout=120,
                )
            )
        server.shutdown()
    return done, {run["displayName"]: run for run in runs.values()}


def test_a_server_gets_each_run_once_after_repeated_exports(tmp_path: Path) -> None:
    group = tmp_path / "runs/mine"
    recorded_group(group, runs=2)
    done, runs = exported(group, {}, {})
    for own in done:
        assert (own.returncode, own.stdout) == (0, "W&B, project mle-bench: 2 runs of mine\n"), own.stderr
    gold, crashed = read_group(group).records
    assert runs.keys() == {gold.run_id, crashed.run_id, "mine outcomes"}
    assert [point["timeline.seconds"] for point in runs[gold.run_id]["history"]] == [30.0, 60.0]
    assert runs[gold.run_id]["summary"]["score"] == gold.score
    assert runs["mine outcomes"]["summary"]["outcomes"]["nrows"] == 2


def test_a_server_receives_no_secret(tmp_path: Path) -> None:
    leaking_group(tmp_path / "runs/secret")
    received: list[bytes] = []
    (done,), runs = exported(tmp_path / "runs/secret", {"received": received})
    assert done.returncode == 0, done.stderr
    assert len(runs) == 2 and any(b"***" in request for request in received)
    assert not [request for request in received if SECRET.encode() in request]


def test_data_silently_rejected_by_a_server_is_noticed(tmp_path: Path) -> None:
    group = tmp_path / "runs/mine"
    recorded_group(group, runs=1)
    (done,), _ = exported(group, {"takes": 413})
    assert done.returncode == 2 and "Traceback" not in done.stderr
    (record,) = read_group(group).records
    expected = f"mlebench: W&B lacks data of 2 of 2 runs ({record.run_id}, outcomes): "
    assert done.stderr.splitlines()[-1].startswith(expected), done.stderr


def test_a_file_rejected_by_a_server_is_noticed(tmp_path: Path) -> None:
    recorded_group(tmp_path / "runs/mine", runs=1)
    (bad, good), _ = exported(tmp_path / "runs/mine", {"takes_uploads": False}, {})
    assert bad.returncode == 2 and "W&B lacks data of 1 of 2 runs (outcomes): " in bad.stderr, bad.stderr
    assert good.returncode == 0, good.stderr


@pytest.mark.parametrize(
    "traits",
    [{"takes": 500}, {"takes": "drop"}, {"takes": "stall"}, {"talks_sense": False}],
    ids=["errors", "drops", "stalls", "nonsense"],
)
def test_a_bad_server_gives_a_one_line_error_and_gets_the_rest_later(tmp_path: Path, traits: dict[str, Any]) -> None:
    group = tmp_path / "runs/mine"
    (record,) = recorded_group(group, runs=1)
    (bad, good), runs = exported(group, traits, {})
    assert bad.returncode == 2 and "Traceback" not in bad.stderr, bad.stderr
    assert bad.stderr.splitlines()[-1].startswith("mlebench: W&B: ")
    assert good.returncode == 0, good.stderr
    assert runs.keys() == {record.run_id, "mine outcomes"}
    assert [point["timeline.seconds"] for point in runs[record.run_id]["history"]] == [30.0, 60.0]
