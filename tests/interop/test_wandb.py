"""Files for ``wandb sync``, read back as the log of records that they are, with W&B's own messages."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.records.group import read_group
from tests.interop.recorded import recorded_group

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(find_spec("wandb") is None, reason="needs the extra wandb"),
]
SECRET = "sk-of-a-test-0123456789abcdef"
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
    """The records of a log in LevelDB's format: blocks of 32 KiB with parts, each behind checksum, length and kind."""
    content, at, whole = file.read_bytes(), 7, b""  # behind W&B's own header
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


def test_a_run_for_each_record_and_a_table_of_outcomes_are_written_once(tmp_path: Path) -> None:
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


def test_without_a_key_one_line_says_so(tmp_path: Path) -> None:
    recorded_group(tmp_path / "runs/mine", runs=1)
    done = export(tmp_path / "runs/mine", HOME=str(tmp_path), WANDB_BASE_URL="http://127.0.0.1:9")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("mlebench: W&B: ")
