"""GPUs in Apptainer's containers. A fake driver program reports two, so the machine does not need any."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench import Bench
from tests.sandbox.scripted import ENGINE, make_runner

pytestmark = [
    pytest.mark.docker,
    pytest.mark.serial,
    pytest.mark.skipif(ENGINE != "apptainer", reason="MLEBENCH_TEST_ENGINE=apptainer runs it"),
]
DRIVER = """#!/bin/sh
if [ "$1" = -L ]; then
    printf 'GPU 0: Test GPU (UUID: GPU-aaaa)\\nGPU 1: Test GPU (UUID: GPU-bbbb)\\n'
else
    printf '0, GPU-aaaa, Test GPU\\n1, GPU-bbbb, Test GPU\\n'
fi
"""
APPTAINER = """#!/bin/bash
# Binds the stand-in of the driver where Apptainer would bind the driver, and records each command.
echo "$*" >>"{log}"
words=()
for word in "$@"; do
    [ "$word" = --nv ] && words+=(--bind "{driver}:/usr/bin/nvidia-smi:ro") || words+=("$word")
done
exec "{apptainer}" "${{words[@]}}"
"""


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the arguments of each Apptainer command."""
    folder, log, apptainer = tmp_path / "bin", tmp_path / "commands", shutil.which("apptainer")
    folder.mkdir()
    (folder / "nvidia-smi").write_text(DRIVER)
    text = APPTAINER.format(log=log, driver=folder / "nvidia-smi", apptainer=apptainer)
    (folder / "apptainer").write_text(text)
    for program in folder.iterdir():
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MLEBENCH_GPU_LOCKS", str(tmp_path / "locks"))
    return log


@pytest.mark.parametrize(("gpus", "visible"), [(1, "GPU-bbbb"), (0, "")])
def test_a_run_sees_only_its_own_gpus_of_the_job(gpus: int, visible: str, commands: Path, tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"gpus": gpus, "gpu_ids": "1"} if gpus else {}
    images = os.environ["MLEBENCH_TEST_SIF"]
    bench = Bench(sandbox="apptainer", build_network="full", sif=images, reporter=print, **chosen)
    run = make_runner(bench.building_sandbox(), tmp_path / "run")
    result = run('echo "<$CUDA_VISIBLE_DEVICES>"', gpus=gpus, environment={"CUDA_VISIBLE_DEVICES": "0,1"})
    account = result.execution.sandbox
    assert account.gpus == tuple(filter(None, [visible]))
    assert f"<{visible}>" in result.log
    (command,) = [line for line in commands.read_text().splitlines() if line.endswith("/opt/mlebench-harness")]
    assert ("--nv" in command.split()) == bool(gpus)
    assert "/dev/" not in command
