"""Leases and records on a real NVIDIA GPU. Needs the driver, and PyTorch for the `python3` on the PATH."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest

from pytest_mlebench import Bench
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.sandbox.gpus import detect, query

GPUS = detect() if shutil.which("nvidia-smi") else []
AGENT = """#!/bin/bash
cp "$DATA_DIR/sample_submission.csv" "$SUBMISSION_DIR/submission.csv"
echo "visible: $CUDA_VISIBLE_DEVICES"
python3 - <<'END'
import time
import torch

print("devices:", torch.cuda.device_count(), torch.cuda.get_device_name(0), flush=True)
block = torch.randn(8192, 8192, device="cuda")
end = time.monotonic() + 8
while time.monotonic() < end:
    block = torch.nn.functional.normalize(block @ block)
    torch.cuda.synchronize()
END
"""

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not GPUS, reason="needs an NVIDIA GPU"),
    pytest.mark.skipif(
        bool(GPUS) and subprocess.run(["python3", "-c", "import torch"], capture_output=True).returncode != 0,
        reason="needs PyTorch",
    ),
]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLEBENCH_GPU_LOCKS", str(tmp_path / "locks"))
    agent = tmp_path / "agents/multiplies"
    agent.mkdir(parents=True)
    (agent / "start.sh").write_text(AGENT)
    (agent / "config.yaml").write_text("multiplies:\n  start: multiplies/start.sh\n")
    return Bench(
        sandbox="local",
        trust_agent="multiplies",
        gpus=1,
        gpu_ids=[GPUS[0].uuid],
        data_dir=tmp_path / "data",
        agents_dir=[agent.parent],
    )


def test_the_driver_shows_each_gpu_once() -> None:
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    assert all(gpu.uuid in listed for gpu in GPUS)
    assert len({gpu.uuid for gpu in GPUS}) == len(GPUS)
    assert len(query("uuid,utilization.gpu,memory.used")) >= 1


def test_a_run_computes_on_its_gpu_and_the_record_contains_the_usage(bench: Bench) -> None:
    group = bench.run("multiplies", "smoke-diabetes", group="one")
    (record,) = group.records
    (log,) = group.folder.glob("*/run.log")
    assert f"visible: {GPUS[0].uuid}\ndevices: 1 " in log.read_text()
    assert record.sandbox.gpus == (GPUS[0].name,)
    used = record.sandbox.gpu_usage[GPUS[0].uuid]
    assert used["samples"] >= 2
    assert 50 < used["utilization_peak"] <= 100
    assert used["memory_peak"] > 256 * 2**20  # this allocation alone takes 256 MiB


def test_two_runs_take_turns_on_one_gpu(bench: Bench) -> None:
    with ThreadPoolExecutor(2) as pool:
        groups = list(pool.map(lambda name: bench.run("multiplies", "smoke-diabetes", group=name), ("a", "b")))
    first, second = sorted((group.records[0] for group in groups), key=_start)
    assert _start(second).timestamp() >= _start(first).timestamp() + 7


def _start(record: RunRecord) -> datetime:
    return datetime.fromisoformat(record.started_at)
